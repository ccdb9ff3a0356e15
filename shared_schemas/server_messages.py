"""What the edge sends on `/ws/duplex/{session_id}` (duplex-api.txt). None-valued fields are left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from antiphon.shared_schemas.wire import ServerMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued(ServerMessage):
    """The session waits; sent only when there is a wait. Seconds; position is 1-based."""

    type: ClassVar[str] = "queued"
    bears_token: ClassVar[bool] = True
    ticket_id: str
    position: int
    queue_length: int
    eta_seconds: float
    estimated_wait_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueUpdate(Queued):
    """The place in the queue, or the estimate, has changed."""

    type: ClassVar[str] = "queue_update"
    bears_token: ClassVar[bool] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDone(ServerMessage):
    """A worker holds the session; the client may prepare."""

    type: ClassVar[str] = "queue_done"
    bears_token: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared(ServerMessage):
    """Audio may be sent. `prompt_length` in tokens."""

    type: ClassVar[str] = "prepared"
    bears_token: ClassVar[bool] = True
    prompt_length: int
    recording_session_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(ServerMessage):
    """One unit's outcome. `audio_data` is float32 PCM at 24 kHz; `current_time` and costs in ms."""

    type: ClassVar[str] = "result"
    is_listen: bool
    text: str
    audio_data: bytes
    end_of_turn: bool
    current_time: int
    cost_llm_ms: float
    cost_tts_prep_ms: float
    cost_tts_ms: float
    cost_token2wav_ms: float
    cost_all_ms: float
    n_tokens: int
    n_tts_tokens: int
    server_send_ts: float
    wall_clock_ms: float
    kv_cache_length: int
    vision_slices: int
    vision_tokens: int
    simulated: bool | None = None
    timing: dict[str, float] | None = None
    user_text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused(ServerMessage):
    """The session rests for at most `timeout` seconds."""

    type: ClassVar[str] = "paused"
    timeout: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed(ServerMessage):
    """The session goes on after a pause; with a `resume_token` also, on any protocol, the first
    message to a client that has come back: everything after `seq` follows.
    """

    type: ClassVar[str] = "resumed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped(ServerMessage):
    """The session has ended as the client asked."""

    type: ClassVar[str] = "stopped"
    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeout(ServerMessage):
    """The pause lasted too long; the session has ended."""

    type: ClassVar[str] = "timeout"
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice(ServerMessage):
    """A limit is near. `limit`: `duration` or `context`; `seconds_left` is an estimate for the latter."""

    type: ClassVar[str] = "notice"
    limit: str
    seconds_left: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Error(ServerMessage):
    """Something went wrong. `error` and `message` are the same text."""

    type: ClassVar[str] = "error"
    error: str
    message: str
    code: str
    field: str | None = None
    retryable: bool | None = None


DuplexServerMessage = (
    Queued
    | QueueUpdate
    | QueueDone
    | Prepared
    | Result
    | Paused
    | Resumed
    | Stopped
    | Timeout
    | Notice
    | Error
)
