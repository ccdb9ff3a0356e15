"""The state machine that all protocols share: actions, phases, the queue, and the end of a session."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from antiphon.edge.errors import Close, Fault, end_reason, explain_end, worker_error
from antiphon.edge.json_text import ClientFrame
from antiphon.shared_schemas.entries import (
    ChunkIn,
    ErrorOut,
    HalfDuplexPrepareIn,
    InEntry,
    OutEntry,
    PauseIn,
    PrepareIn,
    ResumeIn,
    StopIn,
)
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.registry import SessionCommand
from antiphon.shared_schemas.states import EndReason, WaitReason
from antiphon.shared_schemas.wire import Queued, QueueDone, QueueUpdate, ServerMessage, Stopped


@dataclass(frozen=True, slots=True)
class Send:
    """Send this message to the client."""

    message: ServerMessage


@dataclass(frozen=True, slots=True)
class Forward:
    """Append this entry to the session's input stream."""

    entry: InEntry


@dataclass(frozen=True, slots=True)
class Finish:
    """Close the connection after the messages before; the session is over for `reason`."""

    close: Close
    reason: EndReason


Action = Send | Forward | Finish
Actions = Sequence[Action]


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """A session's place in the queue. `eta_s`: seconds until a slot should be free.

    `position` is 1-based; 0: the session waited because its worker was lost, and a worker serves it
    again. `eta_s` is None while no worker can take the session, for the `reason`. `stale`: it was the
    place before Redis became unavailable. `first`: it is the first one that the client receives.
    """

    ticket_id: str
    position: int
    queue_length: int
    eta_s: float | None
    first: bool = False
    stale: bool = False
    reason: WaitReason | None = None


@dataclass(frozen=True, slots=True)
class Deadline:
    """What a session does at a given time of the event loop."""

    at: float
    act: Callable[[], Actions]


class Phase(StrEnum):
    """Where a session is. `PHASE_TEXT` of a protocol says it in the words of its clients."""

    QUEUED = "queued"
    QUEUED_PREPARED = "queued_prepared"
    ASSIGNED = "assigned"
    PREPARING = "preparing"
    ACTIVE = "active"
    PAUSED = "paused"
    STOPPING = "stopping"
    OVER = "over"


WAITING = (Phase.QUEUED, Phase.QUEUED_PREPARED)

Command = TypeVar("Command")
Command_co = TypeVar("Command_co", covariant=True)

ErrorEncoder = Callable[[Fault], Sequence[ServerMessage]]
"""How a protocol reports a fault, before its connection closes if it must."""


def encode_error(fault: Fault) -> Sequence[ServerMessage]:
    """The `error` message that all protocols but realtime send."""
    return [fault.message]


class CommandDecoder(Protocol[Command_co]):
    """Checks what a client sends, once; behind it there are typed commands only."""

    async def decode(self, frame: ClientFrame) -> Command_co:
        """One frame. Raises InvalidInput, or NotJson if the connection must close."""
        ...


class SessionMachine(ABC, Generic[Command]):
    """One session as its client sees it. No method does I/O; no call may follow a Finish.

    Phases follow the client's commands, not the worker's answers: the streams keep the order, so
    audio right after a `resume` reaches the worker after it.

    The messages of `deliver` depend on its entry and on what the client prepared: an edge that resumes the
    session restores its inputs and delivers the entries again. The time is sent but decides nothing.
    """

    LEGAL: ClassVar[Mapping[Phase, frozenset[type[Any]]]]
    """The commands that a client may send in each phase."""
    LEADS_TO: ClassVar[Mapping[type[Any], Phase]]
    """The phase after a command that was forwarded."""
    WIRE_NAMES: ClassVar[Mapping[type[Any], str]]
    """The `type` of each command's message."""
    PHASE_TEXT: ClassVar[Mapping[Phase, str]]
    """Phases in error messages."""
    SUBJECT: ClassVar[str] = "session"

    def __init__(self) -> None:
        self.phase = Phase.QUEUED
        self.recovering = False
        """The client may have been notified that its worker was lost."""

    @property
    def waiting(self) -> bool:
        """No worker has been granted yet."""
        return self.phase in WAITING

    @property
    def phase_text(self) -> str:
        """The phase in error messages."""
        return self.PHASE_TEXT[self.phase]

    @property
    def legal(self) -> frozenset[type[Any]]:
        """The commands that the client may send now."""
        return self.LEGAL[self.phase]

    @property
    def wire_names(self) -> Mapping[type[Any], str]:
        return self.WIRE_NAMES

    def restore(
        self, prepared: InEntry | None, recent: Iterable[InEntry], *, granted: bool
    ) -> Actions:
        """Enter the state that the client's inputs led to. Returns the report of the grant, if any.

        `prepared`: the `prepare` that a worker accepted, if it is older than `recent`.
        """
        actions = self.granted() if granted else []
        if prepared is not None:
            self.apply_input(prepared)
            self.phase = Phase.ACTIVE
        for entry in recent:
            self.apply_input(entry)
        return actions

    def apply_input(self, entry: InEntry) -> None:
        """Enter the phase that this input leads to."""
        phase = self.LEADS_TO.get(type(entry), self.phase)
        waits = self.waiting and phase is Phase.PREPARING
        self.phase = Phase.QUEUED_PREPARED if waits else phase

    def receive(self, command: Command) -> Actions:
        """Handle a command. Raises InvalidInput, with the legal commands, if it is not legal now."""
        if type(command) not in self.legal:
            raise self._not_legal(command)
        return self._handle(command)

    @abstractmethod
    def _handle(self, command: Command) -> Actions: ...

    def refused(self, entry: InEntry) -> None:
        """An entry that was forwarded is not written: too many wait."""

    @abstractmethod
    def deliver(self, entry: OutEntry, now_ms: float) -> Actions:
        """Handle an answer of the worker; `now_ms` is the time of the Redis clock."""

    def placed(self, place: QueuePlace) -> Actions:
        """Report a place in the queue."""
        shared: dict[str, Any] = {
            "ticket_id": place.ticket_id,
            "position": place.position,
            "queue_length": place.queue_length,
            "eta_seconds": place.eta_s,
            "estimated_wait_s": place.eta_s,
            "reason": place.reason,
        }
        message = (
            Queued(**shared) if place.first else QueueUpdate(**shared, stale=place.stale or None)
        )
        return [Send(message)]

    def worker_lost(self, place: QueuePlace) -> Actions:
        """The session waits for another worker at this place."""
        self.recovering = True
        return self.placed(place)

    def worker_replaced(self, ticket_id: str) -> Actions:
        """A worker serves the session again. Reported only if its wait was."""
        if not self.recovering:
            return []
        self.recovering = False
        return self.placed(QueuePlace(ticket_id, 0, 0, 0.0))

    def granted(self) -> Actions:
        """A worker holds the session."""
        prepared = self.phase is Phase.QUEUED_PREPARED
        self.phase = Phase.PREPARING if prepared else Phase.ASSIGNED
        return self._grant_messages()

    def _grant_messages(self) -> list[Action]:
        return [Send(QueueDone())]

    def commanded(self, command: SessionCommand) -> Actions:  # noqa: ARG002 - most ignore them
        """Handle a command that came by HTTP instead of the session's connection."""
        return []

    def draining(self, left_s: float) -> Actions:  # noqa: ARG002 - most protocols have no word for it
        """The edge closes the connection in `left_s` seconds, unless the session ends before."""
        return []

    def ended(self, reason: EndReason | None) -> Actions:
        """The session ended without a last entry of the worker; None: its record is lost."""
        self.phase = Phase.OVER
        fault = explain_end(reason)
        messages = [Send(message) for message in self._error_messages(fault)]
        return [*messages, Finish(fault.close or Close.INTERNAL, reason or EndReason.ERROR)]

    def report(self, fault: Fault) -> Actions:
        """Report input that cannot be used, or why the connection is about to close."""
        return [Send(message) for message in self._error_messages(fault)]

    def _error_messages(self, fault: Fault) -> Sequence[ServerMessage]:
        return encode_error(fault)

    def client_gone(self) -> EndReason:
        """The end of a session whose client left; one that was stopping has been stopped."""
        return EndReason.STOPPED if self.phase is Phase.STOPPING else EndReason.CLIENT_GONE

    def deadlines(self) -> Iterable[Deadline]:
        """Earliest first."""
        return ()

    def _not_legal(self, command: Command) -> InvalidInput:
        names = self.wire_names
        allowed = ", ".join(sorted(names[kind] for kind in self.legal)) or "nothing"
        text = (
            f"{names[type(command)]}: not allowed while the {self.SUBJECT} is {self.phase_text}; "
            f"allowed now: {allowed}"
        )
        code = ErrorCode.PAUSED if self.phase is Phase.PAUSED else ErrorCode.NOT_READY
        return InvalidInput(text, field="type", code=code)

    def _forward(self, entry: InEntry) -> list[Action]:
        self.apply_input(entry)
        return [Forward(entry)]

    def _prepared(self, message: ServerMessage) -> list[Action]:
        if self.phase in (Phase.ASSIGNED, Phase.PREPARING):
            self.phase = Phase.ACTIVE
        return [Send(message)]

    def _prepare_again(self) -> None:
        """After an error of the worker: what the client sent to prepare was refused."""
        if self.phase is Phase.PREPARING:
            self.phase = Phase.ASSIGNED

    def _finish(self, message: ServerMessage, close: Close, reason: EndReason) -> list[Action]:
        self.phase = Phase.OVER
        return [Send(message), Finish(close, reason)]


class ConversationMachine(SessionMachine[Command]):
    """A session that is prepared, talks and stops: `/ws/duplex` and `/ws/half_duplex`."""

    LEADS_TO: ClassVar = {
        PrepareIn: Phase.PREPARING,
        HalfDuplexPrepareIn: Phase.PREPARING,
        ChunkIn: Phase.ACTIVE,
        PauseIn: Phase.PAUSED,
        ResumeIn: Phase.ACTIVE,
        StopIn: Phase.STOPPING,
    }
    PHASE_TEXT: ClassVar = {
        Phase.QUEUED: "queued",
        Phase.QUEUED_PREPARED: "queued and prepare is kept",
        Phase.ASSIGNED: "waiting for prepare",
        Phase.PREPARING: "preparing",
        Phase.ACTIVE: "active",
        Phase.PAUSED: "paused",
        Phase.STOPPING: "stopping",
        Phase.OVER: "over",
    }

    def __init__(self, sid: str, recording: str) -> None:
        super().__init__()
        self._sid = sid
        self._recording = recording

    def ended(self, reason: EndReason | None) -> Actions:
        if reason is EndReason.STOPPED:
            return self._stopped()
        return super().ended(reason)

    def _stop(self, command: StopIn) -> list[Action]:
        return self._stopped() if self.waiting else self._forward(command)

    def _stopped(self) -> list[Action]:
        return self._finish(Stopped(session_id=self._sid), Close.NORMAL, EndReason.STOPPED)

    def _timed_out(self, message: ServerMessage) -> list[Action]:
        return self._finish(message, Close.NORMAL, EndReason.PAUSE_TIMEOUT)

    def _failed(self, entry: ErrorOut) -> list[Action]:
        message = worker_error(entry)
        if not entry.fatal:
            self._prepare_again()
            return [Send(message)]
        return self._finish(message, Close.INTERNAL, end_reason(entry))
