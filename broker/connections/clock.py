"""The clock that all processes share: Redis time without a round trip."""

from __future__ import annotations

import time

from antiphon.broker.connections.client import RedisClient


class RedisClock:
    """This process's monotonic clock plus a measured offset."""

    def __init__(self, redis: RedisClient) -> None:
        self._redis = redis
        self.offset_ms = 0.0

    async def sync(self, tries: int = 3) -> None:
        """Measure the offset by the fastest of a few round trips."""
        best = float("inf")
        for _ in range(tries):
            before = time.monotonic()
            seconds, micros = await self._redis.call("TIME")
            after = time.monotonic()
            if after - before < best:
                best = after - before
                middle_ms = (before + after) * 500.0
                self.offset_ms = int(seconds) * 1000.0 + int(micros) / 1000.0 - middle_ms

    def now_ms(self) -> float:
        """Redis-clock milliseconds; the error is about half a round trip."""
        return time.monotonic() * 1000.0 + self.offset_ms
