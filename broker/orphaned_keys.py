"""Keys that sessions leave in Redis when their processes die: found and removed by the cleanup job."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from antiphon.broker.connections.client import RedisClient
from antiphon.broker.keys import Keys
from antiphon.broker.rows import call_on_row, read_row, whole_number
from antiphon.broker.scripts import Scripts, control_script
from antiphon.broker.settings import BrokerSettings
from antiphon.broker.streams import expire_stream
from antiphon.shared_schemas.entries import EPOCHS_PER_TICKET
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


@dataclass(frozen=True, slots=True, eq=False)
class OrphanedKeys:
    """Removes what would stay for weeks or forever; everything else expires soon."""

    _redis: RedisClient
    _keys: Keys
    _scripts: Scripts
    _settings: BrokerSettings

    async def sweep(self, *, dry_run: bool = False) -> RemovedKeys:
        """Remove orphans, or with `dry_run` count them. Several hosts may run it at the same time.

        Streams expire `stream_ttl_s` later. Those of a session that is queued during the sweep do not:
        its ticket is higher than any that was given before.
        """
        run, keys, row_ttl_s = self._scripts.run, self._keys, self._settings.session_row_ttl_s
        rows = streams = 0
        async for key in scan_keys(self._redis, keys.session("*")):
            rows += await run(_repair_row, keys.sid_of(key), row_ttl_s, dry_run)
        newer = await self._next_stream_id()
        for pattern in keys.stream_patterns():
            async for key in scan_keys(self._redis, pattern):
                if await self._is_dead(keys.sid_of(key)):
                    ttl_s = self._settings.stream_ttl_s
                    streams += await run(expire_stream, key, newer, ttl_s, dry_run)
        consumers = await run(_drop_consumers, _SILENT_MS, dry_run)
        return RemovedKeys(streams, rows, consumers)

    async def _next_stream_id(self) -> int:
        """Major part of the lowest id that a stream of a session after the newest one can have."""
        newest = await call_on_row(self._redis, "GET", self._keys.tickets)
        ticket = read_row("tickets", lambda: whole_number(newest or b"0")) or 0
        return (ticket + 1) * EPOCHS_PER_TICKET

    async def _is_dead(self, sid: str) -> bool:
        """True when the session has no row, or has ended."""
        row = await call_on_row(self._redis, "HMGET", self._keys.session(sid), "state")
        return row is not None and row[0] in (None, SessionState.ENDED.encode())


async def scan_keys(redis: RedisClient, pattern: str) -> AsyncIterator[str]:
    """Matching keys; SCAN may return a key twice, and may miss one that is created during the scan."""
    for node in await redis.masters():
        cursor: int | bytes = b""
        while cursor != 0:
            head = ("SCAN", cursor or 0, "MATCH", pattern, "COUNT", _SCAN_COUNT)
            cursor, keys = await node.call(*head)
            for key in keys:
                yield key.decode()
