"""Asynchronous replication: the new master lacks the newest writes of the one that was killed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.connections.outages import retry_until_available
from antiphon.broker.errors import StaleFence
from antiphon.broker.settings import BrokerSettings
from antiphon.broker.streams import StreamWriter
from antiphon.shared_schemas.entries import ChunkIn, StreamPosition
from support.redis_server import RedisServer, demote, promote, replicates
from support.stack import until
from support.tcp_proxy import TcpProxy, tcp_proxy

SID = "adx_1"
TICKET = 1_700_000_000_000


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


@pytest.fixture
async def failover(settings: BrokerSettings, tmp_path: Path) -> AsyncIterator[Failover]:
    with RedisServer(tmp_path / "old") as old, RedisServer(tmp_path / "new") as new:
        async with tcp_proxy(old.port) as proxy:
            behind = settings.model_copy(update={"redis_url": proxy.url})
            made = Failover(behind, old, new, proxy)
            async with made.opened:
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
