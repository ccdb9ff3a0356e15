"""The servers that can be used: versions that have every command, and the right kind."""

from __future__ import annotations

from antiphon.broker.connections.client import RedisClient, RedisNode
from antiphon.broker.errors import IncompatibleRedis

_OLDEST_REDIS = (6, 2)


def is_supported(version: str) -> bool:
    """True for a version of Redis, such as `7.2.4`, with every command that is used."""
    return tuple(int(part) for part in version.split(".")[:2]) >= _OLDEST_REDIS


async def check_server(redis: RedisClient) -> None:
    """Raises IncompatibleRedis for a server that is too old, or one of several of a cluster."""
    masters = await redis.masters()
    for node in masters:
        info = await node.call("INFO", "server")
        version = str(info["redis_version"])
        if not is_supported(version):
            raise IncompatibleRedis(f"Redis {version} is too old; 6.2 or newer is needed")
        mode = info.get("redis_mode") or info.get("server_mode")  # Valkey
        if mode == "cluster" and await _cluster_size(node) > len(masters):
            raise IncompatibleRedis(
                "this server is one master of a cluster: use redis+cluster:// in ANTIPHON_REDIS_URL"
            )


async def _cluster_size(node: RedisNode) -> int:
    """Masters that have slots."""
    return int(cluster_state(await node.call("CLUSTER", "INFO"))["cluster_size"])


def cluster_state(reply: bytes) -> dict[str, str]:
    """The fields of a reply to CLUSTER INFO."""
    return dict(line.split(":", 1) for line in reply.decode().split())
