"""A Redis user with the rights of docs/deployment.md may do what the services do."""

import asyncio
import re
from collections.abc import Iterator

import pytest
from redis.exceptions import ResponseError

from antiphon.broker.client import open_broker
from antiphon.broker.redis_server.checkup import examine_redis
from antiphon.broker.requirements import (
    ON_A_CLUSTER,
    ON_A_ROW,
    ON_A_STREAM,
    WITHOUT_KEYS,
    right_for,
)
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.entries import StopIn, StoppedOut, StreamPosition
from antiphon.shared_schemas.findings import FindingStatus
from antiphon.shared_schemas.states import EndReason
from antiphon.shared_schemas.voices import Voice, new_voice_id
from redis import Redis
from support.control_plane import activate, claim, join, serve
from support.redis_rights import ROOT, documented_rules, refused, user_of
from support.stack import until

BY_OTHER_MEANS = {"CONFIG", "QUIT", "SENTINEL", "SHUTDOWN"}
"""Sent to the private server of `antiphon up`, or to a Sentinel."""

IN_ALL_CONNECTIONS = {"EXEC", "SELECT"}
"""Sent by redis-py. It is not named in the sources."""


@pytest.fixture
def limited(settings: BrokerSettings) -> Iterator[BrokerSettings]:
    with user_of(settings.redis_url, settings.key_prefix) as url:
        yield settings.model_copy(update={"redis_url": url})


def test_the_rights_are_the_commands_that_the_sources_name(redis_url: str) -> None:
    with Redis.from_url(redis_url, protocol=2) as redis:
        known = {name.upper() for name in redis.command()}
    sources = [
        path.read_text()
        for path in (ROOT / "broker").rglob("*.*")
        if path.suffix in (".py", ".lua")
    ]
    named = {
        name for source in sources for name in re.findall(r"(?<![\"'])[\"']([A-Z]{3,})\b", source)
    }
    allowed = {re.split(r"[+|]", rule)[1].upper() for rule in documented_rules() if rule[0] == "+"}
    assert (named & known) - BY_OTHER_MEANS - {"DEBUG"} == allowed - IN_ALL_CONNECTIONS


def test_services_check_the_rights_that_sessions_need() -> None:
    commands = (*WITHOUT_KEYS, *ON_A_CLUSTER, *ON_A_ROW, *ON_A_STREAM)
    documented = {rule[1:] for rule in documented_rules() if rule[0] == "+"}
    optional = {"role", "subscribe", "pubsub|numsub", "select", "multi", "exec"}
    assert {right_for(command.split()) for command in commands} == documented - optional


async def test_the_rights_are_enough_for_a_session(limited: BrokerSettings) -> None:
    async with open_broker(limited) as broker:
        await serve(broker)
        keeping = asyncio.create_task(broker.worker_connections.keep_open("w1"))
        ticket = await join(broker, "adx_1")
        held = await claim(broker)
        await activate(broker, held)
        into = await broker.streams.input_writer("adx_1", ticket.number)
        out = await broker.streams.output_writer("adx_1", ticket.number, held.epoch)
        async with broker.reader.subscribe(
            broker.keys.inbound("adx_1"), StreamPosition.before(ticket.number)
        ) as arriving:
            await into.append(StopIn())
            await anext(arriving)
        await out.append(StoppedOut())
        await broker.voices.add(
            Voice(id=new_voice_id(), name="Anna", duration_ms=1, created_at=1), bytes(32), at_most=9
        )
        await broker.shares.create("rec-adx_1", life_s=60)
        await broker.sessions.end("adx_1", EndReason.STOPPED)
        await broker.registry.reap()
        await broker.orphaned_keys.sweep()

        async def is_seen() -> bool:
            return (await broker.worker_connections.look()).workers["w1"].is_open

        await until(is_seen)
        keeping.cancel()
        await asyncio.wait([keeping])
    findings = await examine_redis(limited)
    assert FindingStatus.FAILURE not in {finding.verdict for finding in findings}
    assert refused(limited.redis_url) == []


async def test_other_keys_and_commands_are_refused(limited: BrokerSettings) -> None:
    with Redis.from_url(limited.redis_url, protocol=2) as redis:
        for command in (("GET", "other"), ("FLUSHALL",), ("KEYS", "*"), ("CONFIG", "GET", "*")):
            with pytest.raises(ResponseError, match=r"(?i)permission"):
                redis.execute_command(*command)
