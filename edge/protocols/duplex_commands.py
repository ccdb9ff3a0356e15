"""What a `/ws/duplex` client may ask for, after the door has checked it."""

from __future__ import annotations

from dataclasses import dataclass, field

from antiphon.shared_schemas.entries import (
    ChunkIn,
    DiagnosticIn,
    PauseIn,
    PlaybackIn,
    PrepareIn,
    ResumeIn,
    StopIn,
)


@dataclass(frozen=True, slots=True)
class CameraFrame:
    """A picture that belongs to the next chunk of audio."""

    data: bytes = field(repr=False)


DuplexCommand = (
    PrepareIn | ChunkIn | CameraFrame | PauseIn | ResumeIn | PlaybackIn | StopIn | DiagnosticIn
)

WIRE_NAMES: dict[type[DuplexCommand], str] = {
    PrepareIn: "prepare",
    ChunkIn: "audio_chunk",
    CameraFrame: "video_frame",
    PauseIn: "pause",
    ResumeIn: "resume",
    PlaybackIn: "playback_ack",
    StopIn: "stop",
    DiagnosticIn: "client_diagnostic",
}
"""The `type` under which each command comes."""
