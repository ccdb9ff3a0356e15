"""The reader of streams on a cluster: which streams share a read, and which server is interrupted."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from itertools import count, islice

import pytest

from antiphon.broker import stream_reader
from antiphon.broker.client import Broker, open_broker
from antiphon.broker.connections import pool
from antiphon.broker.keys import Keys, shard_tag
from antiphon.broker.settings import BrokerSettings
from antiphon.broker.stream_reader import STREAMS_PER_READ
from antiphon.shared_schemas.entries import ChunkIn, StreamPosition
from support.redis_cluster import RedisCluster

pytestmark = pytest.mark.extended

TICKET = 1_700_000_000_000
START = StreamPosition.before(TICKET)
PATIENCE_S = 60.0


@pytest.fixture
def settings(cluster: RedisCluster) -> BrokerSettings:
    return BrokerSettings(redis_url=cluster.url, key_prefix=f"t-{uuid.uuid4().hex[:12]}")


def of_one_shard(amount: int) -> list[str]:
    """Session ids whose streams are in the same slot."""
    sids = (f"s{number}" for number in count())
    return list(islice((sid for sid in sids if shard_tag(sid) == shard_tag("s0")), amount))


async def speak(broker: Broker, sid: str) -> None:
    writer = await broker.streams.input_writer(sid, TICKET)
    await writer.append(ChunkIn(audio=sid.encode()))


async def heard(stream: AsyncIterator[tuple[StreamPosition, object]]) -> str:
    async with asyncio.timeout(PATIENCE_S):
        _, entry = await anext(stream)
    assert isinstance(entry, ChunkIn)
    return entry.audio.decode()


async def test_streams_of_a_shard_share_reads_and_others_do_not(broker: Broker) -> None:
    together = of_one_shard(STREAMS_PER_READ + 1)
    shards = {shard_tag(sid): sid for sid in (f"x{number}" for number in range(40))}
    shards.pop(shard_tag("s0"), None)
    sids = [*together, *shards.values()]
    async with AsyncExitStack() as stack:
        opened = [
            await stack.enter_async_context(
                broker.reader.subscribe(broker.keys.inbound(sid), START)
            )
            for sid in sids
        ]
        assert len(broker.reader._reads) == 2 + len(shards)
        await asyncio.gather(*(speak(broker, sid) for sid in sids))
        assert [await heard(subscription) for subscription in opened] == sids


async def test_a_blocked_read_is_interrupted_on_its_own_server(
    settings: BrokerSettings, cluster: RedisCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On each master, since the control master would take the command for any of them."""
    monkeypatch.setattr(stream_reader, "LONGEST_BLOCK_MS", 3_600_000)
    monkeypatch.setattr(pool, "_BLOCKING_TIMEOUT_S", 3600.0)
    shards = {shard_tag(sid): sid for sid in (f"x{number}" for number in range(200))}
    keys = Keys(settings.key_prefix)
    chosen = {cluster.master_of(keys.inbound(sid)).port: sid for sid in shards.values()}
    assert len(chosen) == len(cluster.masters)
    async with open_broker(settings) as broker:
        for port, idle in chosen.items():
            new = next(s for s in map("n{}".format, count()) if shard_tag(s) == shard_tag(idle))
            await speak(broker, new)
            async with broker.reader.subscribe(keys.inbound(idle), START):
                await until_blocked(cluster, port)
                async with broker.reader.subscribe(keys.inbound(new), START) as added:
                    assert len(broker.reader._reads) == 1
                    assert await heard(added) == new


async def until_blocked(cluster: RedisCluster, port: int) -> None:
    admin = next(node.admin for node in cluster.nodes if node.port == port)
    async with asyncio.timeout(PATIENCE_S):
        while not any(c["cmd"] == "xread" and "b" in c["flags"] for c in admin.client_list()):
            await asyncio.sleep(0.01)
