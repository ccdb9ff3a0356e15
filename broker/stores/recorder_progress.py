"""The progress of a recorder in each session, from which another recorder can continue."""

from __future__ import annotations

from typing import Any

import orjson

from antiphon.broker.connections.client import RedisClient
from antiphon.broker.keys import Keys
from antiphon.broker.malformed_rows import call_on_row, read_row, whole_number


class RecorderProgress:
    """The `recorded:<ticket>` hash: one JSON value per session."""

    def __init__(self, redis: RedisClient, keys: Keys, ttl_s: int) -> None:
        self._redis = redis
        self._keys = keys
        self._ttl_s = ttl_s

    async def load(self, ticket: int) -> dict[str, Any] | None:
        """The last saved progress; None without one, or if it is malformed."""
        raw = await call_on_row(self._redis, "HGET", self._keys.recorded(ticket), "progress")
        return read_row(f"recorded:{ticket}", lambda: _read(raw)) if raw else None

    async def save(self, ticket: int, progress: dict[str, Any]) -> None:
        """Save progress. Everything that it covers must be on disk."""
        key = self._keys.recorded(ticket)
        value = orjson.dumps(progress)
        await self._redis.call_all(("HSET", key, "progress", value), ("EXPIRE", key, self._ttl_s))

    async def clear(self, ticket: int) -> None:
        await self._redis.call("DEL", self._keys.recorded(ticket))


def _read(raw: bytes) -> dict[str, Any]:
    progress: dict[str, Any] = orjson.loads(raw)
    whole_number(progress["at"])
    return progress
