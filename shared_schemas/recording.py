"""What lies in a session directory: names, `meta.json` and `recording.json`, typed (internals.txt).

Times named `*_ts_ms` are milliseconds since `start_ts`, from the Redis clock; file names are
relative to the session directory. Fields that do not apply are left out of `recording.json`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import orjson
from pydantic import AwareDatetime, Discriminator, Field, Tag, TypeAdapter

from antiphon.shared_schemas.duplex_recording import (
    ChunkRecord,
    DiagnosticRecord,
    Recording,
    Timing,
    UnitRecord,
)
from antiphon.shared_schemas.recording_parts import EventRecord, Gap, Range, Record, Trouble
from antiphon.shared_schemas.states import EndReason, SessionKind
from antiphon.shared_schemas.turn_recording import (
    MessageRecord,
    PartRecord,
    TurnInput,
    TurnOutput,
    TurnRecord,
    TurnRecording,
    TurnTiming,
)

META_FILE = "meta.json"
RECORDING_FILE = "recording.json"
REPLAY_WAV = "merged_replay.wav"
REPLAY_VIDEO = "merged_replay.mp4"
TIMELINE_FILE = "timeline.jsonl"
"""The recorder's journal; it exists only while a session is being recorded or merged."""

USED_FILE = ".last_used"
"""Whoever reads a recording may touch this file: its time counts as the last use."""

SESSION_FOLDERS = ("user_audio", "user_frames", "ai_audio", "user_images")


class RecordingState(StrEnum):
    """`interrupted`: a part of the session, or its end, could not be recorded (`Meta.missing`)."""

    RECORDING = "recording"
    COMPLETE = "complete"
    INTERRUPTED = "interrupted"


class ReplayState(StrEnum):
    """Where the merged replay stands. `none`: there is nothing to hear; `failed`: `Meta.replay_error`."""

    MERGING = "merging"
    READY = "ready"
    NONE = "none"
    FAILED = "failed"


class Meta(Record):
    """`meta.json`. `reason` is why the session ended, None where that is unknown.

    `chunks` counts those of a duplex session, `turns` those of the other kinds. `replay` is None
    while the session is recorded; `merged_replay`, `merged_replay_video` name what exists of it.
    `missing` and `degraded` tell what was lost, what came late, and why.
    """

    session_id: str
    recording_id: str
    ticket: int
    app_type: SessionKind
    state: RecordingState
    reason: EndReason | None = None
    created_at: AwareDatetime
    ended_at: AwareDatetime | None = None
    duration_s: float | None = None
    worker_id: str = ""
    chunks: int | None = None
    turns: int | None = None
    config: dict[str, Any]
    missing: list[Gap] = Field(default_factory=list)
    degraded: list[Trouble] = Field(default_factory=list)
    replay: ReplayState | None = None
    replay_error: str | None = None
    merged_replay: str | None = None
    merged_replay_video: str | None = None

    @property
    def is_busy(self) -> bool:
        """True while a recorder writes there: the session is being recorded, or merged."""
        return self.state is RecordingState.RECORDING or self.replay is ReplayState.MERGING


def _mode_of(recording: Any) -> str | None:
    if isinstance(recording, Recording | TurnRecording):
        return recording.mode
    return recording.get("mode") if isinstance(recording, dict) else None


_RECORDING: TypeAdapter[Recording | TurnRecording] = TypeAdapter(
    Annotated[
        Annotated[Recording, Tag("duplex")]
        | Annotated[TurnRecording, Tag("half_duplex")]
        | Annotated[TurnRecording, Tag("chat")],
        Discriminator(_mode_of),
    ]
)


def encode_meta(meta: Meta) -> bytes:
    """The text of `meta.json`."""
    return orjson.dumps(meta.model_dump(mode="json"), option=orjson.OPT_INDENT_2)


def parse_meta(text: bytes) -> Meta:
    """Inverse of `encode_meta`. Raises ValueError."""
    return Meta.model_validate_json(text)


def encode_recording(recording: Recording | TurnRecording) -> bytes:
    """The text of `recording.json`."""
    data = recording.model_dump(mode="json", exclude_none=True)
    return orjson.dumps(data, option=orjson.OPT_INDENT_2)


def parse_recording(text: bytes) -> Recording | TurnRecording:
    """Inverse of `encode_recording`, told apart by `mode`. Raises ValueError."""
    return _RECORDING.validate_json(text)


__all__ = [
    "META_FILE",
    "RECORDING_FILE",
    "REPLAY_VIDEO",
    "REPLAY_WAV",
    "SESSION_FOLDERS",
    "TIMELINE_FILE",
    "USED_FILE",
    "ChunkRecord",
    "DiagnosticRecord",
    "EventRecord",
    "Gap",
    "MessageRecord",
    "Meta",
    "PartRecord",
    "Range",
    "Recording",
    "RecordingState",
    "ReplayState",
    "Timing",
    "Trouble",
    "TurnInput",
    "TurnOutput",
    "TurnRecord",
    "TurnRecording",
    "TurnTiming",
    "UnitRecord",
    "encode_meta",
    "encode_recording",
    "parse_meta",
    "parse_recording",
]
