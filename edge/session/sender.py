"""Sends messages to a client. They wait in a bounded queue, and the connection closes if it is full."""

import asyncio
import time
from collections import deque
from typing import Any

from msgspec.structs import replace

from antiphon.broker.service.metrics import HopSeconds
from antiphon.edge.errors import Close, SlowConsumer
from antiphon.edge.settings import Unsent
from antiphon.edge.transport.connection import ClientConnection, ServerFrame
from antiphon.shared_schemas.ids import ResumeToken
from antiphon.shared_schemas.wire import ServerMessage


class SendQueue:
    """`send` never waits. It sends at once, or one task sends the encoded messages in order.

    The first message includes the server's `capabilities` if the client asked. `token`: for a client that may
    resume. `token_sent`: it can.
    """

    def __init__(
        self,
        connection: ClientConnection,
        unsent: Unsent,
        stall_s: float,
        seconds: HopSeconds,
        capabilities: dict[str, Any] | None = None,
        token: ResumeToken | None = None,
    ) -> None:
        self.token_sent = False
        self._token = token
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

    async def wait_for_space(self) -> None:
        """Return once the queue is at most half full."""
        await self._space.wait()

    def send(self, message: ServerMessage) -> None:
        """Queue a message; ignored after `close_after_sent`. Raises SlowConsumer.

        One frame may exceed the byte limit if the client has read everything before it.
        """
        if self._close is not None:
            return
        if self._capabilities is not None:
            message = replace(message, capabilities=self._capabilities)
            self._capabilities = None
        if self._token is not None and message.bears_token:
            message = replace(message, resume_token=self._token.text)
            self.token_sent = True
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

    def close_after_sent(self, close: Close) -> None:
        """Close the connection after the queued frames. Only the first call has an effect."""
        if self._close is None:
            self._close = close
            self._wake.set()

    async def run(self) -> None:
        """Return once everything was sent and the connection is closed. Raises SlowConsumer or ClientGone."""
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
                return
