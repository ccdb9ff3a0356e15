"""The progress of a recorder in each session, from which another recorder can continue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from antiphon.broker.connections.client import RedisClient
from antiphon.broker.keys import OPEN_SESSION_TTL_S, Keys
from antiphon.broker.malformed_rows import call_on_row, read_row, whole_number
from antiphon.broker.scripts import Scripts, control_script

_AT_ONCE = 200
"""Sessions per script, so that no script holds Redis up."""


@control_script
def _save_progress(reply: None, ttl_s: int, progress: Mapping[str, bytes]) -> None:
    """Nothing to decode."""


class RecorderProgress:
    """The `recorded:<ticket>` hash: one JSON value per session."""

    def __init__(self, redis: RedisClient, keys: Keys, scripts: Scripts) -> None:
        self._redis = redis
        self._keys = keys
        self._scripts = scripts

    async def load(self, ticket: int) -> dict[str, Any] | None:
        """The last saved progress; None without one, or if it is malformed."""
        raw = await call_on_row(self._redis, "HGET", self._keys.recorded(ticket), "progress")
        return read_row(f"recorded:{ticket}", lambda: _read(raw)) if raw else None

    async def save(self, progress: Mapping[int, Mapping[str, Any]]) -> None:
        """Save progress by ticket. Everything that it covers must be on disk."""
        values = [(str(ticket), orjson.dumps(value)) for ticket, value in progress.items()]
        for part in (values[i : i + _AT_ONCE] for i in range(0, len(values), _AT_ONCE)):
            await self._scripts.run(_save_progress, OPEN_SESSION_TTL_S, dict(part))

    async def clear(self, ticket: int) -> None:
        await self._redis.call("DEL", self._keys.recorded(ticket))


def _read(raw: bytes) -> dict[str, Any]:
    progress: dict[str, Any] = orjson.loads(raw)
    whole_number(progress["at"])
    return progress
