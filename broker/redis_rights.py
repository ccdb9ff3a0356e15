"""The commands that the services send, and whether the user of a connection may send them."""

from __future__ import annotations

from collections.abc import Sequence

from redis.exceptions import NoPermissionError, RedisError

from antiphon.broker.connections.client import RedisNode
from antiphon.broker.errors import IncompatibleRedis
from antiphon.broker.keys import Keys

ON_A_ROW = (
    "del K",
    "exists K",
    "expire K 1",
    "persist K",
    "pexpireat K 1",
    "renamenx K K",
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


async def check_rights(node: RedisNode, keys: Keys, *, in_cluster: bool) -> None:
    """Raises IncompatibleRedis if the user lacks a right without which no session works.

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
    answers = await node.refusals(filled)
    forbidden: dict[str, None] = {}
    for (words, _), answer in zip(commands, answers, strict=True):
        if isinstance(answer, NoPermissionError):
            forbidden[_missing(words, keys, answer)] = None
    if forbidden:
        shown, hidden = list(forbidden)[:_SHOWN], len(forbidden) - _SHOWN
        lacking = ", ".join(shown) + (f" and {hidden} more" if hidden > 0 else "")
        raise IncompatibleRedis(f"the user of {node.name} has no permissions for {lacking}")


def _missing(words: Sequence[str], keys: Keys, refused: RedisError) -> str:
    if "access" in str(refused):
        return f"the keys {keys.control}* and {keys.prefix}:*"
    return right_for(words)


def right_for(words: Sequence[str]) -> str:
    """The rule of an ACL for a command, without its sign."""
    has_subcommand = words[0] in ("client", "cluster", "memory", "xgroup", "xinfo")
    return "|".join(words[: 2 if has_subcommand else 1])
