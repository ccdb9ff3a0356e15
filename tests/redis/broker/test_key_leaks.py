"""The check that follows every Redis test finds the keys that nothing removes."""

from collections.abc import Iterator

import pytest

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from redis import Redis
from support.key_leaks import leaks

pytestmark = [
    pytest.mark.one_redis,
    pytest.mark.single_server,
    pytest.mark.leaves_keys("the subject of the tests"),
]


@pytest.fixture
def raw(settings: BrokerSettings) -> Iterator[Redis]:
    with Redis.from_url(settings.redis_url, protocol=2) as client:
        yield client


async def test_what_nothing_would_remove_is_found(broker: Broker, raw: Redis) -> None:
    keys = broker.keys
    lost = [
        *(keys.session("adx_1"), keys.worker("w1"), keys.recorded(1), keys.share("token")),
        *(keys.voice("v1"), keys.inbound("adx_1"), f"{keys.control}new"),
    ]
    for key in lost:
        raw.set(key, "")
    raw.zadd(keys.shares("rec"), {"token": 1e15})
    assert leaks(raw) == sorted([*lost, keys.shares("rec")])
