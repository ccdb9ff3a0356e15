"""The version of the keys in a Redis: two versions never share one."""

from __future__ import annotations

from antiphon.broker.connections.client import RedisClient
from antiphon.broker.errors import IncompatibleRedis
from antiphon.broker.keys import STREAM_SHARDS, Keys

SCHEMA_VERSION = 2
"""Incremented when a key or a field is removed or changes its meaning; see docs/redis-keys.md."""

MIGRATING = "1 to 2"
"""The stored version while `antiphon migrate-keys` runs, and after it was interrupted."""

_VERSION, _SHARDS = "contract", "shards"


async def check_schema_version(redis: RedisClient, keys: Keys) -> None:
    """Store our version if there is none. Raises IncompatibleRedis if there is another one."""
    _, version = await redis.call_all(
        ("HSETNX", keys.config, _VERSION, SCHEMA_VERSION), ("HGET", keys.config, _VERSION)
    )
    found = version.decode()
    if found != str(SCHEMA_VERSION):
        raise IncompatibleRedis(
            f"this Redis holds version {found} of the keys under {keys.prefix!r}, this program "
            f"uses version {SCHEMA_VERSION}: {remedy_for(found)}"
        )
    _, shards = await redis.call_all(
        ("HSETNX", keys.config, _SHARDS, STREAM_SHARDS), ("HGET", keys.config, _SHARDS)
    )
    if shards != b"%d" % STREAM_SHARDS:
        raise IncompatibleRedis(
            f"the streams under {keys.prefix!r} have {shards.decode()} shards, this program uses "
            f"{STREAM_SHARDS}: set another key prefix for this one (ANTIPHON_KEY_PREFIX)"
        )


def remedy_for(version: str) -> str:
    """What to do about keys of another version."""
    if version in ("1", MIGRATING):
        return (
            "stop all services and run `antiphon migrate-keys`, or set another key prefix "
            "(ANTIPHON_KEY_PREFIX)"
        )
    return "run one version only, or set another key prefix for this one (ANTIPHON_KEY_PREFIX)"


async def read_schema_version(redis: RedisClient, keys: Keys) -> str | None:
    """The stored version; None on a Redis that no service has used."""
    found = await redis.call("HGET", keys.config, _VERSION)
    return found.decode() if found else None


async def store_schema_version(redis: RedisClient, keys: Keys, version: str) -> None:
    await redis.call("HSET", keys.config, _VERSION, version)
