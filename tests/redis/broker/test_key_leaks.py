"""The check that follows every Redis test finds the keys that would stay forever."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.entries import StopIn
from antiphon.shared_schemas.states import EndReason
from antiphon.shared_schemas.voices import Voice, new_voice_id
from redis import Redis
from support.control_plane import claim, join, serve
from support.key_leaks import PERMANENT, leaks

pytestmark = [
    pytest.mark.one_redis,
    pytest.mark.single_server,
    pytest.mark.leaves_keys("the subject of the tests"),
]


DOC = (Path(__file__).parents[3] / "docs" / "redis-keys.md").read_text()


@pytest.fixture
def raw(settings: BrokerSettings) -> Iterator[Redis]:
    with Redis.from_url(settings.redis_url, protocol=2) as client:
        yield client


async def test_a_system_with_every_kind_of_key_leaks_nothing(broker: Broker, raw: Redis) -> None:
    ticket = await join(broker, "adx_1")
    await (await broker.streams.input_writer("adx_1", ticket.number)).append(StopIn())
    await join(broker, "adx_2")
    await serve(broker)
    await claim(broker)
    await broker.voices.add(
        Voice(id=new_voice_id(), name="Anna", duration_ms=1, created_at=1), bytes(32), at_most=9
    )
    await broker.shares.create("rec-adx_1")
    await broker.recorder_progress.save({ticket.number: {"at": 0}})
    assert leaks(raw) == []
    await broker.sessions.end("adx_1", EndReason.STOPPED)
    await broker.sessions.end("adx_2", EndReason.STOPPED)
    assert leaks(raw) == []


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


def test_the_permanent_keys_are_those_of_the_documentation() -> None:
    rows = re.findall(r"^\| `\{antiphon\}:(\w+)` \|", DOC, re.MULTILINE)
    assert set(rows) == set(PERMANENT)
