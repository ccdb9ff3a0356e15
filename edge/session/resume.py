"""Restores a session's connection from Redis, when its client resumes at this edge or another one."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import structlog

from antiphon.broker.client import Broker
from antiphon.broker.streams import StreamWriter
from antiphon.edge.errors import ResumeExpired
from antiphon.edge.protocols.machine import Finish, Send, SessionMachine
from antiphon.shared_schemas.entries import (
    Checkpoint,
    ChunkIn,
    DiagnosticIn,
    InEntry,
    OutEntry,
    StreamPosition,
)
from antiphon.shared_schemas.wire import ServerMessage

log = structlog.get_logger()


class StoredMessage(ServerMessage, type="stored"):
    """A message from a checkpoint."""

    body: dict[str, Any]

    @property
    def bears_token(self) -> bool:  # type: ignore[override]
        """A checkpoint stores that a message has a token, but not the token."""
        return "resume_token" in self.body

    def wire(self) -> dict[str, Any]:
        """The stored body with the current token."""
        token = {"resume_token": self.resume_token} if self.bears_token else {}
        return {**self.body, **token}


async def load_missed_messages(
    broker: Broker, sid: str, ticket: int, connection: int, last: int
) -> MissedMessages:
    """Fence off the previous connection and read its checkpoints.

    Raises ResumeExpired when message `last` is older than the checkpoints.
    """
    inputs = await broker.streams.input_writer(sid, ticket, connection)
    checkpoints = await broker.streams.checkpoint_writer(sid, ticket, connection)
    missed = MissedMessages(broker, sid, last, inputs, checkpoints)
    async for position, entry in broker.streams.history(broker.keys.checkpoints(sid), ticket):
        missed.add(position, entry)
    if not missed.checkpoints:
        raise ResumeExpired
    return missed


class MissedMessages:
    """What came after message `last`, and where to continue: `seq`, `delivered`, `finish`.

    The order of events determines the numbers: each checkpoint states how far the output stream had
    been delivered when it was written, and which other messages were sent.
    """

    def __init__(
        self, broker: Broker, sid: str, last: int, inputs: StreamWriter, writer: StreamWriter
    ) -> None:
        self.last = last
        self.inputs = inputs
        self.writer = writer
        self.checkpoints: deque[Checkpoint] = deque()
        self.pending: list[StreamPosition] = []
        self.seq = 0
        self.delivered = StreamPosition.before(inputs.last.ticket)
        self.finish: Finish | None = None
        self._broker = broker
        self._sid = sid
        self._held: list[InEntry] = []

    def add(self, position: StreamPosition, entry: Checkpoint | InEntry) -> None:
        """Add an entry of the checkpoint stream. Drops checkpoints that the client has passed."""
        if isinstance(entry, Checkpoint):
            if entry.seq <= self.last:
                self.checkpoints.clear()
            if self.checkpoints or entry.seq <= self.last:
                self.checkpoints.append(entry)
        else:
            self.pending.append(position)
            if len(self.pending) > self.inputs.last.n:  # those before are in the input stream
                self._held.append(entry)

    async def messages(self, machine: SessionMachine[Any]) -> AsyncIterator[ServerMessage]:
        """The messages that the client has missed, in order. The machine is up to date afterwards.

        Raises ResumeExpired, before the first message, when message `last` was never sent, or when
        the output stream no longer holds what comes after it.
        """
        inputs = await self._unconfirmed_inputs()
        first = self.checkpoints.popleft()
        machine.restore(first.snapshot, self._held)
        self.seq, self.delivered = first.seq, StreamPosition.parse(first.last_output)
        outputs = self._broker.keys.outbound(self._sid)
        history = self._broker.streams.history(outputs, self.delivered.ticket, self.delivered)
        async with aclosing(history) as entries:
            async for position, entry in entries:
                if position.n > self.delivered.n + 1:
                    raise ResumeExpired  # trimmed, or lost in a failover
                if not position.follows(self.delivered):
                    continue
                for message in self._apply_checkpoints(machine, position):
                    yield message
                caught_up = not self.checkpoints and self.seq >= self.last
                if caught_up and self._apply_inputs(machine, inputs):
                    await self._write_checkpoint(machine)
                if machine.waiting or self.finish:
                    break
                for message in self._deliver(machine, position, entry):
                    yield message
        for message in self._apply_checkpoints(machine, None):
            yield message
        self._apply_inputs(machine, inputs)
        if self.seq < self.last:
            raise ResumeExpired

    def _apply_checkpoints(
        self, machine: SessionMachine[Any], position: StreamPosition | None
    ) -> list[ServerMessage]:
        """Those before the output entry at `position`, or all that are left if it is None."""
        messages: list[ServerMessage] = []
        while self.checkpoints:
            checkpoint = self.checkpoints[0]
            if position is not None and StreamPosition.parse(checkpoint.last_output) >= position:
                break
            self.checkpoints.popleft()
            self.seq += len(checkpoint.messages)
            if self.seq != checkpoint.seq:
                log.error("resume_misnumbered", seq=self.seq, marked=checkpoint.seq)
                raise ResumeExpired
            machine.restore(checkpoint.snapshot, self._held)
            messages += [
                StoredMessage(body=body) for body in checkpoint.messages if body["seq"] > self.last
            ]
        return messages

    def _deliver(
        self, machine: SessionMachine[Any], position: StreamPosition, entry: OutEntry
    ) -> list[ServerMessage]:
        self.delivered = position
        messages: list[ServerMessage] = []
        for action in machine.deliver(entry, self._broker.clock.now_ms()):
            if isinstance(action, Finish):
                self.finish = action
            elif isinstance(action, Send):
                self.seq += 1
                if self.seq > self.last:
                    messages.append(replace(action.message, seq=self.seq))
        return messages

    async def _unconfirmed_inputs(self) -> list[InEntry]:
        """Inputs in the stream that no checkpoint includes; their effects were not sent yet."""
        key = self._broker.keys.inbound(self._sid)
        after = StreamPosition.parse(self.checkpoints[-1].last_input)
        return [
            entry
            async for _, entry in self._broker.streams.history(key, after.ticket, after)
            if isinstance(entry, InEntry) and not isinstance(entry, ChunkIn | DiagnosticIn)
        ]

    def _apply_inputs(self, machine: SessionMachine[Any], inputs: list[InEntry]) -> bool:
        """They came after everything that the client has. False if none was applied."""
        if machine.waiting or not inputs:
            return False
        for entry in inputs:
            machine.apply_input(entry)
        inputs.clear()
        return True

    async def _write_checkpoint(self, machine: SessionMachine[Any]) -> None:
        """Later messages depend on it, so every future resume must apply it at the same point."""
        checkpoint = Checkpoint(
            seq=self.seq,
            last_output=self.delivered.id(),
            last_input=self.inputs.last.id(),
            snapshot=machine.snapshot(),
            messages=[],
        )
        await self.writer.append(checkpoint)
