"""Asynchronous replication: the new master lacks the newest writes of the one that was killed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from redis.asyncio import Redis

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.connections.client import SingleServer
from antiphon.broker.errors import StaleFence
from antiphon.broker.retry import retry_until_available
from antiphon.broker.settings import BrokerSettings
from antiphon.broker.streams import StreamWriter
from antiphon.shared_schemas.entries import ChunkIn, StreamPosition
from antiphon.shared_schemas.states import SessionState
from support.control_plane import EDGE, activate, claim, join, report, serve, waiting
from support.redis_server import RedisServer, can_fake_time, demote, promote, replicates
from support.stack import until
from support.tcp_proxy import TcpProxy, tcp_proxy

SID = "adx_1"
TICKET = 1_700_000_000_000
AHEAD_S = (1.4, 60.0, -3.0)


@dataclass
class Failover:
    """A master and its replica behind one address."""

    settings: BrokerSettings
    old: RedisServer
    new: RedisServer
    proxy: TcpProxy
    opened: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def broker(self) -> Broker:
        return await self.opened.enter_async_context(open_broker(self.settings))

    async def stop_replication(self, key: str) -> None:
        """What is written from here on is lost."""
        await demote(self.new, self.old)
        await replicates(self.new, self.old, key)
        await promote(self.new)

    def fail_over(self) -> None:
        self.old.kill()
        self.proxy.target = self.new.port


@asynccontextmanager
async def master_and_replica(folder: Path, *, ahead_s: float = 0.0) -> AsyncIterator[Failover]:
    """`ahead_s`: how far the clock of the replica is ahead."""
    with (
        RedisServer(folder / "old") as old,
        RedisServer(folder / "new", ahead_s=ahead_s) as new,
    ):
        async with tcp_proxy(old.port) as proxy:
            made = Failover(BrokerSettings(redis_url=proxy.url), old, new, proxy)
            async with made.opened:
                yield made


@pytest.fixture
async def failover(tmp_path: Path) -> AsyncIterator[Failover]:
    async with master_and_replica(tmp_path) as made:
        yield made


async def append(writer: StreamWriter, *numbers: int) -> None:
    for number in numbers:
        entry = ChunkIn(audio=bytes([number, 0, 0, 0]))
        await retry_until_available(lambda e=entry: writer.append(e), "append", patience_s=30)


async def stored(broker: Broker) -> list[tuple[int, int]]:
    async def read() -> list[tuple[int, int]]:
        key = broker.keys.inbound(SID)
        entries = [item async for item in broker.streams.history(key, TICKET)]
        return [(place.n, entry.audio[0]) for place, entry in entries if isinstance(entry, ChunkIn)]

    return await retry_until_available(read, "read", patience_s=30)


async def test_a_writer_writes_again_what_the_new_master_lacks(failover: Failover) -> None:
    broker = await failover.broker()
    writer = await broker.streams.input_writer(SID, TICKET)
    await append(writer, 1, 2)
    await failover.stop_replication(broker.keys.inbound(SID))
    await append(writer, 3, 4)
    failover.fail_over()
    await append(writer, 5)
    assert await stored(broker) == [(n, n) for n in (1, 2, 3, 4, 5)]


async def test_a_reader_gets_no_entry_twice(failover: Failover) -> None:
    broker = await failover.broker()
    writer = await broker.streams.input_writer(SID, TICKET)
    key, numbers = broker.keys.inbound(SID), []
    async with broker.reader.subscribe(key, StreamPosition.before(TICKET)) as entries:
        await append(writer, 1)
        numbers.append((await anext(entries))[0].n)
        await failover.stop_replication(key)
        await append(writer, 2)
        numbers.append((await anext(entries))[0].n)
        failover.fail_over()
        await append(writer, 3)
        async with asyncio.timeout(60):
            numbers.append((await anext(entries))[0].n)
    assert numbers == [1, 2, 3]


async def test_an_entry_is_restored_although_its_writer_waits(failover: Failover) -> None:
    """A client that has sent `prepare` sends nothing until it has the answer."""
    broker = await failover.broker()
    writer = await broker.streams.input_writer(SID, TICKET)
    await failover.stop_replication(broker.keys.config)
    await append(writer, 1)
    failover.fail_over()

    async def is_restored() -> bool:
        return await stored(broker) == [(1, 1)]

    await until(is_restored, within_s=60)
    await append(writer, 2)
    assert await stored(broker) == [(1, 1), (2, 2)]


async def test_a_lost_fence_is_set_again(failover: Failover) -> None:
    broker, other = await failover.broker(), await failover.broker()
    earlier = await other.streams.input_writer(SID, TICKET, 1)
    await append(earlier, 1)
    await failover.stop_replication(broker.keys.inbound(SID))
    later = await broker.streams.input_writer(SID, TICKET, 2)
    failover.fail_over()
    await retry_until_available(broker.ping, "ping", patience_s=30)
    await later.restore()
    with pytest.raises(StaleFence):
        await append(earlier, 2)
    await append(later, 2)
    assert await stored(broker) == [(1, 1), (2, 2)]


@pytest.mark.skipif(not can_fake_time(), reason="needs a clock that can be set")
async def test_f27_the_clock_of_another_master_expires_no_lease(tmp_path: Path) -> None:
    """The reaper does not notice the smallest difference; leases are long enough for it."""
    await asyncio.gather(*(_keeps_leases(tmp_path / str(ahead), ahead) for ahead in AHEAD_S))


async def _keeps_leases(folder: Path, ahead_s: float) -> None:
    async with master_and_replica(folder, ahead_s=ahead_s) as failover:
        await _fail_over_with_sessions(failover)


async def _fail_over_with_sessions(failover: Failover) -> None:
    broker = await failover.broker()
    ticket = (await join(broker, "held")).number
    waiting_ticket = (await join(broker, "waits")).number
    await serve(broker)
    await activate(broker, await claim(broker))
    await failover.stop_replication(broker.keys.session("waits"))
    after = (await broker.events.recent(1))[0].id
    lost: list[str] = []

    async def beat() -> None:
        await broker.registry.reap()  # first, as another process does
        await broker.registry.worker_beat("w1", report(slots=1))
        lost.extend(await broker.leases.renew("w1", {"held": 1}))
        serving = [("held", ticket, 0), ("waits", waiting_ticket, 0)]
        lost.extend((await broker.registry.edge_beat(EDGE, serving)).over)

    for second in range(8):
        if second == 2:
            failover.fail_over()
        await retry_until_available(beat, "beat", patience_s=30)
        await asyncio.sleep(1.0)
    later = [event.state async for event in broker.events.since(after)]
    assert (lost, later) == ([], [])
    assert await waiting(broker) == ["waits"]
    row = await broker.sessions.get("held")
    assert row is not None
    assert (row.state, row.epoch) == (SessionState.ACTIVE, 1)


async def test_a_missing_stream_is_created_where_its_writer_writes(tmp_path: Path) -> None:
    """Other connections still lead to the old master, on which the entry would be lost."""
    with RedisServer(tmp_path / "old") as old, RedisServer(tmp_path / "new") as new:
        async with (
            tcp_proxy(new.port) as proxy,
            open_broker(BrokerSettings(redis_url=proxy.url)) as broker,
        ):
            key = broker.keys.inbound(SID)
            writer = await broker.streams.input_writer(SID, TICKET)
            proxy.target = old.port
            assert isinstance(broker._redis, SingleServer)
            await broker._redis._pool.disconnect(inuse_connections=False)
            async with Redis.from_url(new.url) as raw:
                await raw.delete(key)
                await writer.append(ChunkIn(audio=b"sound"))
                assert await raw.xlen(key) == 1
                assert await raw.ttl(key) > 0
