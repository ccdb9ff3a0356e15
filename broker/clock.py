"""The clock that all processes share: Redis' clock, as each of them last measured it."""

import time

from antiphon.broker.connections.client import RedisClient

_JUMP_MS = 250.0
"""Less than this is an error of one measurement on a busy machine."""

_SYNC_EVERY = 5
"""Calls of `refresh` between two exact measurements."""


_HOST_OFFSET_MS = (time.time() - time.monotonic()) * 1000.0


class RedisClock:
    """The clock that all processes share: the process's monotonic clock plus a measured offset."""

    def __init__(self, redis: RedisClient) -> None:
        self._redis = redis
        self._refreshes = 0
        self.offset_ms = 0.0

    async def sync(self, tries: int = 3) -> None:
        """Measure the offset by the fastest of a few round trips."""
        measured = [await self._measure() for _ in range(tries)]
        _, self.offset_ms = min(measured)

    async def notice_jump(self) -> None:
        """Measure the offset again if Redis' clock has jumped. One round trip otherwise."""
        round_trip_ms, offset_ms = await self._measure()
        if abs(offset_ms - self.offset_ms) > _JUMP_MS + round_trip_ms:
            await self.sync()

    async def refresh(self) -> None:
        """To be called with each heartbeat: an exact measurement now and then, else one round trip."""
        self._refreshes += 1
        if self._refreshes % _SYNC_EVERY == 0:
            await self.sync()
        else:
            await self.notice_jump()

    async def _measure(self) -> tuple[float, float]:
        """The length of a round trip and the offset, in ms."""
        before = time.monotonic()
        seconds, micros = await self._redis.call("TIME")
        after = time.monotonic()
        middle_ms = (before + after) * 500.0
        offset_ms = int(seconds) * 1000.0 + int(micros) / 1000.0 - middle_ms
        return (after - before) * 1000.0, offset_ms

    def now_ms(self) -> float:
        """Redis-clock milliseconds; the error is about half a round trip."""
        return time.monotonic() * 1000.0 + self.offset_ms

    def stamps(self) -> dict[str, float]:
        """One moment, in milliseconds: `at` by Redis' clock, `host_at` by this host's.

        The host's counts since 1970 as it was set when the process began, so that it does not jump.
        """
        # Two readings would differ by the time for which a busy machine stops the process between them.
        steady_ms = time.monotonic() * 1000.0
        at, host_at = steady_ms + self.offset_ms, steady_ms + _HOST_OFFSET_MS
        return {"at": round(at, 3), "host_at": round(host_at, 3)}
