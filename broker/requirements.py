"""What a Redis must have so that this program can use it: its version, that of its keys, and the user's rights.

Two versions of the keys never share a Redis.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import structlog
from redis.exceptions import NoPermissionError, OutOfMemoryError, RedisError

from antiphon.broker.connections.client import RedisClient, RedisNode
from antiphon.broker.connections.outages import is_redirection, reason_of
from antiphon.broker.errors import BrokerUnavailable, IncompatibleRedis
from antiphon.broker.keys import STREAM_SHARDS, Keys, shard_tag

log = structlog.get_logger()

_OLDEST_REDIS = (6, 2)


def is_supported(version: str) -> bool:
    """True for a version of Redis, such as `7.2.4`, with every command that is used."""
    return tuple(int(part) for part in version.split(".")[:2]) >= _OLDEST_REDIS


@contextmanager
def first_calls() -> Iterator[None]:
    """Raises IncompatibleRedis for every refusal that is no outage, such as a missing database."""
    try:
        yield
    except RedisError as error:
        raise IncompatibleRedis(f"Redis refuses: {reason_of(error)}") from error


@contextmanager
def outage_at(node: RedisNode) -> Iterator[None]:
    """Names the server of a BrokerUnavailable."""
    try:
        yield
    except BrokerUnavailable as error:
        if node.name in str(error):
            raise
        raise BrokerUnavailable(f"{node.name}: {error}") from error


async def check_server(redis: RedisClient, keys: Keys) -> None:
    """Raises IncompatibleRedis for a server that is too old, one of several of a cluster, or a user
    without rights. A server that deletes keys under pressure is logged."""
    masters = await redis.masters()
    for node in masters:
        with outage_at(node):
            info = await node.call("INFO", "server")
        version = str(info["redis_version"])
        if not is_supported(version):
            raise IncompatibleRedis(f"Redis {version} is too old; 6.2 or newer is needed")
        mode = info.get("redis_mode") or info.get("server_mode")  # Valkey
        if mode == "cluster" and await _cluster_size(node) > len(masters):
            raise IncompatibleRedis(
                "this server is one master of a cluster: use redis+cluster:// in ANTIPHON_REDIS_URL"
            )
        await check_rights(node, keys, in_cluster=mode == "cluster")
        policy = (await node.call("INFO", "memory"))["maxmemory_policy"]
        if policy != "noeviction":
            log.warning(
                "redis_evicts",
                server=node.name,
                policy=policy,
                remedy="set maxmemory-policy noeviction: a full Redis deletes parts of conversations",
            )


async def _cluster_size(node: RedisNode) -> int:
    """Masters that have slots."""
    return int(cluster_state(await node.call("CLUSTER", "INFO"))["cluster_size"])


def cluster_state(reply: bytes) -> dict[str, str]:
    """The fields of a reply to CLUSTER INFO."""
    return dict(line.split(":", 1) for line in reply.decode().split())


SCHEMA_VERSION = 3
"""Incremented when a key or a field is removed or changes its meaning; see docs/redis-keys.md."""

ANOTHER_VERSION = (
    "run one version only, or set another key prefix for this one (ANTIPHON_KEY_PREFIX)"
)
"""What to do about keys of another version."""

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
            f"uses version {SCHEMA_VERSION}: {ANOTHER_VERSION}"
        )
    _, shards = await redis.call_all(
        ("HSETNX", keys.config, _SHARDS, STREAM_SHARDS), ("HGET", keys.config, _SHARDS)
    )
    if shards != b"%d" % STREAM_SHARDS:
        raise IncompatibleRedis(
            f"the streams under {keys.prefix!r} have {shards.decode()} shards, this program uses "
            f"{STREAM_SHARDS}: set another key prefix for this one (ANTIPHON_KEY_PREFIX)"
        )


async def read_schema_version(redis: RedisClient, keys: Keys) -> str | None:
    """The stored version; None on a Redis that no service has used."""
    found = await redis.call("HGET", keys.config, _VERSION)
    return found.decode() if found else None


ON_A_ROW = (
    "del K",
    "exists K",
    "expire K 1",
    "persist K",
    "pexpireat K 1",
    "ttl K",
    "type K",
    "get K",
    "set K v",
    "hdel K f",
    "hexists K f",
    "hget K f",
    "hgetall K",
    "hincrby K f 1",
    "hkeys K",
    "hlen K",
    "hmget K f",
    "hset K f v",
    "hsetnx K f v",
    "zadd K 1 m",
    "zcard K",
    "zrange K 0 0",
    "zrangebyscore K 0 0",
    "zrank K m",
    "zrem K m",
    "zremrangebyscore K 0 0",
    "zrevrange K 0 0",
    "zscore K m",
)
ON_A_STREAM = (
    "memory usage K",
    "xack K g 1",
    "xadd K * f v",
    "xautoclaim K g c 0 0",
    "xclaim K g c 0 1",
    "xdel K 1",
    "xgroup create K g 0",
    "xgroup delconsumer K g c",
    "xinfo consumers K",
    "xinfo groups K",
    "xinfo stream K",
    "xpending K g",
    "xrange K - +",
    "xread streams K 0",
    "xreadgroup group g c streams K >",
    "xrevrange K + -",
    "xsetid K 1-1",
    "xtrim K maxlen 1",
)
WITHOUT_KEYS = (
    "ping",
    "info",
    "time",
    "scan 0",
    "eval return 0",
    f"evalsha {40 * '0'} 0",
    "client id",
    "client unblock 0",
)
_SHOWN = 6
ON_A_CLUSTER = ("asking", "cluster slots", "cluster info")


_PROBES = 10 * STREAM_SHARDS
"""Session ids whose streams have every shard: the master of each slot that is used is asked."""


async def check_rights(node: RedisNode, keys: Keys, *, in_cluster: bool) -> str | None:
    """Why the master takes no writes now, such as `MISCONF …`; None if it takes them. Writes nothing.

    Raises IncompatibleRedis if the user lacks a right without which no session works.

    The other rights of docs/deployment.md, those to subscribe, only make the end of a worker visible
    earlier.
    """
    stream = str(keys.inbound("rights"))
    commands = [
        *((command.split(), None) for command in WITHOUT_KEYS),
        *((command.split(), None) for command in ON_A_CLUSTER if in_cluster),
        *((command.split(), keys.config) for command in ON_A_ROW),
        *((command.split(), stream) for command in ON_A_STREAM),
    ]
    filled = [[key if key and word == "K" else word for word in words] for words, key in commands]
    ids = {shard_tag(sid): sid for sid in map(str, range(_PROBES))}.values()
    writes = [["xadd", str(keys.inbound(sid)), "*", "f", "v"] for sid in ids]
    answers = await node.refusals([*filled, *writes, ["set", keys.config, "v"]])
    forbidden: dict[str, None] = {}
    for (words, _), answer in zip(commands, answers, strict=False):
        if isinstance(answer, NoPermissionError):
            forbidden[_missing(words, keys, answer)] = None
    if forbidden:
        shown, hidden = list(forbidden)[:_SHOWN], len(forbidden) - _SHOWN
        lacking = ", ".join(shown) + (f" and {hidden} more" if hidden > 0 else "")
        raise IncompatibleRedis(f"the user of {node.name} has no permissions for {lacking}")
    return _refusal_of_writes(answers[len(commands) :])


def _refusal_of_writes(answers: Iterable[RedisError | None]) -> str | None:
    refused = (answer for answer in answers if answer is not None and not is_redirection(answer))
    if (answer := next(refused, None)) is None:
        return None
    code = "OOM " if isinstance(answer, OutOfMemoryError) else ""  # redis-py removes it
    return f"{code}{reason_of(answer)}"


def _missing(words: Sequence[str], keys: Keys, refused: RedisError) -> str:
    if "access" in str(refused):
        return f"the keys {keys.control}* and {keys.prefix}:*"
    return right_for(words)


def right_for(words: Sequence[str]) -> str:
    """The rule of an ACL for a command, without its sign."""
    has_subcommand = words[0] in ("client", "cluster", "memory", "xgroup", "xinfo")
    return "|".join(words[: 2 if has_subcommand else 1])
