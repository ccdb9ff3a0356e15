import pytest
from redis.asyncio import Redis
from redis.crc import key_slot
from redis.exceptions import ResponseError

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.keys import OPEN_SESSION_TTL_S
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.states import EndReason, SessionState
from support.control_plane import claim, join, serve, waiting


async def test_scripts_are_loaded_again_after_a_script_flush(broker: Broker, raw: Redis) -> None:
    await serve(broker)
    await join(broker, "a")
    await raw.script_flush()
    await join(broker, "b")
    await raw.script_flush()
    assert (await claim(broker)).sid == "a"
    assert await waiting(broker) == ["b"]


async def test_all_keys_that_scripts_write_are_in_the_control_slot(
    broker: Broker, raw: Redis, settings: BrokerSettings
) -> None:
    await serve(broker)
    await broker.registry.edge_beat("e1", [])
    await broker.registry.reap()
    await join(broker, "a")
    await join(broker, "b")
    held = await claim(broker)
    await broker.leases.move("a", "w1", held.epoch, SessionState.PREPARING)
    await broker.leases.move("a", "w1", held.epoch, SessionState.ACTIVE)
    await broker.sessions.end("a", EndReason.STOPPED)
    await broker.recorder_progress.save({held.ticket: {"n": 1}})
    written = [key async for key in raw.scan_iter(f"*{settings.key_prefix}*")]
    assert {key.decode() for key in written} >= {
        broker.keys.session("a"),
        broker.keys.worker("w1"),
        broker.keys.events,
        broker.keys.eta,
        broker.keys.reaper,
        broker.keys.recorded(held.ticket),
    }
    assert {key_slot(key) for key in written} == {key_slot(broker.keys.queue.encode())}


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


@pytest.mark.parametrize("field", ["queue", "events"])
async def test_a_key_of_the_wrong_type_is_an_error_but_not_an_outage(
    broker: Broker, raw: Redis, field: str
) -> None:
    await raw.set(getattr(broker.keys, field), "text")
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        await join(broker, "a")
