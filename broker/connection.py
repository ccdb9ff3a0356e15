"""Connections to Redis, calls and their retries, and the clock that all processes share."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import structlog
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.connection import (
    AbstractConnection,
    Connection,
    SSLConnection,
    UnixDomainSocketConnection,
    parse_url,
)
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from antiphon.broker.errors import BadPasswordFile, BrokerUnavailable, IncompatibleRedis
from antiphon.broker.settings import BrokerSettings

log = structlog.get_logger()

T = TypeVar("T")

POOL_SIZE = 64
"""Connections per process. With few of them, calls wait for a connection (p50 in seconds)."""

_KEPT_IDLE = 4
"""Idle connections that stay open."""

_READ_SIZE = 256 * 1024
"""Bytes per socket read: results of about 100 kB arrive in one piece."""

LONGEST_BLOCK_MS = 2_000
"""How long a blocking read may ask Redis to wait."""

_BLOCKING_TIMEOUT_S = LONGEST_BLOCK_MS / 1000 + 2.5
"""A blocking read without a reply for this long means that the network failed. Clients notice a
half-open connection within five seconds."""

_RETRY_DELAY_S = (0.05, 1.0)
"""The first and the longest pause between two attempts of a call that is retried."""

_OLDEST_REDIS = (6, 2)

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
    r"\b(BUSY|CLUSTERDOWN|LOADING|MASTERDOWN|MISCONF|NOREPLICAS|OOM|READONLY|TRYAGAIN|UNBLOCKED"
    r"|UNKILLABLE)\b"
)
"""Replies of a server that runs but cannot serve now. redis-py has classes for some of them, and
errors raised inside a script only contain the code in their text."""

_DEMOTED = re.compile(r"\b(MASTERDOWN|READONLY|UNBLOCKED)\b")
"""Replies of a server that is no longer the master. Its address may lead to the new master: every
open connection is closed, so that the next call connects again."""

_NO_RETRY = Retry(NoBackoff(), 0)
"""Only the caller knows whether a call may be repeated: a second claim takes another session."""


def connect(settings: BrokerSettings, *, size: int = POOL_SIZE, only_master: bool = True) -> Redis:
    """A client whose calls give up after `redis_timeout_s`. By default it refuses a replica."""
    options = {} if only_master else {"redis_connect_func": None}
    pool = _pool(settings, _POOLED, size, settings.redis_timeout_s, **options)
    pool.idle_s = settings.redis_idle_s
    return Redis.from_pool(pool)


def connect_blocking(settings: BrokerSettings) -> Redis:
    """A client for one task, whose reads may block for up to LONGEST_BLOCK_MS.

    It keeps one connection until a call fails, so CLIENT ID stays valid until then.
    """
    pool = _pool(settings, _SINGLE, 1, _BLOCKING_TIMEOUT_S, socket_keepalive=True)
    client = Redis(connection_pool=pool, single_connection_client=True)
    client.auto_close_connection_pool = True
    return client


def _pool(
    settings: BrokerSettings,
    classes: Mapping[type[AbstractConnection], type[AbstractConnection]],
    size: int,
    timeout_s: float,
    **options: Any,
) -> _ShrinkingPool:
    address: dict[str, Any] = dict(parse_url(settings.redis_url))
    kind = address.pop("connection_class", Connection)
    if kind is UnixDomainSocketConnection:
        options.pop("socket_keepalive", None)
    elif "host" not in address:
        address["host"] = "localhost"
    return _ShrinkingPool(
        **{
            "password": _password(settings),
            "redis_connect_func": _refuse_replica,
            **address,
            **options,
        },
        connection_class=classes[kind],
        max_connections=size,
        timeout=timeout_s,
        socket_timeout=None,
        socket_connect_timeout=settings.redis_timeout_s,
        socket_read_size=_READ_SIZE,
        retry=_NO_RETRY,
        protocol=2,
    )


class _ShrinkingPool(BlockingConnectionPool):
    """Closes the connections beyond _KEPT_IDLE that were not used for `idle_s`.

    The pool hands out the connection that was released last. Hence the connections that a period
    did not need are the first ones of the list.
    """

    idle_s = 30.0
    _timer: asyncio.TimerHandle | None = None
    _closing: asyncio.Future[list[BaseException | None]] | None = None
    _unneeded = 0
    """The smallest number of idle connections in this period."""

    def get_available_connection(self) -> AbstractConnection:
        connection: AbstractConnection = super().get_available_connection()  # type: ignore[no-untyped-call]
        self._unneeded = min(self._unneeded, len(self._available_connections))
        return connection

    def make_connection(self) -> AbstractConnection:
        if self._timer is None and len(self._in_use_connections) >= _KEPT_IDLE:
            self._wait()
        connection: AbstractConnection = super().make_connection()  # type: ignore[no-untyped-call]
        return connection

    async def aclose(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await super().aclose()

    def _wait(self) -> None:
        self._unneeded = len(self._available_connections)
        self._timer = asyncio.get_running_loop().call_later(self.idle_s, self._shrink)

    def _shrink(self) -> None:
        closing = self._available_connections[: max(0, self._unneeded - _KEPT_IDLE)]
        del self._available_connections[: len(closing)]
        each = (connection.disconnect(nowait=True) for connection in closing)
        self._closing = asyncio.gather(*each, return_exceptions=True)
        self._timer = None
        if len(self._available_connections) + len(self._in_use_connections) > _KEPT_IDLE:
            self._wait()


class _ReportsLoss(AbstractConnection):
    """Reports a lost connection as ConnectionError on every event loop.

    uvloop raises RuntimeError when a command is written to a connection that a reset has closed.
    """

    async def send_packed_command(self, *args: Any, **options: Any) -> None:
        try:
            await super().send_packed_command(*args, **options)
        except RuntimeError as error:
            raise RedisConnectionError(f"the connection is lost: {error}") from error


class _NoticesReset(_ReportsLoss):
    """Connects again before a command when the connection was reset while it was idle.

    redis-py looks for the end of the stream only, and a reset has none.
    """

    @property
    def is_connected(self) -> bool:
        reader, writer = self._reader, self._writer
        if reader is None or writer is None:
            return False
        return reader.exception() is None and not writer.transport.is_closing()

    async def disconnect(self, *args: Any, **options: Any) -> None:
        await super().disconnect(*args, **options)
        # redis-py keeps the streams of a connection that is not connected.
        self._reader = self._writer = None


class _SingleTcp(_ReportsLoss, Connection): ...


class _SingleTls(_ReportsLoss, SSLConnection): ...


class _SingleUnix(_ReportsLoss, UnixDomainSocketConnection): ...


class _PooledTcp(_NoticesReset, Connection): ...


class _PooledTls(_NoticesReset, SSLConnection): ...


class _PooledUnix(_NoticesReset, UnixDomainSocketConnection): ...


_SINGLE = {
    Connection: _SingleTcp,
    SSLConnection: _SingleTls,
    UnixDomainSocketConnection: _SingleUnix,
}
_POOLED = {
    Connection: _PooledTcp,
    SSLConnection: _PooledTls,
    UnixDomainSocketConnection: _PooledUnix,
}


async def _refuse_replica(connection: AbstractConnection) -> None:
    """Set a new connection up. Raises ReadOnlyError when the server is not a master."""
    await connection.on_connect()
    await connection.send_command("ROLE")
    await _require_master(connection.read_response())


async def _require_master(asked: Awaitable[Any]) -> None:
    """Raises ReadOnlyError unless the reply to ROLE is a master's.

    A user that may not ask counts as connected to a master: a replica refuses its writes.
    """
    try:
        role = await asked
    except NoPermissionError:
        return
    if role[0] != b"master":
        raise ReadOnlyError("this server is a read only replica")


def _password(settings: BrokerSettings) -> str | None:
    """Read the file for each client; a password in the URL wins. Raises BadPasswordFile."""
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


@asynccontextmanager
async def _translate_outages(redis: Redis) -> AsyncIterator[None]:
    """Raise BrokerUnavailable for every way in which Redis can fail to answer.

    The pool's timeout is one deadline for the whole call: connection, request and reply. redis-py's
    `socket_timeout` applies to each step separately, costs a task per command, and on Python 3.11
    can lose a cancellation (`asyncio.wait_for`).
    """
    pool = redis.connection_pool
    timeout_s = pool.timeout if isinstance(pool, BlockingConnectionPool) else None
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except TimeoutError as error:
        raise BrokerUnavailable("Redis does not answer in time") from error
    except _UNAVAILABLE as error:
        raise BrokerUnavailable(f"Redis does not answer: {error}") from error
    except ResponseError as error:
        if not isinstance(error, _REFUSALS) and not _REFUSED.search(str(error)):
            raise
        if isinstance(error, ReadOnlyError | MasterDownError) or _DEMOTED.search(str(error)):
            await pool.disconnect(inuse_connections=redis.single_connection_client)
        raise BrokerUnavailable(f"Redis refuses for now: {error}") from error


async def check_master(redis: Redis) -> None:
    """Raises BrokerUnavailable when the server is a replica now, and closes the connections to it.

    A replica answers reads, so a reader that stays connected would miss what the master receives.
    """
    async with _translate_outages(redis):
        await _require_master(redis.execute_command("ROLE"))


async def call(redis: Redis, *command: Any, **options: Any) -> Any:
    """Run one command; redis-py uses `options` to parse the reply.

    Raises BrokerUnavailable when Redis does not answer within the pool's `timeout`.
    """
    async with _translate_outages(redis):
        return await redis.execute_command(*command, **options)


async def call_all(redis: Redis, *commands: tuple[Any, ...]) -> list[Any]:
    """Run several commands on one key in one transaction; raises the first error like `call`."""
    async with _translate_outages(redis), redis.pipeline(transaction=True) as batch:
        for command in commands:
            batch.execute_command(*command)
        answers: list[Any] = await batch.execute(raise_on_error=False)
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers


def is_supported(version: str) -> bool:
    """True for a version of Redis, such as `7.2.4`, with every command that is used."""
    return tuple(int(part) for part in version.split(".")[:2]) >= _OLDEST_REDIS


async def check_server(redis: Redis) -> None:
    """Raises IncompatibleRedis when the server is too old."""
    version = str((await call(redis, "INFO", "server"))["redis_version"])
    if not is_supported(version):
        raise IncompatibleRedis(f"Redis {version} is too old; 6.2 or newer is needed")


def hash_fields(reply: Mapping[bytes, bytes] | Sequence[bytes]) -> dict[str, str]:
    """A hash as text, from the reply of HGETALL, or from its flat form in the reply of a script."""
    if isinstance(reply, Mapping):
        return {name.decode(): value.decode() for name, value in reply.items()}
    text = [part.decode() for part in reply]
    return dict(zip(text[::2], text[1::2], strict=True))


async def retry_until_available(
    attempt: Callable[[], Awaitable[T]], what: str, *, patience_s: float = float("inf")
) -> T:
    """Retry a call until Redis answers, with exponential backoff and jitter.

    Raises BrokerUnavailable after `patience_s`. The call must be safe to repeat.
    """
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + patience_s
    delay = _RETRY_DELAY_S[0]
    while True:
        try:
            return await attempt()
        except BrokerUnavailable as error:
            left = give_up_at - loop.time()
            if left <= 0:
                raise
            log.warning("redis_away", waiting_to=what, error=str(error), retry_s=round(delay, 2))
        await asyncio.sleep(min(left, delay * random.uniform(0.5, 1.0)))  # noqa: S311 - jitter
        delay = min(delay * 2, _RETRY_DELAY_S[1])


class RedisClock:
    """Redis time without a round trip: this process's monotonic clock plus a measured offset."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._offset_ms = 0.0

    async def sync(self, tries: int = 3) -> None:
        """Measure the offset by the fastest of a few round trips."""
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
        """Redis-clock milliseconds; the error is about half a round trip."""
        return time.monotonic() * 1000.0 + self._offset_ms
