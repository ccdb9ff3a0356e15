"""What the edge of a resuming client reads from Redis: the state of the session, and the missed messages."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from msgspec import structs

from antiphon.broker.client import Broker
from antiphon.broker.streams import StreamWriter
from antiphon.edge.errors import ResumeExpired
from antiphon.edge.protocols.machine import Action, Send, SessionMachine
from antiphon.shared_schemas.entries import (
    EPOCHS_PER_TICKET,
    ChatIn,
    ChunkIn,
    DiagnosticIn,
    HalfDuplexPrepareIn,
    InEntry,
    OutEntry,
    PastSteps,
    PauseIn,
    PlaybackIn,
    PrepareIn,
    ResumeIn,
    StreamPosition,
)

GRANT_SEQ = 1
"""The message that a worker holds the session precedes all output."""

_MESSAGES_PER_ENTRY = 16
"""With room: the most is six, of the last unit of a session in version 2 of `/v1/realtime`."""

_ENTRIES_PER_EPOCH = 2**28

_RESTORED_WITHIN_S = 1.0
"""After a failover, a worker writes the entries that the new master lacks again."""

_SAY_NO_PHASE = (DiagnosticIn, PlaybackIn)
_SAY_ALL = (PrepareIn, HalfDuplexPrepareIn, ChatIn, ChunkIn, PauseIn, ResumeIn)
"""No input before one of these changes the phase of its session."""


def first_seq(position: StreamPosition) -> int:
    """The `seq` of the first message of an output entry.

    It grows with the position, also after the worker was replaced, and stays below 2⁵³.
    """
    entry = (position.epoch - 1) * _ENTRIES_PER_EPOCH + position.n
    return entry * _MESSAGES_PER_ENTRY


def number_messages(position: StreamPosition, actions: Iterable[Action]) -> Iterator[Action]:
    """Give the messages of an output entry their `seq`: that of the entry, and their index."""
    seq = first_seq(position)
    end = seq + _MESSAGES_PER_ENTRY
    for action in actions:
        if isinstance(action, Send):
            assert seq < end, f"more than {_MESSAGES_PER_ENTRY} messages of one entry"
            yield Send(structs.replace(action.message, seq=seq))
            seq += 1
        else:
            yield action


def number_grant(actions: Iterable[Action]) -> Iterator[Action]:
    """Give the report that a worker holds the session its `seq`."""
    for action in actions:
        if isinstance(action, Send):
            yield Send(structs.replace(action.message, seq=GRANT_SEQ))
        else:
            yield action


def _entry_of(ticket: int, seq: int) -> StreamPosition:
    """The output entry that message `seq` was made of. Raises ResumeExpired if there can be none."""
    epoch, n = divmod(seq // _MESSAGES_PER_ENTRY, _ENTRIES_PER_EPOCH)
    if epoch + 1 >= EPOCHS_PER_TICKET or (n == 0 and seq > GRANT_SEQ):
        raise ResumeExpired
    return StreamPosition(ticket, epoch + 1, n)


@dataclass(frozen=True, slots=True)
class LastInputs:
    """What the client asked for. `prepared`: the `prepare` that a worker accepted, if it is older.

    `recent`: the newest inputs, oldest first, up to one that determines the phase.
    """

    recent: Sequence[InEntry] = ()
    prepared: InEntry | None = None

    @property
    def preparing(self) -> bool:
        """The newest inputs begin with a `prepare`: only the output says whether it was accepted."""
        return bool(self.recent) and isinstance(self.recent[0], PrepareIn | HalfDuplexPrepareIn)


async def load_missed_messages(
    broker: Broker, sid: str, ticket: int, connection: int, last: int
) -> "MissedMessages":
    """Shut out the previous connection and read the last inputs of the client.

    Raises ResumeExpired if no message can have the number `last`.
    """
    known = _entry_of(ticket, last)
    inputs = await broker.streams.input_writer(sid, ticket, connection)
    return MissedMessages(broker, sid, last, known, inputs, await _last_inputs(broker, sid, ticket))


async def _last_inputs(broker: Broker, sid: str, ticket: int) -> LastInputs:
    recent: list[InEntry] = []
    async with aclosing(broker.streams.newest(broker.keys.inbound(sid), ticket)) as newest:
        async for _, entry in newest:
            if not isinstance(entry, _SAY_NO_PHASE):
                recent.insert(0, entry)
            if isinstance(entry, _SAY_ALL):
                break
    found = LastInputs(recent)
    if found.preparing:
        return found
    accepted = await broker.streams.first(broker.keys.past(sid), ticket)
    return replace(found, prepared=None if isinstance(accepted, PastSteps) else accepted)


class MissedMessages:
    """What came after message `last`, which was made of the output entry at `known`.

    `delivered` is the last entry that `actions` has delivered.
    """

    def __init__(
        self,
        broker: Broker,
        sid: str,
        last: int,
        known: StreamPosition,
        inputs: StreamWriter,
        last_inputs: LastInputs,
    ) -> None:
        self.last = last
        self.inputs = inputs
        self.last_inputs = last_inputs
        self._broker = broker
        self._sid = sid
        self._known = known
        # The entry itself is delivered again: it may have more messages, or end the session.
        from_start = last_inputs.preparing or known.n == 0
        ticket = known.ticket
        self.delivered = (
            StreamPosition.before(ticket) if from_start else known._replace(n=known.n - 1)
        )

    async def actions(
        self, machine: SessionMachine[Any], *, granted: bool = True
    ) -> AsyncIterator[Action]:
        """What the machine does after message `last`: nothing while the session waits for a worker.

        Raises ResumeExpired, before the first action, when message `last` was never sent, or when the
        output stream no longer holds what comes after it.
        """
        gives_up_at = time.monotonic() + _RESTORED_WITHIN_S
        while granted:
            async for position, entry in self._entries():
                now_ms = self._broker.clock.now_ms()
                found = number_messages(position, machine.deliver(entry, now_ms))
                for action in self._after_last(position, list(found)):
                    yield action
            if self.delivered.n >= self._known.n:
                return
            if time.monotonic() > gives_up_at:
                raise ResumeExpired
            await asyncio.sleep(0.1)

    async def _entries(self) -> AsyncIterator[tuple[StreamPosition, OutEntry]]:
        outputs = self._broker.keys.outbound(self._sid)
        history = self._broker.streams.history(outputs, self.delivered.ticket, self.delivered)
        async with aclosing(history) as entries:
            async for position, entry in entries:
                if position.n > self.delivered.n + 1:
                    raise ResumeExpired  # trimmed, or lost in a failover
                if position.follows(self.delivered):
                    self.delivered = position
                    yield position, entry

    def _after_last(self, position: StreamPosition, actions: list[Action]) -> list[Action]:
        """Without the messages that the client has.

        A failover may have lost its last entries. Those that have their places now are not sent.
        """
        if position.n > self._known.n:
            return actions
        sent = [action.message.seq for action in actions if isinstance(action, Send)]
        if position == self._known and self.last not in sent:
            raise ResumeExpired
        is_new = position == self._known
        return [
            action
            for action in actions
            if not isinstance(action, Send)
            or (is_new and action.message.seq is not None and action.message.seq > self.last)
        ]
