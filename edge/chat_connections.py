"""The connections with `mode=chat` of one edge. They have no session between two requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from antiphon.edge.errors import Draining


class ChatConnections:
    """Counts them, so that a shutdown waits for them, and ends their waits for a message."""

    def __init__(self) -> None:
        self._open = 0
        self._waits: set[asyncio.Timeout] = set()
        self._closing = False
        self._empty = asyncio.Event()
        self._empty.set()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Count one connection."""
        self._open += 1
        self._empty.clear()
        try:
            yield
        finally:
            self._open -= 1
            if not self._open:
                self._empty.set()

    @asynccontextmanager
    async def wait(self, limit_s: float) -> AsyncIterator[None]:
        """A wait between two requests. Raises TimeoutError, and Draining once the edge shuts down."""
        if self._closing:
            raise Draining
        try:
            async with asyncio.timeout(limit_s) as limit:
                self._waits.add(limit)
                try:
                    yield
                finally:
                    self._waits.discard(limit)
        except TimeoutError:
            if self._closing:
                raise Draining from None
            raise

    def close(self) -> None:
        """End the waits of all connections, now and from now on."""
        self._closing = True
        now = asyncio.get_running_loop().time()
        for limit in self._waits:
            if not limit.expired():
                limit.reschedule(now)

    async def wait_until_empty(self) -> None:
        """Return once no connection is left."""
        await self._empty.wait()
