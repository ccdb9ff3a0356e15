"""Telling a client that asked for it how far a long prefill has come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from antiphon.inference_worker.held_session import HeldSession
from antiphon.shared_schemas.entries import ProgressOut

INTERVAL_S = 1.0
"""What takes no longer than this is not worth a word."""


class Progress:
    """The engine's thread says how far it is; the session hears of it now and then, never backwards."""

    def __init__(self, interval_s: float = INTERVAL_S) -> None:
        self._interval_s = interval_s
        self._done = 0.0

    def __call__(self, done: float) -> None:
        """So much, between 0 and 1, is done; safe from any thread."""
        self._done = max(self._done, min(done, 1.0))

    @asynccontextmanager
    async def told(self, session: HeldSession) -> AsyncIterator[None]:
        """Publish for as long as the context lasts. Raises what `HeldSession.publish` raises."""
        over = asyncio.Event()
        telling = asyncio.create_task(self._tell(session, over), name="progress")
        try:
            yield
        except asyncio.CancelledError:
            telling.cancel()  # it may be sitting out an outage of Redis
            raise
        finally:
            over.set()
            await asyncio.gather(telling, return_exceptions=True)
        telling.result()

    async def _tell(self, session: HeldSession, over: asyncio.Event) -> None:
        told = 0.0
        while not await _within(over, self._interval_s):
            if self._done > told:
                told = self._done
                await session.publish(ProgressOut(done=round(told, 3)))


async def _within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
