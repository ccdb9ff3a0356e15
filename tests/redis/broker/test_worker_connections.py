"""The connection of a worker closes with its process, and edges report that it is closed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from redis.asyncio import Redis

from antiphon.broker import worker_connections
from antiphon.broker.client import Broker, open_broker
from antiphon.broker.connections import client
from antiphon.broker.settings import BrokerSettings
from support.control_plane import EDGE, claim, join, reap, serve, waiting
from support.redis_rights import user_of
from support.stack import until

pytestmark = pytest.mark.on_cluster


@asynccontextmanager
async def connected(broker: Broker, worker: str = "w1") -> AsyncIterator[asyncio.Task[None]]:
    """A registered worker whose connection is open."""
    await serve(broker, worker)
    task = asyncio.create_task(broker.worker_connections.keep_open(worker))
    try:
        await until(lambda: is_open(broker, worker))
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def is_open(broker: Broker, worker: str = "w1") -> bool:
    return (await broker.worker_connections.look()).workers[worker].is_open


async def silent(broker: Broker, ticket: int) -> set[str]:
    """The sessions on silent workers, which edges and estimates agree on."""
    found = (await broker.registry.edge_beat(EDGE, [("a", ticket, 0)])).silent
    assert {row.sid for row in (await broker.queue.snapshot()).places} == found
    return found


async def test_a_connection_is_open_until_its_process_closes_it(broker: Broker) -> None:
    await serve(broker, "w2")
    async with connected(broker):
        assert not await is_open(broker, "w2")

    async def is_closed() -> bool:
        return not await is_open(broker)

    await until(is_closed)


async def test_a_renewed_connection_is_never_missing(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_connections, "_RENEW_S", 0.02)
    monkeypatch.setattr(client, "_PING_S", 0.01)
    async with connected(broker):
        for _ in range(50):
            assert await is_open(broker)


async def test_a_report_counts_until_the_next_heartbeat(broker: Broker) -> None:
    await serve(broker)
    ticket = (await join(broker, "a")).number
    await claim(broker)
    connections = broker.worker_connections
    seen = await connections.look()
    server, beat_at = seen.server, seen.workers["w1"].beat_at
    assert await silent(broker, ticket) == set()
    assert await connections.report_closed(server, "w1", beat_at, is_lost=False)
    assert await silent(broker, ticket) == {"a"}

    async def beats_later() -> bool:
        await serve(broker)
        return (await connections.look()).workers["w1"].beat_at > beat_at

    await until(beats_later)
    assert await silent(broker, ticket) == set()
    for is_lost in (False, True):
        assert not await connections.report_closed(server, "w1", beat_at, is_lost=is_lost)
    assert not await connections.report_closed(server, "unknown", beat_at, is_lost=True)
    assert await silent(broker, ticket) == set()


async def test_the_sessions_of_a_lost_worker_are_requeued(broker: Broker, raw: Redis) -> None:
    await serve(broker)
    ticket = (await join(broker, "a")).number
    await claim(broker)
    seen = await broker.worker_connections.look()
    server, beat_at = seen.server, seen.workers["w1"].beat_at
    assert await broker.worker_connections.report_closed(server, "w1", beat_at, is_lost=True)
    assert await silent(broker, ticket) == {"a"}  # also before the reaper runs
    assert (await broker.worker_connections.look()).workers == {}
    assert await reap(broker, raw) == (1, 0)
    assert await waiting(broker) == ["a"]


@pytest.mark.single_server
@pytest.mark.parametrize("refused", ["subscribe", "pubsub"])
async def test_without_the_rights_nothing_is_seen(settings: BrokerSettings, refused: str) -> None:
    with user_of(settings.redis_url, settings.key_prefix) as url:
        async with Redis.from_url(settings.redis_url) as raw:
            await raw.execute_command("ACL", "SETUSER", settings.key_prefix, f"-{refused}")
        limited = settings.model_copy(update={"redis_url": url})
        async with open_broker(limited) as broker:
            await serve(broker)
            keeping = asyncio.create_task(broker.worker_connections.keep_open("w1"))
            if refused == "subscribe":
                await keeping
                assert not await is_open(broker)
            else:
                assert (await broker.worker_connections.look()).workers == {}
                keeping.cancel()
                await asyncio.wait([keeping])
