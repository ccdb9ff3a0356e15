"""Sends messages to a client: directly, or numbered and checkpointed so that it can resume.

Frames wait in a bounded queue. The connection closes if the client does not keep up.

Messages that the machine makes of an output entry can be made again, from the entry and a snapshot of
the machine. Every other message, and every other change of the snapshot, needs a checkpoint in Redis
before it, or anything after it, is sent.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, NoReturn

from antiphon.broker.service.metrics import HopSeconds
from antiphon.edge.errors import Close, SlowConsumer
from antiphon.edge.protocols.machine import Finish, SessionMachine
from antiphon.edge.session.input_writer import InputWriter
from antiphon.edge.session.resume import MissedMessages
from antiphon.edge.settings import Unsent
from antiphon.edge.transport.connection import ClientConnection, ServerFrame
from antiphon.shared_schemas.entries import Checkpoint, StreamPosition
from antiphon.shared_schemas.ids import ResumeToken
from antiphon.shared_schemas.wire import Resumed, ServerMessage

CHECKPOINT_EVERY = 50
"""At most this many events between checkpoints; bounds how far a resuming edge reads back."""


class AllSent(Exception):
    """Every frame was sent and the connection is closed."""


class SendQueue:
    """`send` never waits. It sends at once, or one task sends the encoded messages in order.

    The first message includes the server's `capabilities` if the client asked.
    """

    def __init__(
        self,
        connection: ClientConnection,
        unsent: Unsent,
        stall_s: float,
        seconds: HopSeconds,
        capabilities: dict[str, Any] | None = None,
    ) -> None:
        self._capabilities = capabilities
        self._connection = connection
        self._unsent = unsent
        self._stall_s = stall_s
        self._seconds = seconds
        self._frames: deque[tuple[ServerFrame, float]] = deque()
        self._bytes = 0
        self._sending = False
        self._close: Close | None = None
        self._wake = asyncio.Event()
        self._space = asyncio.Event()
        self._space.set()
        self.wait_for_space = self._space.wait
        """Returns once the queue is at most half full."""

    def send(self, message: ServerMessage) -> None:
        """Queue a message; ignored after `close_after_sent`. Raises SlowConsumer.

        One frame may exceed the byte limit if the client has read everything before it.
        """
        if self._close is not None:
            return
        if self._capabilities is not None:
            message = replace(message, capabilities=self._capabilities)
            self._capabilities = None
        frame = self._connection.encoding.encode(message)
        put_at = time.perf_counter()
        if not (self._frames or self._sending) and self._connection.send_now(frame):
            self._seconds.observe(time.perf_counter() - put_at)
            return
        full = len(self._frames) >= self._unsent.messages
        if self._frames and (full or self._bytes + len(frame) > self._unsent.bytes):
            raise SlowConsumer
        self._frames.append((frame, put_at))
        self._bytes += len(frame)
        self._wake.set()
        if len(self._frames) * 2 > self._unsent.messages:
            self._space.clear()

    send_unnumbered = send

    def close_after_sent(self, close: Close) -> None:
        """Close the connection after the queued frames. Only the first call has an effect."""
        if self._close is None:
            self._close = close
            self._wake.set()

    async def run(self) -> NoReturn:
        """Raises AllSent, SlowConsumer or ClientGone."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                while self._frames:
                    self._sending = True
                    frame, put_at = self._frames.popleft()
                    self._bytes -= len(frame)
                    if len(self._frames) * 2 <= self._unsent.messages:
                        self._space.set()
                    async with asyncio.timeout(self._stall_s):
                        await self._connection.send(frame)
                    self._sending = False
                    del frame  # the next wait would keep about 100 kB of each session in memory
                    self._seconds.observe(time.perf_counter() - put_at)
                if self._close is not None:
                    async with asyncio.timeout(self._stall_s):
                        await self._connection.close(self._close)
            except TimeoutError:
                raise SlowConsumer from None
            if self._close is not None:
                raise AllSent


class ResumableSender:
    """Numbers messages, writes checkpoints, and holds back the messages that need one.

    `delivered`: the last output entry that was delivered. `token_sent`: the client can resume.
    """

    def __init__(
        self,
        machine: SessionMachine[Any],
        writer: InputWriter,
        queue: SendQueue,
        token: ResumeToken,
        ticket: int,
        capabilities: dict[str, Any] | None,
    ) -> None:
        self.token_sent = False
        self.seq = 0
        self.delivered = StreamPosition.before(ticket)
        self._machine = machine
        self._writer = writer
        self._queue = queue
        self._token = token.text
        self._capabilities = capabilities
        self._snapshot: dict[str, Any] = {}
        self._held = 0
        self._event: list[ServerMessage] = []
        self._blocked: deque[ServerMessage | asyncio.Event] = deque()
        """Messages behind an event wait for it: their checkpoint is in Redis."""
        self._clear = asyncio.Event()
        self._clear.set()
        self._events = 0

    def begin(self) -> None:
        """Write the first checkpoint of a new session."""
        self._store_held()
        self._checkpoint([], None)

    def greeting(self, missed: MissedMessages) -> ServerMessage:
        """The first message to a client that resumed: the last number it has, and its next token."""
        capabilities, self._capabilities = self._capabilities, None
        self.token_sent = True
        return Resumed(seq=missed.last, resume_token=self._token, capabilities=capabilities)

    async def send_missed(
        self,
        missed: MissedMessages,
        first: ServerMessage | None,
        others: AsyncIterator[ServerMessage],
    ) -> Finish | None:
        """Send everything that the client has missed. Returns how the session ended, if it did."""
        if first is not None:
            self._put(first)
        async for message in others:
            await self._queue.wait_for_space()
            self._put(message)
        await self._queue.wait_for_space()
        self.seq, self.delivered = missed.seq, missed.delivered
        self._held = len(self._machine.held)
        self._checkpoint([], None)
        return missed.finish

    def send(self, message: ServerMessage) -> None:
        """Number a message of the current event; `commit` sends it."""
        self.seq += 1
        capabilities, self._capabilities = self._capabilities, None
        self._event.append(replace(message, seq=self.seq, capabilities=capabilities))

    def send_unnumbered(self, message: ServerMessage) -> None:
        """Send at once a message that a resume does not repeat: it needs no checkpoint in Redis."""
        if self.token_sent:  # the first message has a token
            self._queue.send(message)

    def commit(self, delivered: StreamPosition | None) -> None:
        """End the current event: the output entry at `delivered`, or another event.

        Its messages are sent at once, or once their checkpoint is written.
        """
        messages, self._event = self._event, []
        self._events += 1
        if delivered is not None:
            self.delivered = delivered
            self._snapshot = self._machine.snapshot()
            self._blocked.extend(messages)
            self._release()
        else:
            self._store_held()
            if messages or self._machine.snapshot() != self._snapshot:
                barrier = asyncio.Event()
                self._clear.clear()
                self._blocked.append(barrier)
                self._blocked.extend(messages)
                self._checkpoint(messages, barrier)
        if self._events >= CHECKPOINT_EVERY:
            self._checkpoint([], None)

    def flush(self) -> None:
        """Send everything without checkpoints: the session is over and cannot be resumed."""
        messages, self._event = [*self._blocked, *self._event], []
        self._blocked.clear()
        for message in messages:
            if not isinstance(message, asyncio.Event):
                self._put(message)

    async def wait_for_space(self) -> None:
        """Return once no message is held back and the queue is at most half full."""
        await self._clear.wait()
        await self._queue.wait_for_space()

    def _release(self) -> None:
        while self._blocked:
            first = self._blocked[0]
            if isinstance(first, ServerMessage):
                self._put(first)
            elif not first.is_set():
                return
            self._blocked.popleft()
        self._clear.set()

    def _put(self, message: ServerMessage) -> None:
        if message.bears_token:
            message = replace(message, resume_token=self._token)
            self.token_sent = True
        self._queue.send(message)

    def _store_held(self) -> None:
        """Held inputs must survive this edge, too. They are forwarded with the grant."""
        held = self._machine.held
        for entry in held[self._held :]:
            self._writer.hold(entry)
        if self._held and not held:
            self._writer.delete_held()
        self._held = len(held)

    def _checkpoint(self, messages: list[ServerMessage], barrier: asyncio.Event | None) -> None:
        self._snapshot = self._machine.snapshot()
        self._events = 0
        checkpoint = Checkpoint(
            seq=self.seq,
            last_output=self.delivered.id(),
            last_input="",
            snapshot=self._snapshot,
            messages=[_storable(message) for message in messages],
        )
        self._writer.checkpoint(checkpoint, lambda: self._open(barrier))

    def _open(self, barrier: asyncio.Event | None) -> None:
        if barrier is not None:
            barrier.set()
            self._release()


def _storable(message: ServerMessage) -> dict[str, Any]:
    """A checkpoint stores that a message has a token, but not the token."""
    return message.wire() | ({"resume_token": ""} if message.bears_token else {})
