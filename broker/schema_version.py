"""The version of the keys in a Redis: two versions never share one."""

from __future__ import annotations

from antiphon.broker.connections.client import RedisClient
from antiphon.broker.errors import IncompatibleRedis
from antiphon.broker.keys import Keys

SCHEMA_VERSION = 1
"""Incremented when a key or a field is removed or changes its meaning; see docs/redis-keys.md."""

_FIELD = "contract"


async def check_schema_version(redis: RedisClient, keys: Keys) -> None:
    """Store our version if there is none. Raises IncompatibleRedis if there is another one."""
    _, found = await redis.call_all(
        ("HSETNX", keys.config, _FIELD, SCHEMA_VERSION), ("HGET", keys.config, _FIELD)
    )
    if found != b"%d" % SCHEMA_VERSION:
        raise IncompatibleRedis(
            f"this Redis holds version {found.decode()} of the keys under {keys.prefix!r}, this "
            f"program uses version {SCHEMA_VERSION}: run one version only, or set another key prefix for "
            "this one (ANTIPHON_KEY_PREFIX)"
        )


async def read_schema_version(redis: RedisClient, keys: Keys) -> str | None:
    """The stored version; None on a Redis that no service has used."""
    found = await redis.call("HGET", keys.config, _FIELD)
    return found.decode() if found else None
