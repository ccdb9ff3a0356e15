"""`/v1/realtime`: decoding of its events, the table of legal commands, and the events it sends.

The tables and events of version 2 are in `realtime_v2`, errors and ends in `realtime_reports`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from antiphon.edge.errors import Close, Fault
from antiphon.edge.json_text import ClientFrame
from antiphon.edge.media.decode import InputReader
from antiphon.edge.media.voices import decode_voice
from antiphon.edge.protocols import realtime_v2
from antiphon.edge.protocols.machine import (
    NOTICE_S,
    Action,
    Actions,
    ContextForecast,
    Deadline,
    Finish,
    Forward,
    Phase,
    QueuePlace,
    Send,
    SessionMachine,
)
from antiphon.edge.protocols.realtime_reports import (
    CLOSED_AS,
    CLOSED_AS_V2,
    encode_realtime_error,
    encode_v2_error,
    error_event,
    report_place,
)
from antiphon.edge.protocols.realtime_v2 import Negotiation, ResponseDeltas, read_init, read_input
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.audio import OUTPUT_RATE
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
    user_transcript,
)
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.messages.realtime import (
    CONTEXT_TOKENS,
    MIN_SAMPLES,
    Append,
    AudioDelta,
    Listen,
    PlaybackEvent,
    RealtimeClientEvent,
    SessionClose,
    SessionClosed,
    SessionCreated,
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
    SessionClosedV2,
    SessionCreatedV2,
    SessionInit,
    parse_v2_event,
    parse_v2_event_or_playback,
)
from antiphon.shared_schemas.states import EndReason
from antiphon.shared_schemas.wire import ServerMessage

RealtimeCommand = PrepareIn | ChunkIn | PlaybackIn | StopIn
Delta = AudioDelta | Listen | OutputDelta

WIRE_NAMES: dict[type[RealtimeCommand], str] = {
    PrepareIn: "session.update",
    ChunkIn: "input_audio_buffer.append",
    PlaybackIn: "output_audio_buffer.playback_ack",
    StopIn: "session.close",
}

LEGAL: dict[Phase, frozenset[type[RealtimeCommand]]] = {
    Phase.QUEUED: frozenset({PrepareIn}),
    Phase.QUEUED_PREPARED: frozenset(),
    Phase.ASSIGNED: frozenset({PrepareIn}),
    Phase.PREPARING: frozenset(),
    Phase.ACTIVE: frozenset({ChunkIn, PlaybackIn, StopIn}),
    Phase.STOPPING: frozenset(),
    Phase.OVER: frozenset(),
}

PHASE_TEXT = realtime_v2.phase_text(WIRE_NAMES[PrepareIn])

_DEFAULTS = DuplexConfig()

SILENCE_10MS = bytes(4 * OUTPUT_RATE // 100)
"""Audio for text at the end of a turn that has none."""


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
            self._reader.charge_message()
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
            *(event.audio, "audio", images, "video_frames"),
            min_samples=MIN_SAMPLES,
            force_listen=event.force_listen,
            max_slice_nums=event.max_slice_nums,
        )

    async def _update(self, event: SessionUpdate) -> PrepareIn:
        asked, limit = event.session, self._max_reference_s
        names = ("voice", "interim_transcripts")
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
    """A session of at most `limit_s` seconds since `began_at`, a time of the event loop.

    The `session_id` of version 2 is the id of the recording: pages of the public demo share recordings by it.
    """

    LEGAL: ClassVar = LEGAL
    LEADS_TO: ClassVar = {PrepareIn: Phase.PREPARING, StopIn: Phase.STOPPING}
    WIRE_NAMES: ClassVar = WIRE_NAMES
    PHASE_TEXT: ClassVar = PHASE_TEXT
    PHASE_KEY: ClassVar = "stage"

    def __init__(
        self,
        sid: str,
        recording: str,
        *,
        notices: bool = False,
        transcript: bool = False,
        resumable: bool = False,
        began_at: float = 0.0,
        limit_s: float = math.inf,
        negotiation: Negotiation | None = None,
    ) -> None:
        super().__init__()
        self._negotiation = negotiation or Negotiation()
        self._responses = ResponseDeltas(sid, recording)
        self._sid = sid
        self._recording = recording
        self._notices = notices
        self._transcript = transcript
        self._user_text = ""
        self._resumable = resumable
        self._began_at = began_at
        self._limit_s = limit_s
        self._deltas = DeltaBuffer()
        self._forecast = ContextForecast(wanted=notices)
        self._warned = False

    @property
    def _is_v2(self) -> bool:
        return self._negotiation.version == 2

    @property
    def phase_text(self) -> str:
        return realtime_v2.PHASE_TEXT[self.phase] if self._is_v2 else super().phase_text

    @property
    def legal(self) -> frozenset[type[Any]]:
        if not self._is_v2:
            return super().legal
        legal = realtime_v2.LEGAL[self.phase]
        return legal | {PrepareIn} if self._resumable and legal else legal

    @property
    def wire_names(self) -> Mapping[type[Any], str]:
        return realtime_v2.WIRE_NAMES if self._is_v2 else super().wire_names

    def snapshot(self) -> dict[str, Any]:
        version_2 = {"version": 2, "response": self._responses.snapshot()} if self._is_v2 else {}
        said = {"user_text": self._user_text} if self._user_text else {}
        return {
            **super().snapshot(),
            "words": self._deltas.text,
            "forecast": self._forecast.snapshot(),
            "warned": self._warned,
            **said,
            **version_2,
        }

    def restore(self, snapshot: Mapping[str, Any], held: Sequence[InEntry]) -> None:
        super().restore(snapshot, held)
        self._deltas.text = snapshot["words"]
        self._forecast.restore(snapshot["forecast"])
        self._warned = snapshot["warned"]
        self._user_text = snapshot.get("user_text", "")
        if "version" in snapshot:
            self._negotiation.version = snapshot["version"]
            self._responses.restore(snapshot["response"])

    def _handle(self, command: RealtimeCommand) -> list[Action]:
        """A page may send `session.update` at once, although the document tells it to wait.

        A client that resumes repeats an unanswered `session.init`, which may have arrived.
        """
        if isinstance(command, PrepareIn):
            repeated = self._is_v2 and PrepareIn not in realtime_v2.LEGAL[self.phase]
            return [] if repeated else self._prepare(command)
        if self.waiting:
            return self._close(EndReason.STOPPED)
        if self.phase is Phase.STOPPING:
            return []
        self.apply_input(command)
        return [Forward(command)]

    def placed(self, place: QueuePlace) -> list[Action]:
        return report_place(place, notices=self._notices)

    def _grant_messages(self) -> list[Action]:
        return [Send(SessionQueueDone())]

    def deadlines(self) -> list[Deadline]:
        """The time limit includes the time in the queue."""
        if math.isinf(self._limit_s):
            return []
        over_at = self._began_at + self._limit_s
        notice_s = min(NOTICE_S, self._limit_s)
        notice = Deadline(over_at - notice_s, partial(self.nearly_over, notice_s))
        over = Deadline(over_at, self.overdue)
        return [notice, over] if self._notices else [over]

    def nearly_over(self, seconds_left: float) -> list[Action]:
        """Notify the client, once, that its time is nearly over."""
        warned, self._warned = self._warned, True
        return [] if warned else [Send(SessionNotice(limit="duration", seconds_left=seconds_left))]

    def overdue(self) -> list[Action]:
        return self._close(EndReason.PAUSE_TIMEOUT, f"the limit of {self._limit_s:g} s is over")

    def deliver(self, entry: OutEntry, now_ms: float) -> list[Action]:
        match entry:
            case ResultOut():
                return self._result(entry, now_ms)
            case PreparedOut():
                return self._prepared(self._created(entry))
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

    def _created(self, entry: PreparedOut) -> ServerMessage:
        length, recording = entry.prompt_length, self._recording if self._notices else None
        if not self._is_v2:
            return SessionCreated(
                session_id=self._sid, prompt_length=length, recording_session_id=recording
            )
        return SessionCreatedV2(
            session_id=self._recording,
            prompt_length=length,
            recording_session_id=recording,
            usage=self._responses.count(entry.usage),
        )

    def report(self, fault: Fault) -> Actions:
        """Every error ends a session of version 2; audio that comes too fast is dropped in both."""
        if not self._is_v2:
            return super().report(fault)
        if fault.message.code == ErrorCode.INPUT_BACKPRESSURE:
            return []
        actions = super().report(fault)
        self.phase = Phase.OVER
        restarts = fault.close is Close.RESTART
        reason = EndReason.SERVER_SHUTDOWN if restarts else EndReason.ERROR
        return [*actions, Finish(fault.close or Close.POLICY, reason)]

    def _error_messages(self, fault: Fault) -> Sequence[ServerMessage]:
        if not self._is_v2:
            return encode_realtime_error(fault)
        return encode_v2_error(fault, self._recording)

    def _result(self, entry: ResultOut, now_ms: float) -> list[Action]:
        messages: Sequence[Delta] = (
            self._responses.messages(entry, now_ms) if self._is_v2 else self._deltas.messages(entry)
        )
        actions: list[Action] = [
            Send(message) for message in self._with_transcript(entry, messages)
        ]
        left_s = None if self._forecast.off else self._forecast.seconds_left(entry)
        if left_s is not None:
            actions.append(Send(SessionNotice(limit="context", seconds_left=left_s)))
        if entry.kv_cache_length >= CONTEXT_TOKENS:
            actions += self._close(EndReason.CONTEXT_FULL)
        return actions

    def _with_transcript(self, entry: ResultOut, messages: Sequence[Delta]) -> Sequence[Delta]:
        """What the user said is in the first event after it was recognised.

        A session that asks for interim transcripts also has what the user has said so far.
        """
        interim = entry.interim_user_text
        if not self._transcript and interim is None:
            return messages
        self._user_text = " ".join(filter(None, (self._user_text, user_transcript(entry))))
        if not messages:
            return messages
        first, *others = messages
        if self._user_text:
            first, self._user_text = replace(first, user_text=self._user_text), ""
        return [replace(first, interim_user_text=interim), *others]

    def _failed(self, entry: ErrorOut) -> list[Action]:
        if entry.code == ErrorCode.CONTEXT_FULL:
            return self._close(EndReason.CONTEXT_FULL)
        error = Send(error_event(entry.code, entry.message))
        if entry.fatal or self._is_v2:
            return [error, *self._close(EndReason.ERROR, entry.message)]
        if self.phase is Phase.PREPARING:
            self.phase = Phase.ASSIGNED
        return [error]

    def _close(self, reason: EndReason, diagnostic: str = "") -> list[Action]:
        closed, code = CLOSED_AS[reason]
        message: ServerMessage = SessionClosed(reason=closed)
        if self._is_v2:
            why, text = CLOSED_AS_V2[reason]
            used = self._responses.count(None)
            message = SessionClosedV2.of(why, diagnostic or text, self._recording, used)
        return self._finish(message, code, reason)


class DeltaBuffer:
    """Holds text without audio until the next audio or the end of the turn: a delta needs audio."""

    def __init__(self) -> None:
        self.text = ""

    def messages(self, entry: ResultOut) -> list[AudioDelta | Listen]:
        """The events of one unit; none if it has text only and the turn continues."""
        if entry.is_listen:
            rest = [self._delta(entry, SILENCE_10MS, ends=True)] if self.text else []
            return [*rest, Listen(kv_cache_length=entry.kv_cache_length)]
        self.text += entry.text
        if entry.audio or entry.end_of_turn:
            return [self._delta(entry, entry.audio or SILENCE_10MS, ends=entry.end_of_turn)]
        return []

    def _delta(self, entry: ResultOut, audio: bytes, *, ends: bool) -> AudioDelta:
        text, self.text = self.text, ""
        return AudioDelta(
            text=text, audio=audio, end_of_turn=ends, kv_cache_length=entry.kv_cache_length
        )
