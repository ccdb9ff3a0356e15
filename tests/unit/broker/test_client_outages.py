"""Retries continue until the time limit."""

import asyncio

import pytest

from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.retry import retry_until_available


async def test_retries_stop_exactly_at_the_time_limit() -> None:
    loop = asyncio.get_running_loop()
    tried: list[float] = []

    async def away() -> None:
        tried.append(loop.time())
        raise BrokerUnavailable("away")

    began = loop.time()
    with pytest.raises(BrokerUnavailable):
        await retry_until_available(away, "test", patience_s=0.5)
    assert tried[-1] - began >= 0.5, "the last attempt is made at the very end"
    assert len(tried) > 3


async def test_without_a_time_limit_there_is_one_attempt() -> None:
    tried = 0

    async def away() -> None:
        nonlocal tried
        tried += 1
        raise BrokerUnavailable("away")

    with pytest.raises(BrokerUnavailable):
        await retry_until_available(away, "test", patience_s=0)
    assert tried == 1
