"""Outages of Redis: which errors are outages, and calls that are repeated until Redis answers."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog
from redis.exceptions import (
    AskError,
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

from antiphon.broker.errors import BrokerUnavailable

log = structlog.get_logger()

T = TypeVar("T")

FAILURES = (
    RedisConnectionError,
    RedisTimeoutError,
    OSError,  # also TimeoutError
    ResponseError,
)
"""The errors of a call that `outage` understands."""

_REFUSALS = (
    AskError,  # MovedError as well
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

_REFUSED_AT = re.compile(
    r"Error 111 connecting to (\S+)\. (?:Connect call failed|Connection refused)"
)
"""Where nothing listens; the rest of the text repeats the address."""

_DEMOTED = re.compile(r"\b(MASTERDOWN|NOREPLICAS|READONLY|UNBLOCKED)\b")
"""Replies of a server that is no longer the master, or whose replicas have left it. Its address may
lead to the new master: every open connection is closed, so that the next call connects again."""

_RETRY_DELAY_S = (0.05, 1.0)
"""The first and the longest pause between two attempts of a call that is retried."""


def outage(error: Exception) -> BrokerUnavailable:
    """The outage that the error of a call means. Raises any other error as it is."""
    if isinstance(error, ResponseError) and not isinstance(error, BusyLoadingError):
        if not isinstance(error, _REFUSALS) and not _REFUSED.search(str(error)):
            raise error
        return BrokerUnavailable(f"Redis refuses for now: {error}")
    if isinstance(error, TimeoutError | RedisTimeoutError):
        return BrokerUnavailable("Redis does not answer in time")
    if refused := _REFUSED_AT.search(str(error)):
        return BrokerUnavailable(f"Redis does not answer: nothing listens at {refused[1]}")
    return BrokerUnavailable(f"Redis does not answer: {error}")


def is_demotion(error: Exception) -> bool:
    """True when the server is no longer the master."""
    return isinstance(error, ResponseError) and (
        isinstance(error, ReadOnlyError | MasterDownError) or bool(_DEMOTED.search(str(error)))
    )


def is_redirection(error: BaseException | None) -> bool:
    """True when another server of the cluster has the key."""
    return isinstance(error, AskError)


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
