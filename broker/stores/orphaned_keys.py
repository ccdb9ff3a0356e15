"""Keys that sessions leave in Redis when their processes die: found and removed by the cleanup job."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from antiphon.broker.connections.client import RedisClient, RedisClock
from antiphon.broker.keys import Keys
from antiphon.broker.malformed_rows import call_on_row, read_row, whole_number
from antiphon.broker.scripts import Scripts, control_script, stream_script
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.states import SessionState

_SCAN_COUNT = 500
_SILENT_MS = 86_400_000
"""A consumer idle for a day is dead: every process start registers a new name."""


@dataclass(frozen=True, slots=True)
class RemovedKeys:
    """Streams of dead sessions, rows without an owner, and dead consumers of the events' groups."""

    streams: int
    rows: int
    consumers: int


@control_script
def _repair_row(reply: int, sid: str, row_ttl_s: int, dry_run: bool) -> int:
    return reply


@control_script
def _drop_consumers(reply: int, silent_ms: int, dry_run: bool) -> int:
    return reply


@stream_script
def _drop_stream(reply: int, stream: str, dry_run: bool) -> int:
    return reply


@dataclass(frozen=True, slots=True, eq=False)
class OrphanedKeys:
    """Removes only what would stay forever; everything else expires."""

    _redis: RedisClient
    _keys: Keys
    _scripts: Scripts
    _clock: RedisClock
    _settings: BrokerSettings

    async def sweep(self, *, dry_run: bool = False) -> RemovedKeys:
        """Remove orphans, or with `dry_run` count them. Several hosts may run it at the same time."""
        run, keys, row_ttl_s = self._scripts.run, self._keys, self._settings.session_row_ttl_s
        rows = streams = 0
        async for key in scan_keys(self._redis, keys.session("*")):
            rows += await run(_repair_row, keys.sid_of(key), row_ttl_s, dry_run)
        for pattern in keys.stream_patterns():
            async for key in scan_keys(self._redis, pattern):
                if await self._is_dead(keys.sid_of(key)):
                    streams += await run(_drop_stream, key, dry_run)
        consumers = await run(_drop_consumers, _SILENT_MS, dry_run)
        return RemovedKeys(streams, rows, consumers)

    async def _is_dead(self, sid: str) -> bool:
        """True when the session has no row, or ended longer ago than a stream lives.

        A new session with the same id gives its streams a new expiry with its first entry.
        """
        head = ("HMGET", self._keys.session(sid), "state", "ended_at")
        row = await call_on_row(self._redis, *head)
        if row is None:
            return False
        state, ended_at = row
        if state is None:
            return True
        if state != SessionState.ENDED.encode():
            return False
        ended_ms = read_row(f"session:{sid}", lambda: whole_number(ended_at))
        now_ms = self._clock.now_ms()
        return ended_ms is not None and now_ms - ended_ms > self._settings.stream_ttl_s * 1000


async def scan_keys(redis: RedisClient, pattern: str) -> AsyncIterator[str]:
    """Matching keys; SCAN may return a key twice, and may miss one that is created during the scan."""
    for node in await redis.masters():
        cursor: int | bytes = b""
        while cursor != 0:
            head = ("SCAN", cursor or 0, "MATCH", pattern, "COUNT", _SCAN_COUNT)
            cursor, keys = await node.call(*head)
            for key in keys:
                yield key.decode()
