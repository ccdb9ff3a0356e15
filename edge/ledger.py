"""What a client is told that may come back: numbered, and such that any edge could tell it again.

What the machine makes of an output entry can be made again from the entry and the machine's memory.
Everything else that is told or that changes this memory is an event of its own: it is written
into the session's `told` stream before it, or anything behind it, is sent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, replace
from typing import Any

from antiphon.edge.inbox import Inbox
from antiphon.edge.protocols.contract import Finish, Machine
from antiphon.edge.recall import Recollection
from antiphon.edge.transport.connection import Encoding
from antiphon.edge.transport.send_queue import SendQueue
from antiphon.shared_schemas.entries import Checkpoint
from antiphon.shared_schemas.resume_token import ResumeToken
from antiphon.shared_schemas.stream_position import StreamPosition
from antiphon.shared_schemas.wire import Resumed, ServerMessage

MARK_EVERY = 50
"""Events between two marks at most: as far as an edge that goes on must read back."""


@dataclass(slots=True, eq=False)
class _Gate:
    """What stands behind it waits until its event is written down."""

    open: bool = False


class Ledger:
    """Numbers messages, has events written down, and holds back what must wait for that."""

    def __init__(
        self,
        machine: Machine[Any],
        inbox: Inbox,
        outbox: SendQueue,
        form: Encoding,
        token: ResumeToken,
        ticket: int,
        capabilities: dict[str, Any] | None,
    ) -> None:
        self.token_told = False
        self.seq = 0
        self.heard = StreamPosition.before(ticket)
        self._machine = machine
        self._inbox = inbox
        self._outbox = outbox
        self._form = form
        self._token = token.text
        self._capabilities = capabilities
        self._memory: dict[str, Any] = {}
        self._kept = 0
        self._event: list[ServerMessage] = []
        self._behind: deque[ServerMessage | _Gate] = deque()
        self._clear = asyncio.Event()
        self._clear.set()
        self._unmarked = 0

    def begin(self) -> None:
        """Write down where a new session stands, before anything is told."""
        self._keep_held()
        self._mark([], None)

    def greeting(self, past: Recollection) -> str | bytes:
        """The first word to a client that is back: what it has, and its next token."""
        capabilities, self._capabilities = self._capabilities, None
        self.token_told = True
        return self._form.encode(
            Resumed(seq=past.last, resume_token=self._token, capabilities=capabilities)
        )

    async def tell_again(self, past: Recollection) -> Finish | None:
        """Everything that the client has missed. Returns how the session has ended, if it has."""
        async for message in past.replay(self._machine):
            self._put(message)
            await self._outbox.wait_for_space()
        self.seq, self.heard = past.seq, past.heard
        self._kept = len(self._machine.held)
        self._mark([], None)
        return past.finish

    def tell(self, message: ServerMessage) -> None:
        """Number one message of the event in hand."""
        self.seq += 1
        capabilities, self._capabilities = self._capabilities, None
        self._event.append(replace(message, seq=self.seq, capabilities=capabilities))

    def settle(self, heard: StreamPosition | None = None) -> None:
        """Send the event's messages, or have them written down first."""
        told, self._event = self._event, []
        self._unmarked += 1
        if heard is not None:
            self.heard = heard
            self._memory = self._machine.memory()
            self._send(told)
        else:
            self._keep_held()
            if told or self._machine.memory() != self._memory:
                gate = _Gate()
                self._clear.clear()
                self._behind.append(gate)
                self._send(told)
                self._mark(told, gate)
        if self._unmarked >= MARK_EVERY:
            self._mark([], None)

    def flush(self) -> None:
        """The session is over: nobody goes on with it, so nothing need be written down."""
        told, self._event = [*self._behind, *self._event], []
        self._behind.clear()
        for message in told:
            if not isinstance(message, _Gate):
                self._put(message)

    async def room(self) -> None:
        """Return once everything told is on its way, and no more than half of the outbox is taken."""
        await self._clear.wait()
        await self._outbox.wait_for_space()

    def _send(self, messages: list[ServerMessage]) -> None:
        self._behind.extend(messages)
        self._release()

    def _release(self) -> None:
        while self._behind:
            first = self._behind[0]
            if isinstance(first, _Gate):
                if not first.open:
                    return
            else:
                self._put(first)
            self._behind.popleft()
        self._clear.set()

    def _put(self, message: ServerMessage) -> None:
        if message.bears_token:
            message = replace(message, resume_token=self._token)
            self.token_told = True
        self._outbox.put(self._form.encode(message))

    def _keep_held(self) -> None:
        """Inputs that wait for a worker outlive this edge, too; with the grant they are passed on."""
        held = self._machine.held
        for entry in held[self._kept :]:
            self._inbox.keep(entry)
        if self._kept and not held:
            self._inbox.forget_kept()
        self._kept = len(held)

    def _mark(self, told: list[ServerMessage], gate: _Gate | None) -> None:
        self._memory = self._machine.memory()
        self._unmarked = 0
        mark = Checkpoint(
            seq=self.seq,
            last_output=self.heard.id(),
            last_input="",
            snapshot=self._memory,
            messages=[message.wire() | _token_field(message) for message in told],
        )
        self._inbox.note(mark, lambda: self._open(gate))

    def _open(self, gate: _Gate | None) -> None:
        if gate is not None:
            gate.open = True
            self._release()


def _token_field(message: ServerMessage) -> dict[str, str]:
    """A token is never written down; its place is."""
    return {"resume_token": ""} if message.bears_token else {}
