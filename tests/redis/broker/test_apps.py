"""Pages that are disabled for every edge."""

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.settings import BrokerSettings


async def test_a_switch_applies_to_all_edges_at_once(
    broker: Broker, settings: BrokerSettings
) -> None:
    async with open_broker(settings) as other:
        assert await broker.apps.disabled() == frozenset()
        assert not await broker.apps.is_disabled("omni")
        await broker.apps.switch("omni", enabled=False)
        await broker.apps.switch("turnbased", enabled=False)
        assert await other.apps.is_disabled("omni")
        assert await other.apps.disabled() == {"omni", "turnbased"}
        await other.apps.switch("omni", enabled=True)
        await other.apps.switch("omni", enabled=True)
        assert not await broker.apps.is_disabled("omni")
        assert await broker.apps.disabled() == {"turnbased"}
