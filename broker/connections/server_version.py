"""The versions of Redis that have every command that is used."""

from __future__ import annotations

from antiphon.broker.connections.client import RedisClient
from antiphon.broker.errors import IncompatibleRedis

_OLDEST_REDIS = (6, 2)


def is_supported(version: str) -> bool:
    """True for a version of Redis, such as `7.2.4`, with every command that is used."""
    return tuple(int(part) for part in version.split(".")[:2]) >= _OLDEST_REDIS


async def check_server(redis: RedisClient) -> None:
    """Raises IncompatibleRedis when a server is too old."""
    for node in redis.masters():
        version = str((await node.call("INFO", "server"))["redis_version"])
        if not is_supported(version):
            raise IncompatibleRedis(f"Redis {version} is too old; 6.2 or newer is needed")
