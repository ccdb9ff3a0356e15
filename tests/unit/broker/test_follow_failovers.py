"""The upkeep against failovers continues after an error."""

import asyncio
from unittest.mock import create_autospec

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from antiphon.broker import client
from antiphon.broker.client import Broker
from antiphon.broker.connections.client import RedisClient
from antiphon.broker.errors import BrokerUnavailable, IncompatibleRedis
from antiphon.broker.service.metrics import BrokerMetrics
from antiphon.broker.settings import BrokerSettings


async def test_an_unexpected_error_is_logged_and_the_upkeep_continues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    errors = [BrokerUnavailable("away"), IncompatibleRedis("this server is not a Sentinel")]
    answered = asyncio.Event()

    async def ask_for_the_master() -> None:
        if errors:
            raise errors.pop(0)
        answered.set()

    redis = create_autospec(RedisClient, instance=True)
    redis.disconnect_former_masters.side_effect = ask_for_the_master
    broker = Broker(redis, BrokerSettings(), BrokerMetrics(CollectorRegistry()), 0.0)
    monkeypatch.setattr(client, "_FOLLOW_EVERY_S", 0.0)
    with capture_logs() as logs:
        following = asyncio.create_task(broker.follow_failovers())
        async with asyncio.timeout(90):
            await answered.wait()
        following.cancel()
        await asyncio.wait((following,))
    assert [line["event"] for line in logs] == ["failover_upkeep_failed"]
