import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.keys import OPEN_SESSION_TTL_S
from antiphon.broker.settings import BrokerSettings
from support.control_plane import claim, join, serve, waiting


async def test_scripts_are_loaded_again_after_a_script_flush(broker: Broker, raw: Redis) -> None:
    await serve(broker)
    await join(broker, "a")
    await raw.script_flush()
    await join(broker, "b")
    await raw.script_flush()
    assert (await claim(broker)).sid == "a"
    assert await waiting(broker) == ["b"]


async def test_prefixes_share_no_keys(broker: Broker, settings: BrokerSettings) -> None:
    other_settings = settings.model_copy(update={"key_prefix": f"{settings.key_prefix}x"})
    async with open_broker(other_settings) as other:
        await join(broker, "a")
        await serve(other)
        assert await other.leases.claim("w1") is None
        assert await other.sessions.get("a") is None
        assert (await other.queue.snapshot()).waiting == ()


async def test_progress_expires_and_can_be_cleared(broker: Broker, raw: Redis) -> None:
    assert await broker.recorder_progress.load(7) is None
    await broker.recorder_progress.save({7: {"in": "5-1", "at": 3}})
    assert await broker.recorder_progress.load(7) == {"in": "5-1", "at": 3}
    assert 86_400 < await raw.ttl(broker.keys.recorded(7)) <= OPEN_SESSION_TTL_S
    await broker.recorder_progress.clear(7)
    assert await broker.recorder_progress.load(7) is None


async def test_a_key_of_the_wrong_type_is_an_error_but_not_an_outage(
    broker: Broker, raw: Redis
) -> None:
    await raw.set(broker.keys.queue, "text")
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        await join(broker, "a")
