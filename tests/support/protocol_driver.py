"""Drives a protocol's decoder and machine as the edge does, without a socket."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from antiphon.edge.errors import Close, NotJson, explain
from antiphon.edge.protocols.machine import (
    Action,
    ErrorEncoder,
    Finish,
    Phase,
    QueuePlace,
    Send,
    SessionMachine,
    encode_error,
)
from antiphon.shared_schemas.entries import ErrorOut, OutEntry, StoppedOut, TimeoutOut
from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.registry import SessionCommand
from antiphon.shared_schemas.states import EndReason
from antiphon.shared_schemas.wire import ServerMessage, encode_text

Frame = str | bytes


@dataclass(frozen=True)
class Granted:
    """A worker takes the session."""


@dataclass(frozen=True)
class Ended:
    """The session ends before its client closes it."""

    reason: EndReason | None


Step = Frame | Granted | OutEntry | QueuePlace | SessionCommand | Ended


class DrivenConnection:
    """One connection, driven as by the edge; `closed` is set after its close."""

    def __init__(self, protocol: "Protocol") -> None:
        self.closed = False
        self._protocol = protocol
        self._decoder, self._machine = protocol.open()
        self._granted = False

    @property
    def state(self) -> str:
        return str(self._machine.phase_text)

    @property
    def waits(self) -> bool:
        """There is a session, and no worker has it."""
        return self._machine is not None and self._machine.waiting

    async def step(self, step: Step) -> list[Action]:
        """The resulting actions; empty for a step that is impossible in this state."""
        actions = list(await self._step(step))
        self.closed = any(isinstance(action, Finish) for action in actions)
        return actions

    async def _step(self, step: Step) -> Sequence[Action]:
        match step:
            case str() | bytes():
                return await self._send(step)
            case Ended(reason=reason):
                return list(self._machine.ended(reason))
            case SessionCommand():
                return list(self._machine.commanded(step))
            case Granted():
                granted, self._granted = self._granted, True
                return [] if granted else self._machine.granted()
            case QueuePlace():
                return [] if self._granted else self._machine.placed(step)
            case _:
                return self._machine.deliver(step, 0) if self._granted else []

    async def _send(self, frame: Frame) -> Sequence[Action]:
        try:
            return list(self._machine.receive(await self._decoder.decode(frame)))
        except (InvalidInput, NotJson) as error:
            return self._refuse(error)

    def _refuse(self, error: Exception, close: Close | None = None) -> list[Action]:
        fault = explain(error)
        sent: list[Action] = [Send(message) for message in self._protocol.encode_error(fault)]
        if self._machine:
            sent = list(self._machine.report(fault))
        closing = fault.close or close
        over = any(isinstance(action, Finish) for action in sent)
        return [*sent, Finish(closing, EndReason.ERROR)] if closing and not over else sent


def advance(machine: SessionMachine[Any], phase: Phase, steps: Sequence[object]) -> None:
    """Takes the steps of a usual session until its phase is reached: commands, entries and "granted"."""
    for step in steps:
        if machine.phase is phase:
            return
        if step == "granted":
            machine.granted()
        elif isinstance(step, OutEntry):
            machine.deliver(step, 0)
        else:
            machine.receive(step)
    assert machine.phase is phase


@dataclass(frozen=True)
class Protocol:
    """The messages of one endpoint: valid and invalid ones of the client, and the worker's entries."""

    path: str
    open: Callable[[], tuple[Any, Any]]
    """A decoder and its machine."""
    setup: Mapping[str, Sequence[Step]]
    """The steps that bring a connection into each state except the last."""
    messages: Mapping[str, Frame]
    mistakes: Mapping[str, Frame]
    entries: Sequence[OutEntry]
    terminal: frozenset[str]
    encode_error: ErrorEncoder = encode_error
    connection: type[DrivenConnection] = DrivenConnection
    stop: str = "stop"
    """The message that ends a session; empty: only the end of its connection does."""
    version: str = ""
    """Tells protocols of one path apart."""
    errors_end: bool = False
    """Every error ends the session, or every error before it has begun."""
    keeps: bool = True
    """What leads to nothing is kept, unless the session is closing; otherwise it is ignored."""

    @property
    def name(self) -> str:
        return self.path + self.version

    async def at(self, state: str) -> DrivenConnection:
        connection = self.connection(self)
        for step in self.setup[state]:
            await connection.step(step)
        assert connection.state == state, connection.state
        return connection


def kind_of(message: ServerMessage) -> str:
    """Its type; Twilio calls it `event`."""
    wire = message.wire()
    return str(wire.get("type") or wire["event"])


def wires_of(actions: Sequence[Action]) -> list[dict[str, Any]]:
    return [
        orjson.loads(encode_text(action.message).text())
        for action in actions
        if isinstance(action, Send)
    ]


def _fatal(code: str) -> ErrorOut:
    return ErrorOut(code=code, message="bad", fatal=True)


ENDINGS = [
    (StoppedOut(), Finish(Close.NORMAL, EndReason.STOPPED)),
    (TimeoutOut(reason="silent"), Finish(Close.NORMAL, EndReason.PAUSE_TIMEOUT)),
    (_fatal("inference_error"), Finish(Close.INTERNAL, EndReason.ERROR)),
    (_fatal("context_full"), Finish(Close.INTERNAL, EndReason.CONTEXT_FULL)),
]
"""The entries that end a duplex or half-duplex session, and how."""
