"""A session's connection rebuilt from Redis, when its client comes back to another edge or this one."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import structlog

from antiphon.broker.client import Broker
from antiphon.broker.streams import StreamWriter
from antiphon.edge.errors import ResumeExpired
from antiphon.edge.protocols.contract import Finish, Machine, Tell
from antiphon.shared_schemas.entries import (
    Checkpoint,
    CheckpointEntry,
    ChunkIn,
    DiagnosticIn,
    InEntry,
    OutEntry,
)
from antiphon.shared_schemas.stream_position import StreamPosition
from antiphon.shared_schemas.wire import ServerMessage

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded(ServerMessage):
    """A message as it was written down."""

    type: ClassVar[str] = "recorded"
    body: dict[str, Any]

    @property
    def bears_token(self) -> bool:  # type: ignore[override]
        """The place of a token is kept, the token is not."""
        return "resume_token" in self.body

    def wire(self) -> dict[str, Any]:
        """As it was, with the token of today."""
        token = {"resume_token": self.resume_token} if self.bears_token else {}
        return {**self.body, **token}


async def recollect(
    broker: Broker, sid: str, ticket: int, connection: int, last: int
) -> Recollection:
    """Shut the connection before out of its streams, and read what it noted.

    Raises ResumeExpired when message `last` lies too far back.
    """
    inputs = await broker.streams.input_writer(sid, ticket, connection)
    notes = await broker.streams.checkpoint_writer(sid, ticket, connection)
    past = Recollection(broker, sid, last, inputs, notes)
    async for position, entry in broker.streams.history(broker.keys.checkpoints(sid), ticket):
        past.remember(position, entry)
    if not past.marks:
        raise ResumeExpired
    return past


class Recollection:
    """Tells again what came after message `last`, and finds where to go on: `seq`, `heard`, `finish`.

    The numbers fall out of the order of events: each mark says how far the output stream had been
    told of when it was written, and what else was told.
    """

    def __init__(
        self, broker: Broker, sid: str, last: int, inputs: StreamWriter, notes: StreamWriter
    ) -> None:
        self.last = last
        self.inputs = inputs
        self.notes = notes
        self.marks: deque[Checkpoint] = deque()
        self.kept: list[StreamPosition] = []
        self.seq = 0
        self.heard = StreamPosition.before(inputs.last.ticket)
        self.finish: Finish | None = None
        self._broker = broker
        self._sid = sid
        self._held: list[InEntry] = []

    def remember(self, position: StreamPosition, entry: CheckpointEntry) -> None:
        """One note. Marks before the newest that the client has passed are of no use any more."""
        if isinstance(entry, Checkpoint):
            if entry.seq <= self.last:
                self.marks.clear()
            if self.marks or entry.seq <= self.last:
                self.marks.append(entry)
        else:
            self.kept.append(position)
            if len(self.kept) > self.inputs.last.n:  # those before have reached the input
                self._held.append(entry)

    async def replay(self, machine: Machine[Any]) -> AsyncIterator[ServerMessage]:
        """What the client has not got, in order; the machine stands at the present afterwards."""
        commands = await self._commands()
        first = self.marks.popleft()
        machine.recall(first.snapshot, self._held)
        self.seq, self.heard = first.seq, StreamPosition.parse(first.last_output)
        outputs = self._broker.keys.outbound(self._sid)
        history = self._broker.streams.history(outputs, self.heard.ticket, self.heard)
        async with aclosing(history) as entries:
            async for position, entry in entries:
                if position.n > self.heard.n + 1 and self.seq == first.seq:
                    raise ResumeExpired  # the stream has been trimmed since
                for message in self._catch_up(machine, position):
                    yield message
                if not self.marks and self.seq >= self.last and self._adopt(machine, commands):
                    await self._note_adoption(machine)
                if machine.waiting or self.finish:
                    break
                for message in self._deliver(machine, position, entry):
                    yield message
        for message in self._catch_up(machine, None):
            yield message
        self._adopt(machine, commands)
        self.seq = max(self.seq, self.last)

    def _catch_up(
        self, machine: Machine[Any], position: StreamPosition | None
    ) -> list[ServerMessage]:
        """Events that came before the output entry at `position`; None: all that are left."""
        told: list[ServerMessage] = []
        while self.marks:
            mark = self.marks[0]
            if position is not None and StreamPosition.parse(mark.last_output) >= position:
                break
            self.marks.popleft()
            self.seq += len(mark.messages)
            if self.seq != mark.seq:
                log.error("resume_misnumbered", seq=self.seq, marked=mark.seq)
                raise ResumeExpired
            machine.recall(mark.snapshot, self._held)
            told += [Recorded(body=m) for m in mark.messages if m["seq"] > self.last]
        return told

    def _deliver(
        self, machine: Machine[Any], position: StreamPosition, entry: OutEntry
    ) -> list[ServerMessage]:
        self.heard = position
        told: list[ServerMessage] = []
        for action in machine.deliver(entry, self._broker.clock.now_ms()):
            if isinstance(action, Finish):
                self.finish = action
            elif isinstance(action, Tell):
                self.seq += 1
                if self.seq > self.last:
                    told.append(replace(action.message, seq=self.seq))
        return told

    async def _commands(self) -> list[InEntry]:
        """Inputs that reached the stream but not the notes; what they led to was not told yet."""
        key, after = (
            self._broker.keys.inbound(self._sid),
            StreamPosition.parse(self.marks[-1].last_input),
        )
        return [
            entry
            async for _, entry in self._broker.streams.history(key, after.ticket, after)
            if not isinstance(entry, ChunkIn | DiagnosticIn)
        ]

    def _adopt(self, machine: Machine[Any], commands: list[InEntry]) -> bool:
        """They came after everything that the client has. False where there is nothing to adopt."""
        if machine.waiting or not commands:
            return False
        for entry in commands:
            machine.adopt(entry)
        commands.clear()
        return True

    async def _note_adoption(self, machine: Machine[Any]) -> None:
        """From here on messages depend on it: whoever tells them again must adopt at the same place."""
        await self.notes.append(
            Checkpoint(
                seq=self.seq,
                last_output=self.heard.id(),
                last_input=self.inputs.last.id(),
                snapshot=machine.memory(),
                messages=[],
            )
        )
