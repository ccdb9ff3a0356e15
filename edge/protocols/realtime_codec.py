"""What both versions of `/v1/realtime` and its chat mode have in common.

A session's names, the form of a codec, and the reports: errors, ends, and places in the queue.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from msgspec.structs import replace

from antiphon.edge.errors import Close, Fault
from antiphon.edge.protocols.machine import Action, Finish, Phase, QueuePlace, Send
from antiphon.shared_schemas.entries import PreparedOut, ResultOut
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.messages.realtime import (
    AudioDelta,
    ClosedReason,
    ErrorEvent,
    Listen,
    RealtimeCode,
    SessionClosed,
    SessionQueued,
    SessionQueueUpdate,
)
from antiphon.shared_schemas.messages.realtime_v2 import (
    ClosedReasonV2,
    OutputDelta,
    SessionClosedV2,
)
from antiphon.shared_schemas.states import EndReason
from antiphon.shared_schemas.unit_result import TokenUsage, user_transcript
from antiphon.shared_schemas.wire import ServerMessage

DeltaT = TypeVar("DeltaT", bound=AudioDelta | Listen | OutputDelta)


@dataclass(frozen=True, slots=True)
class SessionNames:
    """A session's ids, and what its client asked for in the URL.

    `transcript_events`: what the user said is a separate event in version 2.
    """

    sid: str
    recording: str
    notices: bool = False
    transcript: bool = False
    transcript_events: bool = False


class RealtimeCodec(ABC):
    """The events of one version, and what its clients may send. It has no state."""

    LEGAL: ClassVar[Mapping[Phase, frozenset[type[Any]]]]
    WIRE_NAMES: ClassVar[Mapping[type[Any], str]]
    PHASE_TEXT: ClassVar[Mapping[Phase, str]]
    ERRORS_END: ClassVar[bool]
    """Every error ends the session, so a client that resumes may repeat its first message."""

    def __init__(self, session: SessionNames) -> None:
        self._session = session

    @abstractmethod
    def created(self, entry: PreparedOut) -> ServerMessage:
        """The session is prepared."""

    @abstractmethod
    def unit(self, entry: ResultOut, now_ms: float) -> Sequence[ServerMessage]:
        """The events of one unit; `now_ms` is the time of the Redis clock."""

    @abstractmethod
    def closed(self, reason: EndReason, diagnostic: str, usage: TokenUsage | None) -> ServerMessage:
        """The session is over. `usage`: its tokens so far."""

    @abstractmethod
    def errors(self, fault: Fault) -> Sequence[ServerMessage]:
        """How a fault is reported."""

    @property
    def _recording(self) -> str | None:
        """The id of the recording, for clients that asked for it."""
        return self._session.recording if self._session.notices else None

    def _with_transcript(
        self, entry: ResultOut, messages: Sequence[DeltaT], earlier: str = ""
    ) -> Sequence[DeltaT]:
        """What the user said is in the first event after it was recognised.

        A session that asks for interim transcripts also has what the user has said so far.
        """
        interim = entry.interim_user_text
        if not messages or not (self._session.transcript or interim is not None):
            return messages
        said = " ".join(filter(None, (earlier, user_transcript(entry))))
        first, *others = messages
        return [replace(first, user_text=said or None, interim_user_text=interim), *others]


def phase_text(prepare: str) -> Mapping[Phase, str]:
    """Phases in the words of a version whose first message is `prepare`."""
    return {
        Phase.QUEUED: "queued",
        Phase.QUEUED_PREPARED: f"queued and its {prepare} is kept",
        Phase.ASSIGNED: "connected",
        Phase.PREPARING: f"connected and its {prepare} is being carried out",
        Phase.ACTIVE: "active",
        Phase.STOPPING: "closing",
        Phase.OVER: "closed",
    }


_NOT_REPORTED = frozenset({ErrorCode.INPUT_BACKPRESSURE, ErrorCode.INVALID_JSON})
"""Excess audio is dropped without an error; in version 1, the close code alone reports invalid JSON."""

_CODES: dict[str, RealtimeCode] = {
    ErrorCode.NOT_READY: RealtimeCode.NOT_READY,
    ErrorCode.UNKNOWN_TYPE: RealtimeCode.UNKNOWN_EVENT,
    ErrorCode.MISSING_FIELD: RealtimeCode.MISSING_FIELD,
    ErrorCode.INVALID_FIELD: RealtimeCode.INVALID_PAYLOAD,
    ErrorCode.MESSAGE_TOO_LARGE: RealtimeCode.INVALID_PAYLOAD,
    ErrorCode.TOO_COMPLEX: RealtimeCode.INVALID_PAYLOAD,
    ErrorCode.QUEUE_FULL: RealtimeCode.QUEUE_FULL,
    ErrorCode.STORE_FULL: RealtimeCode.SERVICE_UNAVAILABLE,
    ErrorCode.WORKER_LOST: RealtimeCode.WORKER_CONNECT_FAILED,
    ErrorCode.BROKER_UNAVAILABLE: RealtimeCode.SERVICE_UNAVAILABLE,
    ErrorCode.SERVER_SHUTDOWN: RealtimeCode.SERVICE_UNAVAILABLE,
    ErrorCode.RATE_LIMITED: RealtimeCode.SERVICE_UNAVAILABLE,
    ErrorCode.PAGE_OFF: RealtimeCode.SERVICE_UNAVAILABLE,
    ErrorCode.INFERENCE_ERROR: RealtimeCode.INFERENCE_ERROR,
}

CLOSED_AS: dict[EndReason, tuple[ClosedReason, Close]] = {
    EndReason.STOPPED: (ClosedReason.STOPPED, Close.NORMAL),
    EndReason.PAUSE_TIMEOUT: (ClosedReason.TIMEOUT, Close.NORMAL),
    EndReason.CONTEXT_FULL: (ClosedReason.CONTEXT_FULL, Close.NORMAL),
    EndReason.SERVER_SHUTDOWN: (ClosedReason.SERVER_SHUTDOWN, Close.RESTART),
    EndReason.CANCELLED: (ClosedReason.ERROR, Close.POLICY),
    EndReason.ERROR: (ClosedReason.ERROR, Close.INTERNAL),
}
"""Ends that `session.closed` reports. Other ends are an `error` and close code 1013."""

CLOSED_AS_V2 = {
    EndReason.STOPPED: (ClosedReasonV2.CLIENT_CLOSED, ""),
    EndReason.PAUSE_TIMEOUT: (ClosedReasonV2.TIMEOUT, "the session lasted too long without audio"),
    EndReason.CONTEXT_FULL: (ClosedReasonV2.CONTEXT_FULL, "the context is full"),
    EndReason.SERVER_SHUTDOWN: (ClosedReasonV2.SERVER_SHUTDOWN, "the server shuts down; reconnect"),
    EndReason.CANCELLED: (ClosedReasonV2.ERROR, "the session was cancelled"),
    EndReason.ERROR: (ClosedReasonV2.ERROR, "the session failed"),
}
"""Reasons in version 2, and diagnostics."""


def error_event(code: str, text: str) -> ErrorEvent:
    """An unknown code is an error of the engine."""
    return ErrorEvent.of(_CODES.get(code, RealtimeCode.INFERENCE_ERROR), text)


def encode_realtime_error(fault: Fault) -> Sequence[ServerMessage]:
    """A realtime client knows nine codes of errors and five reasons of an end."""
    code = fault.message.code
    if code in _NOT_REPORTED:
        return []
    if fault.close is Close.RESTART:
        return [SessionClosed(reason=ClosedReason.SERVER_SHUTDOWN)]
    if fault.close is None or code in _CODES:
        return [error_event(code, fault.message.message)]
    return [SessionClosed(reason=ClosedReason.ERROR)]


def encode_v2_error(fault: Fault, sid: str | None = None) -> Sequence[ServerMessage]:
    """An `error`, then `session.closed`. A shutdown is no error."""
    text, code = fault.message.message, fault.message.code
    if fault.close is Close.RESTART:
        return [SessionClosedV2.of(ClosedReasonV2.SERVER_SHUTDOWN, text, sid)]
    known = _CODES.get(code, RealtimeCode.SERVICE_UNAVAILABLE)
    if code in _NOT_REPORTED:
        known = RealtimeCode.INVALID_PAYLOAD
    closed = SessionClosedV2.of(ClosedReasonV2.ERROR, text, sid)
    return [ErrorEvent.of(known, text), closed]


def report_place(place: QueuePlace, *, notices: bool) -> list[Action]:
    """Only clients that asked for `notices` get `stale`, position 0 and a `reason`: the document has none."""
    if not notices and (place.stale or place.position == 0):
        return []
    reason = place.reason if notices else None
    if place.first:
        queued = SessionQueued(
            position=place.position,
            estimated_wait_s=place.eta_s,
            ticket_id=place.ticket_id,
            queue_length=place.queue_length,
            reason=reason,
        )
        return [Send(queued)]
    update = SessionQueueUpdate(
        position=place.position,
        estimated_wait_s=place.eta_s,
        queue_length=place.queue_length,
        stale=place.stale or None,
        reason=reason,
    )
    return [Send(update)]


def ended_by(fault: Fault) -> Finish:
    """The end of a session after this fault."""
    restarts = fault.close is Close.RESTART
    reason = EndReason.SERVER_SHUTDOWN if restarts else EndReason.ERROR
    return Finish(fault.close or Close.POLICY, reason)
