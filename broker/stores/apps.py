"""Pages that an operator has disabled; every edge checks before it accepts a session."""

from __future__ import annotations

from antiphon.broker.connections.client import RedisClient
from antiphon.broker.keys import Keys
from antiphon.broker.malformed_rows import call_on_row


class AppSwitches:
    """The `apps` hash. A page without an entry is enabled."""

    def __init__(self, redis: RedisClient, keys: Keys) -> None:
        self._redis = redis
        self._key = keys.apps

    async def off(self) -> frozenset[str]:
        names = await call_on_row(self._redis, "HKEYS", self._key) or ()
        return frozenset(name.decode(errors="replace") for name in names)

    async def is_off(self, app_id: str) -> bool:
        return bool(await call_on_row(self._redis, "HEXISTS", self._key, app_id))

    async def switch(self, app_id: str, *, enabled: bool) -> None:
        """Takes effect with the next connection to any edge; running sessions continue."""
        if enabled:
            await self._redis.call("HDEL", self._key, app_id)
        else:
            await self._redis.call("HSET", self._key, app_id, "off")
