"""The broker on a real group of Sentinels: failover, lost Sentinels, users, wrong URLs."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from antiphon.broker.client import open_broker
from antiphon.broker.connections import sentinel as connections
from antiphon.broker.connections.pipeline import LONG_BYTES
from antiphon.broker.connections.sentinel import SentinelClient
from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.redis_server.checkup import examine_redis
from antiphon.broker.retry import retry_until_available
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.entries import ChunkIn, StreamPosition
from antiphon.shared_schemas.findings import Finding, FindingStatus
from redis import Redis
from support.control_plane import join, waiting
from support.redis_sentinel import DOWN_AFTER_MS, RedisSentinel, redis_sentinel
from support.redis_server import ADMIN, RedisServer

pytestmark = pytest.mark.extended

TICKET = 1_700_000_000_000
SOON_S = 120.0


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisSentinel]:
    with redis_sentinel(tmp_path_factory.mktemp("sentinel")) as running:
        yield running


@pytest.fixture
def settings(group: RedisSentinel) -> BrokerSettings:
    prefix = f"t-{uuid.uuid4().hex[:12]}"
    return BrokerSettings(redis_url=group.url, key_prefix=prefix, redis_timeout_s=30.0)


def add_user(server: RedisServer, *rules: str) -> None:
    with Redis(port=server.port, **ADMIN) as admin:
        admin.execute_command("ACL", "SETUSER", *rules)


@asynccontextmanager
async def without_master(group: RedisSentinel) -> AsyncIterator[None]:
    """The master is lost. Another is elected after `elect_after` alone; all is well at the end."""
    group.elect_after(600_000)
    lost = group.master
    lost.kill()
    try:
        yield
    finally:
        group.elect_after(DOWN_AFTER_MS)
        await asyncio.to_thread(group.wait_until_ok)
        await asyncio.to_thread(lost.start)
        await asyncio.to_thread(group.wait_until_ok)


async def test_a_broker_follows_the_master(group: RedisSentinel, settings: BrokerSettings) -> None:
    async with open_broker(settings) as broker:
        writer = await broker.streams.input_writer("s", TICKET)
        start = StreamPosition.before(TICKET)
        async with broker.reader.subscribe(broker.keys.inbound("s"), start) as subscription:
            await writer.append(ChunkIn(audio=b"before"))
            await anext(subscription)
            async with without_master(group):
                with pytest.raises(BrokerUnavailable):
                    await broker.ping()
                group.elect_after(DOWN_AFTER_MS)
                await retry_until_available(broker.ping, "ping", patience_s=SOON_S)
                writer = await broker.streams.input_writer("s", TICKET, epoch=2)
                await writer.append(ChunkIn(audio=b"after"))
                async with asyncio.timeout(SOON_S):
                    _, entry = await anext(subscription)
        assert isinstance(entry, ChunkIn)
        assert entry.audio == b"after"


async def test_a_master_that_hangs_costs_at_most_one_call(
    group: RedisSentinel, settings: BrokerSettings
) -> None:
    """Its connections stay open: none of them may be used once one has failed."""
    async with open_broker(settings.model_copy(update={"redis_timeout_s": 8.0})) as broker:
        await asyncio.gather(*(broker.ping() for _ in range(8)))
        hanging = group.master
        hanging.freeze()
        try:
            async with asyncio.timeout(SOON_S):
                while await asyncio.to_thread(lambda: group.master is hanging):
                    await asyncio.sleep(0.1)
            with suppress(BrokerUnavailable):  # an election may take longer than the call's time
                await broker.ping()
            await asyncio.gather(*(broker.ping() for _ in range(8)))
        finally:
            hanging.thaw()
        await asyncio.to_thread(group.wait_until_ok)


@pytest.mark.parametrize("size", [1, 4 * LONG_BYTES], ids=["short", "long"])
async def test_no_reply_of_a_former_master_is_used(
    group: RedisSentinel, settings: BrokerSettings, size: int
) -> None:
    """A master that was suspended answers the calls that wait for it, but what it does is lost."""
    async with open_broker(settings.model_copy(update={"redis_timeout_s": 300.0})) as broker:
        redis, former = broker._redis, group.master
        await redis.call_pipelined("SET", "early", bytes(size))
        former.freeze()
        try:
            waiting_calls = [asyncio.create_task(redis.call_pipelined("SET", "late", bytes(size)))]
            if size == 1:
                pooled = (asyncio.create_task(redis.call("SET", "late", 1)) for _ in range(8))
                waiting_calls += pooled
            async with asyncio.timeout(SOON_S):
                replies = await asyncio.gather(*waiting_calls, return_exceptions=True)
                while (master := await asyncio.to_thread(lambda: group.master)) is former:
                    await asyncio.sleep(0.1)
        finally:
            former.thaw()
        assert {type(reply) for reply in replies} == {BrokerUnavailable}
        with Redis(port=master.port, **ADMIN) as admin:
            assert admin.get("late") is None
        await asyncio.to_thread(group.wait_until_ok)


async def test_a_lost_sentinel_is_passed_over(
    group: RedisSentinel, settings: BrokerSettings
) -> None:
    group.sentinels[0].kill()
    group.sentinels[1].freeze()
    try:
        async with open_broker(settings) as broker:
            await join(broker, "s")
            assert await waiting(broker) == ["s"]
    finally:
        group.sentinels[1].thaw()
        await asyncio.to_thread(group.sentinels[0].start)
        await asyncio.to_thread(group.wait_until_ok)


async def test_the_servers_and_the_sentinels_have_separate_users(
    group: RedisSentinel, settings: BrokerSettings, tmp_path: Path
) -> None:
    for server in group.servers:
        add_user(server, "anna", "on", ">word", "~*", "&*", "+@all")
    for sentinel in group.sentinels:
        add_user(sentinel, "watcher", "on", ">other", "+@all")
    word, other = tmp_path / "word", tmp_path / "other"
    word.write_text("word\n")
    other.write_text("other\n")
    named = settings.model_copy(
        update={
            "redis_url": group.url.replace("redis+sentinel://", "redis+sentinel://anna@"),
            "redis_password_file": word,
            "redis_sentinel_user": "watcher",
            "redis_sentinel_password_file": other,
        }
    )
    async with open_broker(named) as broker:
        assert await broker._redis.call("ACL", "WHOAMI") == b"anna"
        assert isinstance(broker._redis, SentinelClient)
        sentinel = broker._redis.sentinels[0]
        assert await sentinel.call("ACL", "WHOAMI") == b"watcher"
        await broker.events.watch()
    wrong = named.model_copy(update={"redis_sentinel_password_file": word})
    with pytest.raises(BrokerUnavailable, match="invalid username-password"):
        async with open_broker(wrong):
            pass


async def examined(settings: BrokerSettings) -> dict[str, list[Finding]]:
    """A Sentinel that a busy machine has stopped for a second is no finding."""
    findings: dict[str, list[Finding]] = {}
    with pytest.MonkeyPatch.context() as patient:
        patient.setattr(connections, "_ANSWER_S", SOON_S)
        for finding in await examine_redis(settings):
            findings.setdefault(finding.about, []).append(finding)
    return findings


async def test_doctor_examines_the_group(group: RedisSentinel, settings: BrokerSettings) -> None:
    async with open_broker(settings):
        pass
    found = await examined(settings)
    (sentinel,), (replicas,) = found["redis sentinel"], found["redis replicas"]
    assert sentinel.verdict is FindingStatus.OK
    assert sentinel.found.startswith("3 Sentinels, quorum 2, master 127.0.0.1:")
    assert replicas.verdict is FindingStatus.WARNING
    assert "1 for each master; without min-replicas-to-write" in replicas.found
    assert found["redis eviction"][0].found == "noeviction (all 2 servers)"
    (replica,) = group.replicas
    with Redis(port=group.master.port, **ADMIN) as admin:
        admin.config_set("min-replicas-to-write", 1)
    with Redis(port=replica.port, **ADMIN) as admin:
        admin.config_set("maxmemory-policy", "allkeys-lru")
    found = await examined(settings)
    (replicas,), (eviction,) = found["redis replicas"], found["redis eviction"]
    assert (replicas.verdict, replicas.found) == (FindingStatus.OK, "1 for each master")
    assert eviction.verdict is FindingStatus.FAILURE
    assert eviction.found.startswith(f"127.0.0.1:{replica.port}: maxmemory-policy is allkeys-lru")


async def test_doctor_reports_a_missing_quorum(
    group: RedisSentinel, settings: BrokerSettings
) -> None:
    for sentinel in group.sentinels[:2]:
        sentinel.kill()
    try:
        async with asyncio.timeout(SOON_S):
            while len(found := (await examined(settings))["redis sentinel"]) < 2 or (
                found[1].verdict is not FindingStatus.FAILURE
            ):
                await asyncio.sleep(0.2)
        assert found[0].verdict is FindingStatus.WARNING
        assert f"nothing listens at 127.0.0.1:{group.sentinels[0].port}" in found[0].found
        assert "NOQUORUM" in found[1].found
    finally:
        for sentinel in group.sentinels[:2]:
            await asyncio.to_thread(sentinel.start)
        await asyncio.to_thread(group.wait_until_ok)
