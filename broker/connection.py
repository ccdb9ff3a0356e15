"""Connections to Redis and the one clock that all processes share."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from antiphon.broker.errors import BadPasswordFile, BrokerUnavailable, IncompatibleRedis
from antiphon.broker.settings import BrokerSettings

POOL_SIZE = 64
"""Connections per process. Few shared ones serialise round trips behind a lock (p50 in seconds)."""

_READ_SIZE = 256 * 1024
"""Bytes per socket read: results of about 100 kB arrive in one piece."""

_LONGEST_BLOCK_S = 30.0
"""A blocking read unanswered this long means that the network has gone, not that nothing happened."""

OLDEST_REDIS = (6, 2)

_UNAVAILABLE = (
    RedisConnectionError,
    RedisTimeoutError,
    BusyLoadingError,
    OSError,
)

_REFUSALS = (
    OutOfMemoryError,
    ReadOnlyError,
    MasterDownError,
    ClusterDownError,
    TryAgainError,
)

_REFUSED = re.compile(
    r"\b(BUSY|CLUSTERDOWN|LOADING|MASTERDOWN|MISCONF|NOREPLICAS|OOM|READONLY|TRYAGAIN|UNKILLABLE)\b"
)
"""What a server says that is there but cannot serve for now; redis-py has classes for some of it,
and scripts pass it on in words of their own."""

_NO_RETRY = Retry(NoBackoff(), 0)
"""Whether a call may be repeated is known to its caller only: a second claim is another session."""


def connect(settings: BrokerSettings, *, size: int = POOL_SIZE) -> Redis:
    """A client whose calls give up after `redis_timeout_s`."""
    pool = BlockingConnectionPool.from_url(
        settings.redis_url,
        password=_password(settings),
        max_connections=size,
        timeout=settings.redis_timeout_s,
        socket_timeout=None,
        socket_connect_timeout=settings.redis_timeout_s,
        socket_read_size=_READ_SIZE,
        retry=_NO_RETRY,
        protocol=2,
    )
    return Redis.from_pool(pool)


def connect_blocking(settings: BrokerSettings) -> Redis:
    """A client for one task, whose reads may block for as long as the server lets them.

    It keeps one connection until a call fails, so that CLIENT ID names it until then.
    """
    pool = BlockingConnectionPool.from_url(
        settings.redis_url,
        password=_password(settings),
        max_connections=1,
        timeout=_LONGEST_BLOCK_S,
        socket_timeout=None,
        socket_connect_timeout=settings.redis_timeout_s,
        socket_keepalive=True,
        socket_read_size=_READ_SIZE,
        retry=_NO_RETRY,
        protocol=2,
    )
    client = Redis(connection_pool=pool, single_connection_client=True)
    client.auto_close_connection_pool = True
    return client


def _password(settings: BrokerSettings) -> str | None:
    """Read anew for each client; a password in the URL wins. Raises BadPasswordFile."""
    path = settings.redis_password_file
    if path is None:
        return None
    try:
        password = path.read_text().strip()
    except OSError as error:
        reason = f"cannot be read ({error.strerror})"
        raise BadPasswordFile(f"redis_password_file {path} {reason}") from error
    if not password:
        raise BadPasswordFile(f"redis_password_file {path} is empty")
    return password


@contextmanager
def translate_outages() -> Iterator[None]:
    """Raise BrokerUnavailable for whatever way Redis has of not answering."""
    try:
        yield
    except TimeoutError as error:
        raise BrokerUnavailable("Redis does not answer in time") from error
    except _UNAVAILABLE as error:
        raise BrokerUnavailable(f"Redis does not answer: {error}") from error
    except ResponseError as error:
        if isinstance(error, _REFUSALS) or _REFUSED.search(str(error)):
            raise BrokerUnavailable(f"Redis refuses for now: {error}") from error
        raise


async def call(redis: Redis, *command: Any, **options: Any) -> Any:
    """One command; `options` tell redis-py how to parse the reply.

    Raises BrokerUnavailable when Redis does not answer within the pool's `timeout`.
    """
    with translate_outages():
        async with asyncio.timeout(_patience_s(redis)):
            return await redis.execute_command(*command, **options)


async def call_all(redis: Redis, *commands: tuple[Any, ...]) -> list[Any]:
    """Several commands on one key in one transaction; raises the first error as `call` would."""
    with translate_outages():
        async with asyncio.timeout(_patience_s(redis)), redis.pipeline(transaction=True) as batch:
            for command in commands:
                batch.execute_command(*command)
            answers: list[Any] = await batch.execute(raise_on_error=False)
            for answer in answers:
                if isinstance(answer, Exception):
                    raise answer
            return answers


def _patience_s(redis: Redis) -> float | None:
    """One deadline for the whole call: connection, sending and answer.

    redis-py's own `socket_timeout` would apply to each step anew, cost a task per command, and on
    Python 3.11 lose a cancellation now and then (`asyncio.wait_for`).
    """
    pool = redis.connection_pool
    return pool.timeout if isinstance(pool, BlockingConnectionPool) else None


async def check_server(redis: Redis) -> str:
    """The server's version. Raises IncompatibleRedis when it is too old."""
    info = await call(redis, "INFO", "server")
    version = str(info["redis_version"])
    major, minor = (int(part) for part in version.split(".")[:2])
    if (major, minor) < OLDEST_REDIS:
        raise IncompatibleRedis(f"Redis {version} is too old; 6.2 or newer is needed")
    return version


class RedisClock:
    """Redis time without asking each time: this process's monotonic clock plus a measured offset."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._offset_ms = 0.0

    async def sync(self, tries: int = 3) -> None:
        """Measure the offset, from the fastest of a few round trips."""
        best = float("inf")
        for _ in range(tries):
            before = time.monotonic()
            seconds, micros = await call(self._redis, "TIME")
            after = time.monotonic()
            if after - before < best:
                best = after - before
                middle_ms = (before + after) * 500.0
                self._offset_ms = int(seconds) * 1000.0 + int(micros) / 1000.0 - middle_ms

    def now_ms(self) -> float:
        """Redis-clock milliseconds now; error about half a round trip."""
        return time.monotonic() * 1000.0 + self._offset_ms
