"""Pages that are disabled for every edge."""

import pytest

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.settings import BrokerSettings
from support.redis_server import RedisServer


async def test_all_pages_are_enabled_by_default(broker: Broker) -> None:
    assert await broker.apps.disabled() == frozenset()
    assert not await broker.apps.is_disabled("omni")


async def test_a_switch_applies_to_all_edges_at_once(
    broker: Broker, settings: BrokerSettings
) -> None:
    async with open_broker(settings) as other:
        await broker.apps.switch("omni", enabled=False)
        await broker.apps.switch("turnbased", enabled=False)
        assert await other.apps.is_disabled("omni")
        assert await other.apps.disabled() == {"omni", "turnbased"}
        await other.apps.switch("omni", enabled=True)
        await other.apps.switch("omni", enabled=True)
        assert not await broker.apps.is_disabled("omni")
        assert await broker.apps.disabled() == {"turnbased"}


async def test_switches_survive_a_restart_and_an_outage_is_reported(
    redis_server: RedisServer,
) -> None:
    settings = BrokerSettings(redis_url=redis_server.url)
    async with open_broker(settings) as broker:
        await broker.apps.switch("omni", enabled=False)
        redis_server.stop()
        with pytest.raises(BrokerUnavailable):
            await broker.apps.is_disabled("omni")
        redis_server.start()
        assert await broker.apps.is_disabled("omni")
