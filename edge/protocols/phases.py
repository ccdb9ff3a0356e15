"""Where a prepared conversation stands, and the moves that its two protocols have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar

from antiphon.edge.errors import Close, error_message, explain_end
from antiphon.edge.protocols.contract import Action, Finish, Forward, QueuePlace, Tell
from antiphon.edge.protocols.queue_messages import queue_message
from antiphon.shared_schemas.entries import (
    ErrorOut,
    HalfDuplexPrepareIn,
    InEntry,
    PauseIn,
    PreparedOut,
    PrepareIn,
    ResumeIn,
    StopIn,
)
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.events import SessionCommand
from antiphon.shared_schemas.states import EndReason
from antiphon.shared_schemas.wire import QueueDone, ServerMessage, Stopped

MAX_HELD = 16
"""Entries kept for a session that still waits for its worker."""


class Phase(StrEnum):
    """Where a session stands for its client; the words appear in error messages."""

    QUEUED = "queued"
    QUEUED_PREPARED = "queued and prepare is kept"
    ASSIGNED = "waiting for prepare"
    PREPARING = "preparing"
    ACTIVE = "active"
    PAUSED = "paused"
    STOPPING = "stopping"
    OVER = "over"


_WAITING = (Phase.QUEUED, Phase.QUEUED_PREPARED)
_LEADS_TO: dict[type, Phase] = {
    PrepareIn: Phase.PREPARING,
    HalfDuplexPrepareIn: Phase.PREPARING,
    PauseIn: Phase.PAUSED,
    ResumeIn: Phase.ACTIVE,
    StopIn: Phase.STOPPING,
}


class PreparedMachine(ABC):
    """A session that is prepared, talks, and stops. States follow what was asked, not what the worker
    confirmed: the streams keep the order, so audio right behind a `resume` reaches the worker behind it.
    """

    LEGAL: ClassVar[Mapping[Phase, frozenset[type]]]
    WIRE_NAMES: ClassVar[Mapping[Any, str]]

    def __init__(self, sid: str, recording: str) -> None:
        self.phase = Phase.QUEUED
        self._sid = sid
        self._recording = recording
        self._held: list[InEntry] = []

    @property
    def waiting(self) -> bool:
        """No worker has been granted yet."""
        return self.phase in _WAITING

    @property
    def held(self) -> Sequence[InEntry]:
        """What goes to the worker with the grant."""
        return self._held

    def memory(self) -> dict[str, Any]:
        """Where the session stands, ready for JSON."""
        return {"phase": str(self.phase)}

    def recall(self, memory: Mapping[str, Any], held: Sequence[InEntry]) -> None:
        """Stand there again."""
        self.phase = Phase(memory["phase"])
        self._held = list(held)

    def adopt(self, entry: InEntry) -> None:
        """Stand where this input, found in the stream, has led."""
        self.phase = _LEADS_TO.get(type(entry), self.phase)

    def placed(self, place: QueuePlace) -> list[Action]:
        """The session waits there."""
        return [Tell(queue_message(place))]

    def granted(self) -> list[Action]:
        """A worker holds the session: what was kept goes to it."""
        kept, self._held = self._held, []
        prepared = self.phase is Phase.QUEUED_PREPARED
        self.phase = Phase.PREPARING if prepared else Phase.ASSIGNED
        return [Tell(QueueDone()), *(Forward(entry) for entry in kept)]

    def asked(self, ask: SessionCommand) -> list[Action]:  # noqa: ARG002 - nothing can be asked of most
        """Someone beside the client asks for something."""
        return []

    def ended(self, reason: EndReason | None) -> list[Action]:
        """The session ended without a last word of the worker; None: its record is lost."""
        if reason is EndReason.STOPPED:
            return self._stopped()
        self.phase = Phase.OVER
        fault = explain_end(reason)
        close = fault.close or Close.INTERNAL
        return [Tell(fault.message), Finish(close, reason or EndReason.ERROR)]

    def gone(self) -> EndReason:
        """The client left; one that had asked to stop has what it wanted."""
        return EndReason.STOPPED if self.phase is Phase.STOPPING else EndReason.CLIENT_GONE

    @abstractmethod
    def _prepared_message(self, entry: PreparedOut) -> ServerMessage: ...

    def _check(self, command: object) -> None:
        legal = self.LEGAL[self.phase]
        if type(command) in legal:
            return
        name = self.WIRE_NAMES[type(command)]
        allowed = ", ".join(sorted(self.WIRE_NAMES[kind] for kind in legal)) or "nothing"
        code = ErrorCode.PAUSED if self.phase is Phase.PAUSED else ErrorCode.NOT_READY
        text = f"{name}: not allowed while the session is {self.phase}; allowed now: {allowed}"
        raise InvalidInput(text, field="type", code=code)

    def _prepare(self, command: InEntry) -> list[Action]:
        if self.phase is Phase.QUEUED:
            actions = self._forward_or_hold(command)
            self.phase = Phase.QUEUED_PREPARED
            return actions
        return self._enter(Phase.PREPARING, command)

    def _forward_or_hold(self, entry: InEntry) -> list[Action]:
        if self.phase not in _WAITING:
            return [Forward(entry)]
        if len(self._held) >= MAX_HELD:
            text = f"at most {MAX_HELD} messages are kept while the session waits"
            raise InvalidInput(text, field="type", code=ErrorCode.INPUT_BACKPRESSURE)
        self._held.append(entry)
        return []

    def _enter(self, phase: Phase, entry: InEntry) -> list[Action]:
        self.phase = phase
        return [Forward(entry)]

    def _stop(self, command: StopIn) -> list[Action]:
        return self._stopped() if self.phase in _WAITING else self._enter(Phase.STOPPING, command)

    def _prepared(self, entry: PreparedOut) -> list[Action]:
        """Told once: a worker that takes the session over prepares it again, unseen."""
        if self.phase is not Phase.PREPARING:
            return []
        self.phase = Phase.ACTIVE
        return [Tell(self._prepared_message(entry))]

    def _stopped(self) -> list[Action]:
        self.phase = Phase.OVER
        return [Tell(Stopped(session_id=self._sid)), Finish(Close.NORMAL, EndReason.STOPPED)]

    def _timed_out(self, message: ServerMessage) -> list[Action]:
        self.phase = Phase.OVER
        return [Tell(message), Finish(Close.NORMAL, EndReason.PAUSE_TIMEOUT)]

    def _failed(self, entry: ErrorOut) -> list[Action]:
        told = Tell(error_message(entry.code, entry.message, field=entry.field))
        if not entry.fatal:
            if self.phase is Phase.PREPARING:
                self.phase = Phase.ASSIGNED
            return [told]
        self.phase = Phase.OVER
        full = entry.code == ErrorCode.CONTEXT_FULL
        reason = EndReason.CONTEXT_FULL if full else EndReason.ERROR
        return [told, Finish(Close.INTERNAL, reason)]
