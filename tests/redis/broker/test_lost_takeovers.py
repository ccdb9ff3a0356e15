"""A new master lacks a takeover: an earlier writer has added entries there in the meantime."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.errors import StaleFence
from antiphon.broker.resume_registry import ResumeRecord
from antiphon.broker.retry import retry_until_available
from antiphon.broker.settings import BrokerSettings
from antiphon.broker.streams import StreamWriter
from antiphon.shared_schemas.entries import ChunkIn, DeltaOut, StreamEntry
from antiphon.shared_schemas.ids import ResumeToken
from support.control_plane import AUDIO, EDGE
from support.redis_server import RedisServer, demote, promote, replicates
from support.tcp_proxy import TcpProxy, tcp_proxy

SID = "adx_1"
TICKET = 1_700_000_000_000


@dataclass
class Side:
    """A process with its own way to Redis, and what it has."""

    broker: Broker
    proxy: TcpProxy

    def follow(self, master: RedisServer) -> None:
        self.proxy.target = master.port
        self.proxy.reset()


@dataclass
class SplitReplication:
    """Both processes begin at `old`. `new` has what was there before `split`."""

    old: RedisServer
    new: RedisServer
    earlier: Side
    later: Side

    async def split(self) -> None:
        await demote(self.new, self.old)
        await replicates(self.new, self.old, self.later.broker.keys.config)
        await promote(self.new)


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[SplitReplication]:
    with RedisServer(tmp_path / "old") as old, RedisServer(tmp_path / "new") as new:
        async with AsyncExitStack() as opened:
            sides = []
            for _ in range(2):
                proxy = await opened.enter_async_context(tcp_proxy(old.port))
                settings = BrokerSettings(redis_url=proxy.url)
                sides.append(Side(await opened.enter_async_context(open_broker(settings)), proxy))
            yield SplitReplication(old, new, *sides)


def chunk(number: int) -> ChunkIn:
    return ChunkIn(audio=bytes([number, 0, 0, 0]))


def answer(number: int) -> DeltaOut:
    return DeltaOut(text_delta=str(number))


async def append(writer: StreamWriter, *entries: StreamEntry) -> None:
    for entry in entries:
        await retry_until_available(lambda e=entry: writer.append(e), "append", patience_s=30)


async def inputs(broker: Broker) -> list[tuple[int, int]]:
    entries = [item async for item in broker.streams.history(broker.keys.inbound(SID), TICKET)]
    return [(place.n, entry.audio[0]) for place, entry in entries if isinstance(entry, ChunkIn)]


async def outputs(broker: Broker) -> list[tuple[int, str]]:
    entries = [item async for item in broker.streams.history(broker.keys.outbound(SID), TICKET)]
    return [(place.n, entry.text_delta) for place, entry in entries if isinstance(entry, DeltaOut)]


async def test_input_continues_after_what_an_earlier_connection_has_added(
    servers: SplitReplication,
) -> None:
    earlier, later = servers.earlier, servers.later
    first = await earlier.broker.streams.input_writer(SID, TICKET, 1)
    await append(first, chunk(1))
    await servers.split()
    second = await later.broker.streams.input_writer(SID, TICKET, 2)
    earlier.follow(servers.new)
    await append(first, chunk(2))
    later.follow(servers.new)
    await append(second, chunk(3))
    assert await inputs(later.broker) == [(1, 1), (2, 2), (3, 3)]
    with pytest.raises(StaleFence):
        await append(first, chunk(4))


async def test_input_that_was_written_keeps_its_number(servers: SplitReplication) -> None:
    """A worker may have read it from the former master."""
    earlier, later = servers.earlier, servers.later
    first = await earlier.broker.streams.input_writer(SID, TICKET, 1)
    await append(first, chunk(1))
    await servers.split()
    second = await later.broker.streams.input_writer(SID, TICKET, 2)
    await append(second, chunk(3))
    earlier.follow(servers.new)
    await append(first, chunk(2))
    later.follow(servers.new)
    await append(second, chunk(4))
    assert await inputs(later.broker) == [(1, 1), (2, 3), (3, 4)]


async def test_output_of_an_earlier_worker_is_dropped(servers: SplitReplication) -> None:
    """Another worker continues without it, so its numbers are given twice."""
    earlier, later = servers.earlier, servers.later
    first = await earlier.broker.streams.output_writer(SID, TICKET, 1)
    await append(first, answer(1))
    await servers.split()
    second = await later.broker.streams.output_writer(SID, TICKET, 2)
    earlier.follow(servers.new)
    await append(first, *(answer(10 + number) for number in range(150)))
    later.follow(servers.new)
    await append(second, answer(2))
    assert await outputs(later.broker) == [(1, "1"), (2, "2")]


async def test_a_stream_is_opened_where_its_entries_are_written(servers: SplitReplication) -> None:
    """A call on another connection may be answered by a former master."""
    earlier, later = servers.earlier, servers.later
    first = await earlier.broker.streams.input_writer(SID, TICKET, 1)
    await append(first, chunk(1))
    await servers.split()
    earlier.follow(servers.new)
    await append(first, chunk(2))
    await later.broker.ping()  # the pool has an idle connection to the former master
    await later.broker._redis.master_id(later.broker.keys.inbound(SID))
    later.proxy.target = servers.new.port
    later.broker._redis._pipeline.disconnect()  # type: ignore[attr-defined]
    second = await later.broker.streams.input_writer(SID, TICKET, 2)
    await append(second, chunk(3))
    assert await inputs(earlier.broker) == [(1, 1), (2, 2), (3, 3)]


@pytest.mark.parametrize("confirmed", [True, False])
async def test_a_resume_that_is_lost_is_stored_again_with_its_token(
    servers: SplitReplication, confirmed: bool
) -> None:
    """The token before it is valid as long as the client may not have the new one."""
    earlier, later = servers.earlier.broker, servers.later.broker
    first, second, third = (ResumeToken(SID, secret) for secret in ("one", "two", "three"))
    ticket = await earlier.queue.join(
        SID, AUDIO, edge=EDGE, recording="r", resume=first, protocol="duplex"
    )
    await servers.split()
    resumed = await later.resume_registry.attach(
        first, second, edge="edge-2", protocol="duplex", attempt=1
    )
    assert resumed is not None
    for side in (servers.earlier, servers.later):
        side.follow(servers.new)
    await retry_until_available(later.ping, "ping", patience_s=30)
    serving = [(SID, ticket.number, resumed.connection)]
    for _ in range(2):  # until it is stored
        beat = await later.registry.edge_beat("edge-2", serving)
        assert beat == ({}, set(), {}, {SID})
    before = "" if confirmed else first.digest
    lost = ResumeRecord(SID, ticket.number, resumed.connection, second.digest, before, attempt=1)
    assert await later.resume_registry.restore(lost, edge="edge-2")
    assert not await later.resume_registry.restore(lost, edge="edge-2")
    assert await later.registry.edge_beat("edge-2", serving) == ({}, set(), {}, set())
    await retry_until_available(earlier.ping, "ping", patience_s=30)
    row = await earlier.sessions.get(SID)
    assert row is not None
    assert row.edge == "edge-2"
    beat = await earlier.registry.edge_beat(EDGE, [(SID, ticket.number, 1)])
    assert beat.replaced == {SID: resumed.connection}
    back = partial(earlier.resume_registry.attach, edge=EDGE, protocol="duplex")
    assert await back(first, third, attempt=1) is None
    again = await back(second if confirmed else first, third, attempt=2)
    assert again is not None
    assert again.connection == resumed.connection + 1
    assert not await later.resume_registry.restore(lost, edge="edge-2")
