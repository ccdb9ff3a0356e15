"""What a client sends on `/ws/duplex/{session_id}` (duplex-api.txt), with the aliases real clients use.

Unknown fields are ignored, wrong types refused by name.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, ConfigDict, Field, TypeAdapter

from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.media import Media, Payload
from antiphon.shared_schemas.wire import ClientMessage, MessageReader

DEFAULT_SYSTEM_PROMPT = "You are a helpful assistant."
MAX_FRAMES = 4
"""JPEG frames that one chunk may carry."""

Slices = Annotated[int, Field(ge=1, le=9)]
PlayedMs = Annotated[float, Field(ge=0, le=86_400_000)]


class Prepare(ClientMessage):
    """Initialise the session. Audio references are base64 float32 PCM at 16 kHz."""

    type: Literal["prepare"]
    system_prompt: str = Field(
        default=DEFAULT_SYSTEM_PROMPT,
        max_length=20_000,
        validation_alias=AliasChoices("prefix_system_prompt", "system_prompt"),
    )
    config: DuplexConfig = DuplexConfig()
    ref_audio_path: str | None = None
    ref_audio_base64: Media | None = None
    tts_ref_audio_base64: Media | None = None
    deferred_finalize: bool = True
    max_slice_nums: Slices | None = None
    record: bool = True


class AudioChunk(ClientMessage):
    """One chunk of microphone audio, with the camera frames that belong to it."""

    type: Literal["audio_chunk"]
    audio: Media = Field(validation_alias=AliasChoices("audio", "audio_base64"))
    frame_base64_list: list[Media] | None = Field(default=None, max_length=MAX_FRAMES)
    force_listen: bool = False
    max_slice_nums: Slices | None = None


class VideoFrame(ClientMessage):
    """A camera frame (base64 JPEG) that belongs to the next audio chunk."""

    type: Literal["video_frame"]
    frame: Media


class Pause(ClientMessage):
    """Suspend the session for at most `timeout` seconds (default: the server's pause timeout)."""

    type: Literal["pause"]
    timeout: float | None = Field(default=None, gt=0)


class Resume(ClientMessage):
    """Go on after a pause."""

    type: Literal["resume"]


class PlaybackAck(ClientMessage):
    """How much of the current answer's sound has been played, so that it remembers what was heard."""

    type: Literal["playback_ack"]
    played_ms: PlayedMs


class Stop(ClientMessage):
    """End the session."""

    type: Literal["stop"]


class ClientDiagnostic(ClientMessage):
    """Figures measured by the client; every field is kept with the recording."""

    model_config = ConfigDict(extra="allow")

    type: Literal["client_diagnostic"]
    metrics: dict[str, Any] | None = None


DuplexClientMessage = Annotated[
    Prepare | AudioChunk | VideoFrame | Pause | Resume | PlaybackAck | Stop | ClientDiagnostic,
    Field(discriminator="type"),
]

_READER: MessageReader[DuplexClientMessage] = MessageReader(
    TypeAdapter(DuplexClientMessage),
    *("prepare", "audio_chunk", "video_frame", "pause", "resume", "playback_ack", "stop"),
    "client_diagnostic",
)


def parse_duplex_message(data: object, payload: Payload | None = None) -> DuplexClientMessage:
    """Check one decoded JSON value. Raises InvalidInput naming the field and the remedy."""
    return _READER.parse(data, payload)
