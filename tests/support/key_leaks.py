"""Finds the keys in Redis that nothing would ever remove."""

import re
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlsplit

from redis.exceptions import ConnectionError as RedisConnectionError

from redis import Redis, RedisCluster

PERMANENT = {
    "config": "one hash of fixed size",
    "queue": "sorted set of the waiting sessions",
    "leases": "sorted set of the held sessions",
    "trials": "sorted set of the sessions on trial",
    "workers": "sorted set from which the reaper removes silent workers",
    "edges": "sorted set from which the reaper removes silent edges",
    "events": "stream that is trimmed to about 100,000 entries",
    "eta": "one hash with a few fields per kind of session",
    "tickets": "one number",
    "reaper": "one hash of fixed size",
    "apps": "one hash with a field per page",
    "ref_audio": "one hash with a field per uploaded voice, of a limited number",
}
"""Control keys that live as long as the deployment: name → what limits their size."""

_CONTROL = re.compile(r"\{([^}]+)\}:([a-z_]+)(?::(.+))?")
_VOICE = re.compile(r"([^:]+):voice:\{(.+)\}")


def clear(url: str, *, checked: bool) -> list[str]:
    """Delete all keys of a Redis or a cluster that may be down; with `checked` returns its leaks."""
    with suppress(RedisConnectionError), _client(url) as redis:
        found = leaks(redis) if checked else []
        redis.flushall()
        return found
    return []


def _client(url: str) -> Redis | RedisCluster:
    if not url.startswith("redis+cluster:"):
        return Redis.from_url(url, protocol=2)
    node = urlsplit(url.partition(",")[0])
    return RedisCluster(host=str(node.hostname), port=int(node.port or 0), protocol=2)


def leaks(redis: Redis | RedisCluster) -> list[str]:
    """Keys without an expiry that are neither permanent nor found by what removes them."""
    kept = [_text(key) for key in redis.scan_iter(count=1000) if redis.ttl(key) == -1]
    return sorted(key for key in kept if not any(_is_referenced(redis, key)))


def _is_referenced(redis: Redis | RedisCluster, key: str) -> Iterator[object]:
    """A true value if some process will find the key and remove it, or its size is limited."""
    if voice := _VOICE.fullmatch(key):
        yield redis.hexists(f"{{{voice[1]}}}:ref_audio", voice[2])
    if not (match := _CONTROL.fullmatch(key)):
        return
    control, (family, name) = f"{{{match[1]}}}:", match.group(2, 3)
    if name is None:
        yield family in PERMANENT
    elif family == "session":  # its end gives it an expiry
        yield redis.zscore(control + "queue", name) is not None
        yield redis.zscore(control + "leases", name) is not None
    elif family == "worker":
        yield redis.zscore(control + "workers", name) is not None
    elif family == "share":  # a link that does not expire
        yield redis.zscore(f"{control}shares:{_text(redis.get(key))}", name) is not None
    elif family == "shares":
        yield redis.zcount(key, "+inf", "+inf")


def _text(raw: object) -> str:
    assert isinstance(raw, bytes)
    return raw.decode(errors="backslashreplace")
