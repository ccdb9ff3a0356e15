"""Both directions of `/v1/realtime`. Nothing undocumented is sent."""

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from antiphon.shared_schemas.config import VoiceName
from antiphon.shared_schemas.messages.duplex import MAX_FRAMES, PlayedMs, Slices
from antiphon.shared_schemas.wire import ClientMessage, Media, MessageReader, Notice, ServerMessage

MIN_SAMPLES = 4000
"""A quarter of a second: the shortest audio of an `append`."""


class SessionSettings(ClientMessage):
    """The settings of a session. References are base64 WAV, or raw float32 PCM at 16 kHz.

    `voice` is one of the engine's voices, as `/api/capabilities` lists them.
    """

    instructions: str = Field(min_length=1, max_length=20_000)
    max_slice_nums: Slices | None = None
    record: bool = True
    voice: VoiceName = ""
    interim_transcripts: bool = False
    barge_in: bool = True
    ref_audio: Media | None = None
    tts_ref_audio: Media | None = None


class SessionUpdate(ClientMessage):
    """Configure the session; once."""

    type: Literal["session.update"]
    session: SessionSettings


class Append(ClientMessage):
    """A second of audio (base64 float32 PCM, 16 kHz), with JPEG frames in video mode."""

    type: Literal["input_audio_buffer.append"]
    audio: Media
    video_frames: list[Media] | None = Field(default=None, max_length=MAX_FRAMES)
    force_listen: bool = False
    max_slice_nums: Slices | None = None


class SessionClose(ClientMessage):
    """End the session."""

    type: Literal["session.close"]
    reason: str | None = None


class PlaybackEvent(ClientMessage):
    """How much audio of the current answer was played; only if the client asked for `playback_ack`."""

    type: Literal["output_audio_buffer.playback_ack"]
    played_ms: PlayedMs


RealtimeClientEvent = SessionUpdate | Append | SessionClose | PlaybackEvent

parse_realtime_event = MessageReader[RealtimeClientEvent](
    SessionUpdate | Append | SessionClose
).parse
parse_event_or_playback = MessageReader[RealtimeClientEvent](RealtimeClientEvent).parse
"""For clients that asked for `playback_ack`."""


class RealtimeCode(StrEnum):
    """Every code that an `error` event may carry."""

    NOT_READY = "not_ready"
    UNKNOWN_EVENT = "unknown_event"
    MISSING_FIELD = "missing_field"
    INVALID_PAYLOAD = "invalid_payload"
    SERVICE_UNAVAILABLE = "service_unavailable"
    QUEUE_FULL = "queue_full"
    WORKER_BUSY = "worker_busy"
    WORKER_CONNECT_FAILED = "worker_connect_failed"
    INFERENCE_ERROR = "inference_error"

    @property
    def error_type(self) -> str:
        """The error's `type`: client or server."""
        return "client_error" if self in _CLIENT_CODES else "server_error"


_CLIENT_CODES = frozenset(
    {
        RealtimeCode.NOT_READY,
        RealtimeCode.UNKNOWN_EVENT,
        RealtimeCode.MISSING_FIELD,
        RealtimeCode.INVALID_PAYLOAD,
    }
)


class ClosedReason(StrEnum):
    """The reason for closing a session."""

    STOPPED = "stopped"
    TIMEOUT = "timeout"
    CONTEXT_FULL = "context_full"
    SERVER_SHUTDOWN = "server_shutdown"
    ERROR = "error"


class SessionQueueUpdate(ServerMessage, type="session.queue_update"):
    """The position in the queue (1-based), or the estimate (seconds), has changed.

    After `session.queue_done`: the worker was lost and the session waits for another one. A client that
    asked for notices gets position 0 when a worker serves it again, `stale` (true) while the position
    cannot be read, and a `reason` as in `SessionQueued`.
    """

    position: int
    estimated_wait_s: float | None = None
    queue_length: int
    stale: bool | None = None
    reason: str | None = None


class SessionQueued(ServerMessage, type="session.queued", bears_token=True):
    """The session waits; sent only when there is a wait.

    `estimated_wait_s` is missing while no worker can take the session. A client that asked for notices
    gets a `WaitReason` as `reason` then.
    """

    position: int
    estimated_wait_s: float | None = None
    ticket_id: str
    queue_length: int
    reason: str | None = None


class SessionQueueDone(ServerMessage, type="session.queue_done", bears_token=True):
    """A worker holds the session; `session.update` may be sent."""


class SessionCreated(ServerMessage, type="session.created", bears_token=True):
    """Audio may be sent. `prompt_length` in tokens; the recording only with `notices=1`."""

    session_id: str
    prompt_length: int
    recording_session_id: str | None = None


class AudioDelta(ServerMessage, type="response.output_audio.delta"):
    """The model speaks: float32 PCM at 24 kHz, never empty."""

    text: str
    audio: bytes
    end_of_turn: bool
    kv_cache_length: int
    user_text: str | None = None
    """What the user said, if the client asked for transcripts; also in Listen."""
    interim_user_text: str | None = None
    """What the user has said so far, empty in silence, if the session asks for it; also in Listen."""


class Listen(ServerMessage, type="response.listen"):
    """The model listens.

    `interrupted`: the answer before was cut, and audio of it that has not been played must be dropped. Only
    for clients that asked for notices.
    """

    kv_cache_length: int
    user_text: str | None = None
    interim_user_text: str | None = None
    interrupted: bool | None = None


class SessionClosed(ServerMessage, type="session.closed"):
    """Last event of a session."""

    reason: ClosedReason


class SessionNotice(Notice, type="session.notice"):
    """A limit is near; only for clients that asked for notices."""


class ErrorEvent(ServerMessage, type="error"):
    """Something went wrong; `code` says whether the connection closes."""

    error: dict[str, Any]

    @classmethod
    def of(cls, code: RealtimeCode, message: str) -> "ErrorEvent":
        """An error with its `type`, client or server."""
        return cls(error={"code": str(code), "message": message, "type": code.error_type})


RealtimeServerEvent = (
    SessionQueued
    | SessionQueueUpdate
    | SessionQueueDone
    | SessionCreated
    | AudioDelta
    | Listen
    | SessionClosed
    | ErrorEvent
)
