"""Which version of the keys' contract a Redis holds, so that two versions never mix in it."""

from __future__ import annotations

from redis.asyncio import Redis

from antiphon.broker.connection import call, call_all
from antiphon.broker.errors import IncompatibleRedis
from antiphon.broker.keys import Keys

SCHEMA_VERSION = 1
"""Raised when a key or a field changes its meaning or goes; see docs/REDIS_KEYS.md."""

_FIELD = "contract"


async def check_schema_version(redis: Redis, keys: Keys) -> None:
    """Note our version where none is noted. Raises IncompatibleRedis where another one is."""
    _, found = await call_all(
        redis, ("HSETNX", keys.config, _FIELD, SCHEMA_VERSION), ("HGET", keys.config, _FIELD)
    )
    if found != b"%d" % SCHEMA_VERSION:
        raise IncompatibleRedis(
            f"this Redis holds version {found.decode()} of the keys under {keys.prefix!r}, this "
            f"program speaks version {SCHEMA_VERSION}: run one version only, or give this one a prefix of "
            "its own (ANTIPHON_KEY_PREFIX)"
        )


async def read_schema_version(redis: Redis, keys: Keys) -> str | None:
    """The version that is noted; None on a Redis that no service has used."""
    found = await call(redis, "HGET", keys.config, _FIELD)
    return found.decode() if found else None
