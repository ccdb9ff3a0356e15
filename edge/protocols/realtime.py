"""`/v1/realtime`: decoding of its events, and the life of a session in both versions.

The legal commands and the events of each version are in `realtime_v1` and `realtime_v2`.
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from msgspec.structs import replace

from antiphon.edge.errors import Fault
from antiphon.edge.json_text import ClientFrame
from antiphon.edge.media.decode import InputReader
from antiphon.edge.media.voices import decode_voice
from antiphon.edge.protocols.machine import (
    Action,
    Actions,
    Deadline,
    Phase,
    QueuePlace,
    Send,
    SessionMachine,
)
from antiphon.edge.protocols.realtime_codec import (
    CLOSED_AS,
    RealtimeCodec,
    SessionNames,
    ended_by,
    error_event,
    report_place,
)
from antiphon.edge.protocols.realtime_v1 import LEGAL, PHASE_TEXT, WIRE_NAMES, RealtimeV1
from antiphon.edge.protocols.realtime_v2 import Negotiation, RealtimeV2, read_init, read_input
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.config import DuplexConfig, with_consent
from antiphon.shared_schemas.entries import (
    ChunkIn,
    ErrorOut,
    InEntry,
    OutEntry,
    PlaybackIn,
    PreparedOut,
    PrepareIn,
    ResultOut,
    StopIn,
    StoppedOut,
    TimeoutOut,
)
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.messages.realtime import (
    MIN_SAMPLES,
    Append,
    Listen,
    PlaybackEvent,
    RealtimeClientEvent,
    SessionClose,
    SessionNotice,
    SessionQueueDone,
    SessionUpdate,
    parse_event_or_playback,
    parse_realtime_event,
)
from antiphon.shared_schemas.messages.realtime_v2 import (
    InputAppend,
    OutputDelta,
    RealtimeV2Event,
    SessionInit,
    parse_v2_event,
    parse_v2_event_or_playback,
)
from antiphon.shared_schemas.states import EndReason
from antiphon.shared_schemas.unit_result import TokenUsage
from antiphon.shared_schemas.wire import ServerMessage

RealtimeCommand = PrepareIn | ChunkIn | PlaybackIn | StopIn

_DEFAULTS = DuplexConfig()

_NOTICE_S = 30.0
"""How long before the end of its time a client is notified."""


class RealtimeDecoder:
    """Decodes the frames of one client. `playback_ack`: the client asked to report its playback."""

    def __init__(
        self,
        settings: EdgeSettings,
        *,
        video: bool,
        playback_ack: bool = False,
        negotiation: Negotiation | None = None,
    ) -> None:
        self._negotiation = negotiation or Negotiation()
        self._max_reference_s = settings.max_reference_s
        self._video = video
        self._parse_v1 = parse_event_or_playback if playback_ack else parse_realtime_event
        self._parse_v2 = parse_v2_event_or_playback if playback_ack else parse_v2_event
        self._reader = InputReader(settings)

    async def decode(self, frame: ClientFrame) -> RealtimeCommand:
        """The command in one frame. Raises InvalidInput, NotJson or ChatRequested."""
        data, payload = self._reader.read_frame(frame)
        event: RealtimeClientEvent | RealtimeV2Event
        if self._negotiation.is_version_2(data):
            event = self._parse_v2(data, payload)
        else:
            event = self._parse_v1(data, payload)
        if isinstance(event, SessionClose):
            return StopIn()
        if not isinstance(event, Append | InputAppend):
            self._reader.budget.charge_message()
        match event:
            case Append():
                return self._append(event)
            case SessionUpdate():
                return await self._update(event)
            case InputAppend():
                return read_input(self._reader, event.input, video=self._video)
            case SessionInit():
                return await read_init(event.payload, self._max_reference_s, self._negotiation)
            case PlaybackEvent(played_ms=played_ms):
                return PlaybackIn(played_ms=played_ms)

    def _append(self, event: Append) -> ChunkIn:
        """Audio sessions ignore video frames; the document leaves them undefined."""
        images = event.video_frames if self._video else None
        return self._reader.read_chunk(
            event.audio,
            "audio",
            images=images,
            images_field="video_frames",
            min_samples=MIN_SAMPLES,
            force_listen=event.force_listen,
            max_slice_nums=event.max_slice_nums,
        )

    async def _update(self, event: SessionUpdate) -> PrepareIn:
        asked, limit = event.session, self._max_reference_s
        names = ("voice", "interim_transcripts", "barge_in")
        stated: dict[str, Any] = {name: getattr(asked, name) for name in names}
        if asked.max_slice_nums:
            stated["max_slice_nums"] = asked.max_slice_nums
        return PrepareIn(
            system_prompt=asked.instructions,
            config=with_consent(_DEFAULTS.model_copy(update=stated), given=asked.record),
            ref_audio=await decode_voice(asked.ref_audio, "session.ref_audio", limit),
            tts_ref_audio=await decode_voice(asked.tts_ref_audio, "session.tts_ref_audio", limit),
        )


class RealtimeMachine(SessionMachine[RealtimeCommand]):
    """A session of at most `limit_s` seconds since `began_at`, a time of the event loop, `age_s` ago.

    Its events are those of the codec of the client's version.
    """

    LEGAL: ClassVar = LEGAL
    LEADS_TO: ClassVar = {
        PrepareIn: Phase.PREPARING,
        ChunkIn: Phase.ACTIVE,
        StopIn: Phase.STOPPING,
    }
    WIRE_NAMES: ClassVar = WIRE_NAMES
    PHASE_TEXT: ClassVar = PHASE_TEXT

    def __init__(
        self,
        sid: str,
        recording: str,
        *,
        notices: bool = False,
        transcript: bool = False,
        transcript_events: bool = False,
        resumable: bool = False,
        began_at: float = 0.0,
        age_s: float = 0.0,
        limit_s: float = math.inf,
        negotiation: Negotiation | None = None,
    ) -> None:
        super().__init__()
        self._negotiation = negotiation or Negotiation()
        session = SessionNames(sid, recording, notices, transcript, transcript_events)
        self._v1, self._v2 = RealtimeV1(session), RealtimeV2(session)
        self._notices = notices
        self._usage: TokenUsage | None = None
        """Of the session so far: the end of version 2 has it, which may have no entry."""
        self._resumable = resumable
        self._began_at = began_at
        self._age_s = age_s
        self._limit_s = limit_s

    @property
    def _codec(self) -> RealtimeCodec:
        return self._v2 if self._negotiation.version == 2 else self._v1

    @property
    def phase_text(self) -> str:
        return self._codec.PHASE_TEXT[self.phase]

    @property
    def legal(self) -> frozenset[type[Any]]:
        legal = self._codec.LEGAL[self.phase]
        repeats = self._resumable and self._codec.ERRORS_END
        return legal | {PrepareIn} if legal and repeats else legal

    @property
    def wire_names(self) -> Mapping[type[Any], str]:
        return self._codec.WIRE_NAMES

    def apply_input(self, entry: InEntry) -> None:
        super().apply_input(entry)
        if isinstance(entry, PrepareIn):
            self._negotiation.version = entry.version

    def _handle(self, command: RealtimeCommand) -> list[Action]:
        """A page may send `session.update` at once, although the document tells it to wait.

        A client that resumes repeats an unanswered `session.init`, which may have arrived.
        """
        if isinstance(command, PrepareIn):
            repeated = PrepareIn not in self._codec.LEGAL[self.phase]
            return [] if repeated else self._forward(command)
        if self.waiting:
            return self._close(EndReason.STOPPED)
        if self.phase is Phase.STOPPING:
            return []
        return self._forward(command)

    def placed(self, place: QueuePlace) -> list[Action]:
        return report_place(place, notices=self._notices)

    def _grant_messages(self) -> list[Action]:
        return [Send(SessionQueueDone())]

    def deadlines(self) -> list[Deadline]:
        """The time limit includes the time in the queue."""
        if math.isinf(self._limit_s):
            return []
        over_at = self._began_at + self._limit_s
        notice_s = max(0.0, min(_NOTICE_S, self._limit_s - self._age_s))
        notice = Deadline(over_at - notice_s, partial(self.nearly_over, notice_s))
        over = Deadline(over_at, self.overdue)
        return [notice, over] if self._notices else [over]

    def nearly_over(self, seconds_left: float) -> list[Action]:
        """Notify the client that its time is nearly over; one that resumes after that, once more."""
        notice = SessionNotice(limit="duration", seconds_left=round(seconds_left, 1))
        return [Send(notice)]

    def overdue(self) -> list[Action]:
        return self._close(EndReason.PAUSE_TIMEOUT, f"the limit of {self._limit_s:g} s is over")

    def deliver(self, entry: OutEntry, now_ms: float) -> list[Action]:
        match entry:
            case ResultOut():
                self._usage = entry.total_usage
                return self._result(entry, now_ms)
            case PreparedOut():
                self._usage = entry.usage
                return self._prepared(self._codec.created(entry))
            case StoppedOut():
                return self._close(EndReason.STOPPED)
            case TimeoutOut(reason=reason):
                return self._close(EndReason.PAUSE_TIMEOUT, reason)
            case ErrorOut():
                return self._failed(entry)
            case _:
                raise TypeError(f"{entry.tag} does not belong in a realtime session")

    def ended(self, reason: EndReason | None) -> Actions:
        return self._close(reason) if reason in CLOSED_AS else super().ended(reason)

    def report(self, fault: Fault) -> Actions:
        """Every error ends a session of version 2; audio that comes too fast is dropped in both."""
        if not self._codec.ERRORS_END:
            return super().report(fault)
        if fault.message.code == ErrorCode.INPUT_BACKPRESSURE:
            return []
        actions = super().report(fault)
        self.phase = Phase.OVER
        return [*actions, ended_by(fault)]

    def _error_messages(self, fault: Fault) -> Sequence[ServerMessage]:
        return self._codec.errors(fault)

    def _result(self, entry: ResultOut, now_ms: float) -> list[Action]:
        messages = self._codec.unit(entry, now_ms)
        if entry.interrupted and self._notices:
            messages = [_interrupted(message) for message in messages]
        actions: list[Action] = [Send(message) for message in messages]
        if self._notices and entry.context_left_s is not None:
            notice = SessionNotice(limit="context", seconds_left=entry.context_left_s)
            actions.append(Send(notice))
        if entry.kv_cache_length >= entry.context_tokens:
            actions += self._close(EndReason.CONTEXT_FULL)
        return actions

    def _failed(self, entry: ErrorOut) -> list[Action]:
        if entry.code == ErrorCode.CONTEXT_FULL:
            return self._close(EndReason.CONTEXT_FULL)
        error = Send(error_event(entry.code, entry.message))
        if entry.fatal or self._codec.ERRORS_END:
            return [error, *self._close(EndReason.ERROR, entry.message)]
        self._prepare_again()
        return [error]

    def _close(self, reason: EndReason, diagnostic: str = "") -> list[Action]:
        message = self._codec.closed(reason, diagnostic, self._usage)
        return self._finish(message, CLOSED_AS[reason][1], reason)


def _interrupted(message: ServerMessage) -> ServerMessage:
    """The event that ends the answer says that it was cut."""
    match message:
        case Listen() | OutputDelta(kind="listen"):
            return replace(message, interrupted=True)
    return message
