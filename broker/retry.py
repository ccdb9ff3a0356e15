"""Repeats a call while Redis does not answer, or each second."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import NoReturn, TypeVar

import structlog

from antiphon.broker.errors import BrokerUnavailable

log = structlog.get_logger()

T = TypeVar("T")

_INTERVAL_S = 1.0
_RETRY_DELAY_S = (0.05, 1.0)
"""The first and the longest pause between two attempts of a call that is retried."""


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


async def each_second(step: Callable[[], Awaitable[None]], what: str) -> NoReturn:
    """Run a step of up to a second at an even pace, forever. It is retried while Redis does not answer."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    while True:
        await retry_until_available(step, what)
        due = max(due + _INTERVAL_S, loop.time())
        await asyncio.sleep(due - loop.time())
