"""Two schema versions never share a key prefix."""

import pytest
from redis.asyncio import Redis

from antiphon.broker.client import open_broker
from antiphon.broker.errors import IncompatibleRedis
from antiphon.broker.keys import Keys
from antiphon.broker.requirements import SCHEMA_VERSION
from antiphon.broker.settings import BrokerSettings


async def test_the_first_service_stores_its_version(settings: BrokerSettings, raw: Redis) -> None:
    keys = Keys(settings.key_prefix)
    async with open_broker(settings), open_broker(settings):
        assert await raw.hget(keys.config, "contract") == str(SCHEMA_VERSION).encode()


async def test_another_version_is_rejected_and_nothing_is_changed(
    settings: BrokerSettings, raw: Redis
) -> None:
    keys = Keys(settings.key_prefix)
    await raw.hset(keys.config, "contract", "999")
    with pytest.raises(IncompatibleRedis, match=r"holds version 999 .*ANTIPHON_KEY_PREFIX"):
        async with open_broker(settings):
            pass
    assert await raw.keys(f"*{settings.key_prefix}*") == [keys.config.encode()]


async def test_another_number_of_shards_is_rejected(settings: BrokerSettings, raw: Redis) -> None:
    keys = Keys(settings.key_prefix)
    async with open_broker(settings):
        assert await raw.hget(keys.config, "shards") == b"128"
    await raw.hset(keys.config, "shards", "256")
    with pytest.raises(IncompatibleRedis, match=r"have 256 shards, .* uses 128: .*KEY_PREFIX"):
        async with open_broker(settings):
            pass
