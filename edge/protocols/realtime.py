"""`/v1/realtime` as a state machine: QUEUED, CONNECTED, ACTIVE, CLOSED, as the document draws it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from antiphon.edge.errors import Close, explain_end
from antiphon.edge.protocols.contract import Action, Finish, Forward, QueuePlace, Tell
from antiphon.edge.protocols.forecast import ContextForecast
from antiphon.edge.protocols.realtime_deltas import Speaking
from antiphon.edge.protocols.realtime_faults import CLOSED_AS, error_event, realtime
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
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.events import SessionCommand
from antiphon.shared_schemas.realtime_messages import (
    CONTEXT_TOKENS,
    SessionClosed,
    SessionCreated,
    SessionNotice,
    SessionQueued,
    SessionQueueDone,
    SessionQueueUpdate,
)
from antiphon.shared_schemas.states import EndReason

RealtimeCommand = PrepareIn | ChunkIn | PlaybackIn | StopIn

WIRE_NAMES: dict[type[RealtimeCommand], str] = {
    PrepareIn: "session.update",
    ChunkIn: "input_audio_buffer.append",
    PlaybackIn: "output_audio_buffer.playback_ack",
    StopIn: "session.close",
}


class Stage(StrEnum):
    """The document's four states; three of them have a second half, while an answer is awaited."""

    QUEUED = "queued"
    QUEUED_UPDATED = "queued and its session.update is kept"
    CONNECTED = "connected"
    CREATING = "connected and its session.update is being carried out"
    ACTIVE = "active"
    CLOSING = "closing"
    CLOSED = "closed"


LEGAL: dict[Stage, frozenset[type[RealtimeCommand]]] = {
    Stage.QUEUED: frozenset({PrepareIn}),
    Stage.QUEUED_UPDATED: frozenset(),
    Stage.CONNECTED: frozenset({PrepareIn}),
    Stage.CREATING: frozenset(),
    Stage.ACTIVE: frozenset({ChunkIn, PlaybackIn, StopIn}),
    Stage.CLOSING: frozenset(),
    Stage.CLOSED: frozenset(),
}


_WAITING = (Stage.QUEUED, Stage.QUEUED_UPDATED)
_LEADS_TO: dict[type, Stage] = {PrepareIn: Stage.CREATING, StopIn: Stage.CLOSING}


class RealtimeMachine:
    """One session between its client and its streams."""

    def __init__(self, sid: str, *, notices: bool = False) -> None:
        self.stage = Stage.QUEUED
        self._sid = sid
        self._held: list[InEntry] = []
        self._speaking = Speaking()
        self._forecast = ContextForecast(wanted=notices)
        self._warned = False

    @property
    def waiting(self) -> bool:
        """No worker has been granted yet."""
        return self.stage in _WAITING

    @property
    def held(self) -> Sequence[InEntry]:
        """What goes to the worker with the grant."""
        return self._held

    def memory(self) -> dict[str, Any]:
        """Where the session stands, ready for JSON."""
        return {
            "stage": str(self.stage),
            "words": self._speaking.words,
            "forecast": self._forecast.memory(),
            "warned": self._warned,
        }

    def recall(self, memory: Mapping[str, Any], held: Sequence[InEntry]) -> None:
        """Stand there again."""
        self.stage = Stage(memory["stage"])
        self._held = list(held)
        self._speaking.words = memory["words"]
        self._forecast.recall(memory["forecast"])
        self._warned = memory["warned"]

    def adopt(self, entry: InEntry) -> None:
        """Stand where this input, found in the stream, has led."""
        self.stage = _LEADS_TO.get(type(entry), self.stage)

    def receive(self, command: RealtimeCommand) -> list[Action]:
        """The client asks. Raises InvalidInput with `not_ready` when it may not."""
        if type(command) not in LEGAL[self.stage]:
            name = WIRE_NAMES[type(command)]
            text = f"{name}: not allowed while the session is {self.stage}"
            raise InvalidInput(text, field="type", code=ErrorCode.NOT_READY)
        if self.waiting:  # a page sends it at once, though its document tells it to wait
            self.stage, self._held = Stage.QUEUED_UPDATED, [command]
            return []
        self.adopt(command)
        return [Forward(command)]

    def placed(self, place: QueuePlace) -> list[Action]:
        """The session waits there."""
        position, length, eta_s = place.position, place.queue_length, place.eta_s
        if not place.first:
            update = SessionQueueUpdate(
                position=position, estimated_wait_s=eta_s, queue_length=length
            )
            return [Tell(update)]
        ticket = place.ticket_id
        queued = SessionQueued(
            position=position, estimated_wait_s=eta_s, ticket_id=ticket, queue_length=length
        )
        return [Tell(queued)]

    def granted(self) -> list[Action]:
        """A worker holds the session: what was kept goes to it."""
        kept, self._held = self._held, []
        updated = self.stage is Stage.QUEUED_UPDATED
        self.stage = Stage.CREATING if updated else Stage.CONNECTED
        return [Tell(SessionQueueDone()), *(Forward(entry) for entry in kept)]

    def asked(self, ask: SessionCommand) -> list[Action]:  # noqa: ARG002 - nothing can be asked
        """Someone beside the client asks for something."""
        return []

    def nearly_over(self, seconds_left: float) -> list[Action]:
        """The session has not much longer to last; told once."""
        warned, self._warned = self._warned, True
        return [] if warned else [Tell(SessionNotice(limit="duration", seconds_left=seconds_left))]

    def overdue(self) -> list[Action]:
        """The session has lasted as long as it may, waiting included."""
        return self._close(EndReason.PAUSE_TIMEOUT)

    def deliver(self, entry: OutEntry, now_ms: float) -> list[Action]:  # noqa: ARG002 - as all have
        """The worker answers."""
        match entry:
            case ResultOut():
                return self._result(entry)
            case PreparedOut(prompt_length=prompt_length):
                return self._created(prompt_length)
            case StoppedOut():
                return self._close(EndReason.STOPPED)
            case TimeoutOut():
                return self._close(EndReason.PAUSE_TIMEOUT)
            case ErrorOut():
                return self._failed(entry)
            case _:
                raise TypeError(f"{entry.tag} does not belong in a realtime session")

    def ended(self, reason: EndReason | None) -> list[Action]:
        """The session ended without a last word of the worker; None: its record is lost."""
        if reason in CLOSED_AS:
            return self._close(reason)
        self.stage = Stage.CLOSED
        fault = explain_end(reason)
        told = [Tell(message) for message in realtime(fault)]
        return [*told, Finish(fault.close or Close.INTERNAL, reason or EndReason.ERROR)]

    def gone(self) -> EndReason:
        """The client left; one that had asked to close has what it wanted."""
        return EndReason.STOPPED if self.stage is Stage.CLOSING else EndReason.CLIENT_GONE

    def _created(self, prompt_length: int) -> list[Action]:
        """Told once: a worker that takes the session over prepares it again, unseen."""
        if self.stage is not Stage.CREATING:
            return []
        self.stage = Stage.ACTIVE
        return [Tell(SessionCreated(session_id=self._sid, prompt_length=prompt_length))]

    def _result(self, entry: ResultOut) -> list[Action]:
        told: list[Action] = [Tell(message) for message in self._speaking.messages(entry)]
        left_s = self._forecast.seconds_left(entry)
        if left_s is not None:
            told.append(Tell(SessionNotice(limit="context", seconds_left=left_s)))
        full = entry.kv_cache_length >= CONTEXT_TOKENS
        return [*told, *self._close(EndReason.CONTEXT_FULL)] if full else told

    def _failed(self, entry: ErrorOut) -> list[Action]:
        if entry.code == ErrorCode.CONTEXT_FULL:
            return self._close(EndReason.CONTEXT_FULL)
        told = Tell(error_event(entry.code, entry.message))
        if entry.fatal:
            return [told, *self._close(EndReason.ERROR)]
        if self.stage is Stage.CREATING:
            self.stage = Stage.CONNECTED
        return [told]

    def _close(self, reason: EndReason) -> list[Action]:
        self.stage = Stage.CLOSED
        closed, code = CLOSED_AS[reason]
        return [Tell(SessionClosed(reason=closed)), Finish(code, reason)]
