"""`/ws/duplex`: decoding of its messages, the table of legal commands, and the messages it sends."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import orjson
from msgspec.structs import replace

from antiphon.edge.json_text import ClientFrame
from antiphon.edge.media.decode import InputReader
from antiphon.edge.media.voices import UploadedVoices, decode_voice, load_named_voice
from antiphon.edge.protocols.machine import (
    Action,
    Actions,
    ConversationMachine,
    Phase,
    Send,
)
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.config import USUAL_CHUNK_MS, with_consent
from antiphon.shared_schemas.entries import (
    ChunkIn,
    DiagnosticIn,
    ErrorOut,
    OutEntry,
    PausedOut,
    PauseIn,
    PlaybackIn,
    PreparedOut,
    PrepareIn,
    ResultOut,
    ResumedOut,
    ResumeIn,
    StopIn,
    StoppedOut,
    TimeoutOut,
)
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.messages.duplex import (
    MAX_FRAMES,
    AudioChunk,
    ClientDiagnostic,
    Pause,
    Paused,
    PlaybackAck,
    Prepare,
    Prepared,
    Result,
    Resume,
    Stop,
    Timeout,
    VideoFrame,
    parse_duplex_message,
)
from antiphon.shared_schemas.states import EndReason
from antiphon.shared_schemas.tools import MAX_JSON_DEPTH, is_usable_object
from antiphon.shared_schemas.unit_result import user_transcript, word_times
from antiphon.shared_schemas.wire import Media, Notice, Resumed

_MAX_DIAGNOSTIC_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class CameraFrame:
    """An image that belongs to the next chunk of audio."""

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

_ALWAYS: frozenset[type[DuplexCommand]] = frozenset({DiagnosticIn, StopIn})

LEGAL: dict[Phase, frozenset[type[DuplexCommand]]] = {
    Phase.QUEUED: frozenset({*_ALWAYS, PrepareIn}),
    Phase.QUEUED_PREPARED: _ALWAYS,
    Phase.ASSIGNED: frozenset({*_ALWAYS, PrepareIn}),
    Phase.PREPARING: _ALWAYS,
    Phase.ACTIVE: frozenset({*_ALWAYS, ChunkIn, CameraFrame, PauseIn, PlaybackIn}),
    Phase.PAUSED: frozenset({*_ALWAYS, ResumeIn, PlaybackIn}),
    Phase.STOPPING: frozenset({DiagnosticIn}),
    Phase.OVER: frozenset(),
}


class DuplexDecoder:
    """Decodes the frames of one client."""

    def __init__(self, settings: EdgeSettings, uploads: UploadedVoices) -> None:
        self._settings = settings
        self._uploads = uploads
        self._reader = InputReader(settings)

    async def decode(self, frame: ClientFrame) -> DuplexCommand:
        """The command in one frame. Raises InvalidInput or NotJson."""
        message = parse_duplex_message(*self._reader.read_frame(frame))
        if isinstance(message, Stop):
            return StopIn()
        if not isinstance(message, AudioChunk):
            self._reader.budget.charge_message()
        match message:
            case AudioChunk(audio=audio, frame_base64_list=frames):
                return self._reader.read_chunk(
                    audio,
                    "audio",
                    frames,
                    "frame_base64_list",
                    force_listen=message.force_listen,
                    max_slice_nums=message.max_slice_nums,
                )
            case VideoFrame():
                return CameraFrame(self._reader.read_image(message.frame, "frame"))
            case Prepare():
                return await self._prepare(message)
            case Pause():
                return self._pause(message)
            case Resume():
                return ResumeIn()
            case PlaybackAck(played_ms=played_ms):
                return PlaybackIn(played_ms=played_ms)
            case ClientDiagnostic():
                return _diagnostic(message)

    async def _prepare(self, message: Prepare) -> PrepareIn:
        config = message.config
        if message.max_slice_nums is not None:
            config = config.model_copy(update={"max_slice_nums": message.max_slice_nums})
        return PrepareIn(
            system_prompt=message.system_prompt,
            config=with_consent(config, given=message.record),
            ref_audio=await self._reference(message),
            tts_ref_audio=await self._voice(message.tts_ref_audio_base64, "tts_ref_audio_base64"),
            deferred_finalize=message.deferred_finalize,
        )

    async def _reference(self, message: Prepare) -> bytes:
        """A named voice takes precedence over one in the message."""
        if not message.ref_audio_path:
            return await self._voice(message.ref_audio_base64, "ref_audio_base64")
        return await load_named_voice(self._settings, self._uploads, message.ref_audio_path)

    async def _voice(self, sent: Media | None, field: str) -> bytes:
        return await decode_voice(sent, field, self._settings.max_reference_s)

    def _pause(self, message: Pause) -> PauseIn:
        limit = self._settings.max_pause_timeout_s
        if message.timeout is not None and message.timeout > limit:
            raise InvalidInput(f"timeout: at most {limit:g} s", field="timeout")
        return PauseIn(timeout_s=message.timeout or self._settings.pause_timeout_s)


def _diagnostic(message: ClientDiagnostic) -> DiagnosticIn:
    """Keeps every field. Raises InvalidInput for what cannot be stored again."""
    metrics: dict[str, Any] = dict(message.model_extra or {})
    if message.metrics is not None:
        metrics["metrics"] = message.metrics
    try:
        size = len(orjson.dumps(metrics))
    except orjson.JSONEncodeError:  # it accepts 254 levels, and no LongText
        raise _too_deep(" or with too long a text") from None
    if size > _MAX_DIAGNOSTIC_BYTES:
        raise InvalidInput(
            f"metrics: {size} bytes, the limit is {_MAX_DIAGNOSTIC_BYTES}",
            field="metrics",
            code=ErrorCode.MESSAGE_TOO_LARGE,
        )
    if not is_usable_object(metrics):
        raise _too_deep()
    return DiagnosticIn(metrics=metrics)


def _too_deep(or_else: str = "") -> InvalidInput:
    text = f"metrics: nested more than {MAX_JSON_DEPTH} deep{or_else}"
    return InvalidInput(text, field="metrics")


@dataclass(frozen=True, slots=True)
class ResultExtras:
    """The fields of results that a client asks for in the URL.

    `timing`: the time of each hop. `transcript`: what the engine understood of the user, as for a session
    that asks for interim transcripts. `word_times`: when each of the answer's words begins.
    """

    timing: bool = False
    transcript: bool = False
    word_times: bool = False


class DuplexMachine(ConversationMachine[DuplexCommand]):
    """A full-duplex session.

    `notices`: the client is notified when its context is nearly full.
    """

    LEGAL: ClassVar = LEGAL
    WIRE_NAMES: ClassVar = WIRE_NAMES

    def __init__(
        self,
        sid: str,
        recording: str,
        *,
        notices: bool = False,
        extras: ResultExtras = ResultExtras(),
    ) -> None:
        super().__init__(sid, recording)
        self._extras = extras
        self._notices = notices
        self._frames: tuple[bytes, ...] = ()

    def _handle(self, command: DuplexCommand) -> list[Action]:
        match command:
            case ChunkIn():
                if self._frames:
                    frames = (*self._frames, *command.frames)[-MAX_FRAMES:]
                    command, self._frames = replace(command, frames=frames), ()
                return self._forward(command)
            case CameraFrame(data=data):
                self._frames = (*self._frames, data)[-MAX_FRAMES:]
                return []
            case PauseIn():
                self._frames = ()
                return self._forward(command)
            case StopIn():
                return self._stop(command)
            case PrepareIn() | ResumeIn() | PlaybackIn() | DiagnosticIn():
                return self._forward(command)

    def deliver(self, entry: OutEntry, now_ms: float) -> list[Action]:
        match entry:
            case ResultOut():
                result = result_message(entry, now_ms, self._extras)
                left_s = entry.context_left_s
                if left_s is None or not self._notices:
                    return [Send(result)]
                return [Send(result), Send(Notice(limit="context", seconds_left=left_s))]
            case PreparedOut(prompt_length=length, chunk_ms=chunk_ms):
                # Clients of the demo, which may refuse unknown fields, send seconds anyway.
                unusual = None if chunk_ms == USUAL_CHUNK_MS else chunk_ms
                recording = self._recording
                return self._prepared(
                    Prepared(prompt_length=length, recording_session_id=recording, chunk_ms=unusual)
                )
            case PausedOut(timeout_s=timeout_s):
                return [Send(Paused(timeout=timeout_s))]
            case ResumedOut():
                return [Send(Resumed())]
            case StoppedOut():
                return self._stopped()
            case TimeoutOut(reason=reason):
                return self._timed_out(Timeout(reason=reason))
            case ErrorOut():
                return self._failed(entry)
            case _:
                raise TypeError(f"{entry.tag} does not belong in a duplex session")

    def ended(self, reason: EndReason | None) -> Actions:
        if reason is EndReason.PAUSE_TIMEOUT:
            return self._timed_out(Timeout(reason="the pause lasted too long"))
        return super().ended(reason)


_SAME = tuple(
    name
    for name in Result.__struct_fields__
    if name in ResultOut.__struct_fields__ and name not in ("simulated", "interrupted")
)
"""Fields of a result that are sent as the worker reports them."""


def result_message(entry: ResultOut, now_ms: float, extras: ResultExtras) -> Result:
    """The result of a unit; `now_ms` is the time of the Redis clock."""
    interim = entry.interim_user_text is not None
    return Result(
        **{name: getattr(entry, name) for name in _SAME},
        audio_data=entry.audio,
        server_send_ts=round(now_ms / 1000, 3),
        simulated=entry.simulated or None,
        timing=hop_times(entry, now_ms) if extras.timing else None,
        user_text=user_transcript(entry) if extras.transcript or interim else None,
        words=word_times(entry) if extras.word_times else None,
        goodbye=entry.memo.get("goodbye"),
        interrupted=entry.interrupted or None,
    )


def hop_times(entry: ResultOut, now_ms: float) -> dict[str, float]:
    """Milliseconds from edge to worker, in the engine, and back."""
    return {
        "edge_to_worker_ms": round(entry.read_at - entry.received_at, 3),
        "engine_ms": entry.wall_clock_ms,
        "worker_to_edge_ms": round(now_ms - entry.at, 3),
    }
