"""Redis stopped, restarted with and without its data, frozen, full, read-only."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from redis.asyncio import Redis

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.errors import BrokerUnavailable, StoreFull
from antiphon.broker.retry import retry_until_available
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.entries import ChunkIn
from antiphon.shared_schemas.registry import SessionEvent
from antiphon.shared_schemas.states import SessionState
from support.control_plane import activate, claim, join, now_ms, report, serve, used, waiting
from support.ports import free_port
from support.redis_server import RedisServer
from support.stack import until

pytestmark = pytest.mark.one_redis

OUTAGE_S = 3.0


@pytest.fixture
async def own(redis_server: RedisServer) -> AsyncIterator[Broker]:
    """A broker on a server that only this test uses."""
    async with open_broker(BrokerSettings(redis_url=redis_server.url)) as opened:
        yield opened


@asynccontextmanager
async def direct(server: RedisServer) -> AsyncIterator[Redis]:
    async with Redis.from_url(server.url) as client:
        yield client


@asynccontextmanager
async def running(*loops: Awaitable[None]) -> AsyncIterator[None]:
    """Runs loops of services during the test; an exception in one of them fails the test."""
    tasks = [asyncio.ensure_future(loop) for loop in loops]
    try:
        yield
        assert not [task for task in tasks if task.done()]
    finally:
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes), outcomes


async def keep_at(step: Callable[[], Awaitable[object]]) -> None:
    """The heartbeat loop of a service; it survives outages."""
    while True:
        await retry_until_available(step, "beat")
        await asyncio.sleep(0.2)


async def test_no_session_is_lost_in_an_outage_longer_than_the_lease(
    redis_server: RedisServer,
) -> None:
    settings = BrokerSettings(redis_url=redis_server.url, lease_s=2.0, heartbeat_ttl_s=2.0)
    seen: list[SessionEvent] = []
    async with open_broker(settings) as broker:
        tickets = {sid: (await join(broker, sid)).number for sid in ("held", "q1", "q2")}
        serving = [(sid, ticket, 0) for sid, ticket in tickets.items()]
        lost: set[str] = set()

        async def worker() -> None:
            await broker.registry.worker_beat("w1", report(slots=1))
            lost.update(await broker.leases.renew("w1", {"held": 1}))
            await broker.registry.reap()

        async def edge() -> None:
            lost.update((await broker.registry.edge_beat("edge-1", serving)).over)

        async def watch_all() -> None:
            async for events in watch.follow():
                seen.extend(events)

        await serve(broker)
        await activate(broker, await claim(broker))
        writer = await broker.streams.input_writer("held", tickets["held"])
        await writer.append(ChunkIn(audio=b"1234"))
        watch = await broker.events.watch()
        async with running(keep_at(worker), keep_at(edge), watch_all()):
            await asyncio.to_thread(redis_server.kill)
            await asyncio.sleep(OUTAGE_S)
            await asyncio.to_thread(redis_server.start)
            assert (
                await retry_until_available(lambda: writer.append(ChunkIn(audio=b"5678")), "write")
            ).n == 2
            quiet = settings.heartbeat_ttl_s + 1.0
            await asyncio.sleep(quiet)  # the reaper judges again
            assert await waiting(broker) == ["q1", "q2"]
            assert await used(broker) == {"w1": 1}
            row = await broker.sessions.get("held")
            assert row is not None
            assert (row.state, row.attempt) == (SessionState.ACTIVE, 1)
            await join(broker, "q3")
            await until(lambda: _has_seen(seen, "q3"))
        await watch.close()
    assert lost == set()
    assert [event.sid for event in seen] == ["q3"]


async def _has_seen(seen: list[SessionEvent], sid: str) -> bool:
    return sid in {event.sid for event in seen}


async def test_a_worker_that_died_during_the_outage_is_noticed_afterwards(
    redis_server: RedisServer,
) -> None:
    settings = BrokerSettings(redis_url=redis_server.url, lease_s=0.5, heartbeat_ttl_s=0.5)
    async with open_broker(settings) as broker:
        await join(broker, "held")
        await serve(broker)
        await claim(broker)
        await asyncio.to_thread(redis_server.restart)

        async def edge() -> None:
            await broker.registry.edge_beat("edge-1", [])
            await broker.registry.reap()

        async def requeued() -> bool:
            return await waiting(broker) == ["held"]

        async with running(keep_at(edge)):
            await until(requeued)


async def test_after_an_empty_restart_every_session_is_reported_as_ended(
    own: Broker, redis_server: RedisServer
) -> None:
    before = {sid: (await join(own, sid)).number for sid in ("held", "queued")}
    await serve(own, slots=1)
    await activate(own, await claim(own))
    writer = await own.streams.input_writer("held", before["held"])
    await writer.append(ChunkIn(audio=b"1234"))
    group = await own.events.join_group("recorders", "c1")
    watch = await own.events.watch()
    await asyncio.to_thread(lambda: redis_server.restart(empty=True))

    assert await own.leases.renew("w1", {"held": 1}) == {"held"}
    assert not await own.leases.move("held", "w1", 1, SessionState.PAUSED)
    over = (await own.registry.edge_beat("edge-1", [(sid, n, 0) for sid, n in before.items()])).over
    assert over == {"held": None, "queued": None}
    await own.registry.worker_beat("w1", report(slots=1))
    assert await used(own) == {"w1": 0}
    assert await waiting(own) == []

    again = await join(own, "held")
    assert again.number > max(before.values())
    assert (await claim(own)).epoch == 1
    assert await retry_until_available(group.read, "read") == []
    assert [event.sid for event in await group.read()] == ["held", "held"]
    assert [event.sid for event in await retry_until_available(watch.read, "read")] == [
        "held",
        "held",
    ]
    await group.close()
    await watch.close()


async def test_every_call_reports_that_redis_is_unavailable(
    own: Broker, redis_server: RedisServer
) -> None:
    writer = await own.streams.input_writer("s", 1)
    await asyncio.to_thread(redis_server.kill)
    calls: list[Callable[[], Awaitable[object]]] = [
        own.ping,
        own.queue.snapshot,
        own.registry.reap,
        own.eta.lengths,
        own.clock.sync,
        lambda: join(own, "a"),
        lambda: own.leases.claim("w1"),
        lambda: own.sessions.get("a"),
        lambda: own.apps.is_disabled("omni"),
        lambda: own.recorder_progress.save({1: {}}),
        lambda: writer.append(ChunkIn(audio=b"")),
        lambda: own.streams.discard("a", 1),
        own.events.watch,
    ]
    for call in calls:
        with pytest.raises(BrokerUnavailable):
            await call()
    await asyncio.to_thread(redis_server.start)
    for call in calls[:5]:
        await call()


async def test_a_frozen_redis_times_out_and_is_used_again(redis_server: RedisServer) -> None:
    settings = BrokerSettings(redis_url=redis_server.url, redis_timeout_s=2.0)
    async with open_broker(settings) as broker:
        writer = await broker.streams.input_writer("s", 1)
        redis_server.freeze()
        try:
            async with asyncio.timeout(60):
                outcomes = await asyncio.gather(
                    *(broker.ping() for _ in range(100)),
                    writer.append(ChunkIn(audio=b"1234")),
                    return_exceptions=True,
                )
        finally:
            redis_server.thaw()
        assert {type(outcome) for outcome in outcomes} == {BrokerUnavailable}
        patient = BrokerSettings(redis_url=redis_server.url)
        async with open_broker(patient) as other:
            await other.ping()
        await retry_until_available(broker.ping, "ping")
        assert (
            await retry_until_available(lambda: writer.append(ChunkIn(audio=b"1234")), "write")
        ).n == 1
        key = broker.keys.inbound("s")
        assert len([item async for item in broker.streams.history(key, 1)]) == 1


async def test_a_cancelled_call_is_always_cancelled(broker: Broker) -> None:
    async def for_ever() -> None:
        while True:
            await broker.ping()

    async with asyncio.timeout(90):
        for ticks in range(60):
            tasks = [asyncio.create_task(for_ever()) for _ in range(5)]
            for _ in range(ticks):
                await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    await broker.ping()


async def test_a_full_redis_rejects_writes_and_recovers(
    own: Broker, redis_server: RedisServer
) -> None:
    writer = await own.streams.input_writer("s", 1)
    await writer.append(ChunkIn(audio=b"1234"))
    async with direct(redis_server) as raw:
        await raw.config_set("maxmemory", "1")
        for call in (
            lambda: join(own, "a"),
            lambda: writer.append(ChunkIn(audio=b"5678")),
            lambda: own.recorder_progress.save({1: {}}),
        ):
            with pytest.raises(BrokerUnavailable, match="maxmemory"):
                await call()
        assert await waiting(own) == []
        await raw.config_set("maxmemory", "0")
    await join(own, "a")
    assert (await writer.append(ChunkIn(audio=b"5678"))).n == 2


async def test_a_replica_rejects_writes(own: Broker, redis_server: RedisServer) -> None:
    writer = await own.streams.input_writer("s", 1)
    async with direct(redis_server) as raw:
        await raw.execute_command("REPLICAOF", "127.0.0.1", str(free_port()))
        for call in (lambda: join(own, "a"), lambda: writer.append(ChunkIn(audio=b"1234"))):
            with pytest.raises(BrokerUnavailable, match="read only"):
                await call()
        await raw.execute_command("REPLICAOF", "NO", "ONE")
    await join(own, "a")
    assert (await writer.append(ChunkIn(audio=b"1234"))).n == 1


async def test_the_clock_follows_redis_and_may_be_set_back(broker: Broker, raw: Redis) -> None:
    for _ in range(2):
        before = await now_ms(raw)
        assert before - 50 <= broker.clock.now_ms() <= await now_ms(raw) + 50
        broker.clock.offset_ms += 3_600_000  # Redis has moved to a host with another clock
        await broker.clock.sync()


async def test_without_maxmemory_the_memory_of_the_machine_is_the_limit(
    redis_server: RedisServer,
) -> None:
    settings = BrokerSettings(redis_url=redis_server.url, max_redis_memory_share=1e-9)
    async with open_broker(settings) as broker, direct(redis_server) as raw:
        assert not (await raw.info("memory"))["maxmemory"]
        await broker.measure_memory()
        with pytest.raises(StoreFull):
            broker.check_memory()
