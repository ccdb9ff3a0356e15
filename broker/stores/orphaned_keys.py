"""What sessions leave in Redis when they end in no order: found and removed by the cleanup job."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from redis.asyncio import Redis

from antiphon.broker.connection import RedisClock, call
from antiphon.broker.keys import Keys
from antiphon.broker.scripts import Scripts
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.states import SessionState

_SCAN_COUNT = 500
_SILENT_MS = 86_400_000
"""A member of a consumer group that asked for nothing all day is no more: each start is a new one."""


@dataclass(frozen=True, slots=True)
class RemovedKeys:
    """Streams of dead sessions, rows nobody looks after, members of the events' groups that are gone."""

    streams: int
    rows: int
    consumers: int


class OrphanedKeys:
    """Removes only what would stay for ever; all else expires by itself."""

    def __init__(
        self,
        redis: Redis,
        keys: Keys,
        scripts: Scripts,
        clock: RedisClock,
        settings: BrokerSettings,
    ) -> None:
        self._redis = redis
        self._keys = keys
        self._scripts = scripts
        self._clock = clock
        self._settings = settings

    async def sweep(self, *, dry_run: bool = False) -> RemovedKeys:
        """Remove what is left over; with `dry_run` just count it. May run on several hosts at once."""
        look = int(dry_run)
        rows = [await self._mend(sid, look) async for sid in self._rows()]
        streams = [await self._drop(key, look) async for key in self._streams()]
        consumers = await self._scripts.run("drop_consumers", _SILENT_MS, look)
        return RemovedKeys(sum(streams), sum(rows), int(consumers))

    async def _mend(self, sid: str, look: int) -> int:
        return int(
            await self._scripts.run("repair_row", sid, self._settings.session_row_ttl_s, look)
        )

    async def _drop(self, key: str, look: int) -> int:
        if not await self._is_dead(self._keys.sid_of(key)):
            return 0
        return int(await self._scripts.run_on_stream("drop_stream", key, look))

    async def _is_dead(self, sid: str) -> bool:
        """True when nobody knows the session any more, or it ended a stream's life time ago.

        A session that takes the id meanwhile gives its streams a life time with its first entry.
        """
        row = await call(self._redis, "HMGET", self._keys.session(sid), "state", "ended_at")
        state, ended_at = (value.decode() if value else None for value in row)
        if state is None:
            return True
        silent_ms = self._clock.now_ms() - float(ended_at or "inf")
        return state == SessionState.ENDED and silent_ms > self._settings.stream_ttl_s * 1000

    async def _rows(self) -> AsyncIterator[str]:
        async for key in self._scan(self._keys.session("*")):
            yield self._keys.sid_of(key)

    async def _streams(self) -> AsyncIterator[str]:
        for pattern in self._keys.every_stream:
            async for key in self._scan(pattern):
                yield key

    async def _scan(self, pattern: str) -> AsyncIterator[str]:
        """Keys that match; one may come twice, and what is made meanwhile may be missed."""
        cursor: int | bytes = 0
        while True:
            head = ("SCAN", cursor, "MATCH", pattern, "COUNT", _SCAN_COUNT)
            cursor, keys = await call(self._redis, *head)
            for key in keys:
                yield key.decode()
            if int(cursor) == 0:
                return
