import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest
from redis.asyncio import Redis
from structlog.testing import capture_logs

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.errors import BrokerError, BrokerUnavailable
from antiphon.broker.retry import retry_until_available
from antiphon.broker.settings import BrokerSettings
from antiphon.broker.stream_reader import STREAMS_PER_READ, Subscription
from antiphon.shared_schemas.entries import ChunkIn, Entry, StreamPosition, pack
from redis import Redis as BlockingRedis
from support.redis_server import RedisServer

pytestmark = pytest.mark.on_cluster

TICKET = 1_700_000_000_000
START = StreamPosition.before(TICKET)
SOON_S = 60.0
"""Less than the ten seconds of a blocking read: an entry within this time interrupted the read."""


def chunk(number: int) -> ChunkIn:
    return ChunkIn(audio=number.to_bytes(4, "little"))


def number_of(entry: Entry) -> int:
    assert isinstance(entry, ChunkIn)
    return int.from_bytes(entry.audio, "little")


async def take(subscription: Subscription, count: int, within_s: float = SOON_S) -> list[int]:
    """The next numbers; raises TimeoutError."""
    async with asyncio.timeout(within_s):
        return [number_of((await anext(subscription))[1]) for _ in range(count)]


async def write(broker: Broker, sid: str, *numbers: int) -> None:
    writer = await broker.streams.input_writer(sid, TICKET)
    for number in numbers:
        await writer.append(chunk(number))


async def until_blocked(raw: Redis) -> None:
    """Return when a read blocks in Redis; only an entry or an unblock ends the read."""
    async with asyncio.timeout(SOON_S):
        while not any("b" in c["flags"] for c in await readers(raw)):
            await asyncio.sleep(0.005)


async def readers(raw: Redis) -> list[dict[str, str]]:
    return [c for c in await raw.client_list() if c["cmd"] == "xread"]


@pytest.mark.single_server
async def test_a_hundred_streams_share_a_few_connections(broker: Broker) -> None:
    sids = [f"s{i}" for i in range(100)]
    async with AsyncExitStack() as stack:
        subscriptions = [
            await stack.enter_async_context(
                broker.reader.subscribe(broker.keys.inbound(sid), START)
            )
            for sid in sids
        ]
        assert len(broker.reader._reads) == -(-len(sids) // STREAMS_PER_READ)
        writers = [await broker.streams.input_writer(sid, TICKET) for sid in sids]
        for number in range(5):
            await asyncio.gather(*(writer.append(chunk(number)) for writer in writers))
        for subscription in subscriptions:
            assert await take(subscription, 5) == [0, 1, 2, 3, 4]
            assert subscription.unread == 0
    assert broker.reader._reads == []


@pytest.mark.single_server
async def test_a_new_subscription_is_served_while_a_read_blocks(broker: Broker, raw: Redis) -> None:
    await write(broker, "new", 7)
    async with broker.reader.subscribe(broker.keys.inbound("idle"), START):
        await until_blocked(raw)
        async with broker.reader.subscribe(broker.keys.inbound("new"), START) as added:
            assert len(broker.reader._reads) == 1
            assert await take(added, 1) == [7]


async def test_many_new_subscriptions_at_once(broker: Broker) -> None:
    count = 32
    for i in range(count):
        await write(broker, f"s{i}", i)

    async def listen(i: int) -> list[int]:
        async with broker.reader.subscribe(broker.keys.inbound(f"s{i}"), START) as subscription:
            await asyncio.sleep(0.001 * (i % 5))
            return await take(subscription, 1)

    assert await asyncio.gather(*(listen(i) for i in range(count))) == [[i] for i in range(count)]


@pytest.mark.single_server
async def test_a_new_subscription_is_served_after_the_connection_was_replaced(
    broker: Broker, raw: Redis
) -> None:
    await write(broker, "new", 7)
    async with broker.reader.subscribe(broker.keys.inbound("idle"), START) as idle:
        await until_blocked(raw)
        for client in await readers(raw):
            await raw.client_kill_filter(_id=client["id"])
        await write(broker, "idle", 1)
        assert await take(idle, 1) == [1]
        await until_blocked(raw)
        async with broker.reader.subscribe(broker.keys.inbound("new"), START) as added:
            assert await take(added, 1) == [7]


async def test_reading_begins_after_the_given_position(broker: Broker) -> None:
    await write(broker, "s", *range(40))
    after = StreamPosition(TICKET, 1, 37)
    async with broker.reader.subscribe(broker.keys.inbound("s"), after) as subscription:
        async with asyncio.timeout(SOON_S):
            position, entry = await anext(subscription)
        assert (position, number_of(entry)) == (StreamPosition(TICKET, 1, 38), 37)
        assert await take(subscription, 2) == [38, 39]


async def test_two_subscriptions_of_one_stream_each_get_every_entry_once(broker: Broker) -> None:
    key = broker.keys.inbound("s")
    await write(broker, "s", 0, 1, 2)
    async with broker.reader.subscribe(key, START) as first:
        assert await take(first, 3) == [0, 1, 2]
        async with broker.reader.subscribe(key, START) as second:
            assert await take(second, 3) == [0, 1, 2]
            await write(broker, "s", 3)
            assert await take(first, 1) == [3]
            assert await take(second, 1) == [3]
        await write(broker, "s", 4)
        assert await take(first, 1) == [4]
        assert (first.unread, second.unread) == (0, 0)


async def test_entries_of_a_newer_session_with_the_same_id_are_not_delivered(
    broker: Broker,
) -> None:
    key = broker.keys.inbound("s")
    newer = StreamPosition.before(TICKET + 1)
    async with (
        broker.reader.subscribe(key, START) as old,
        broker.reader.subscribe(key, newer) as new,
    ):
        await write(broker, "s", 1)
        writer = await broker.streams.input_writer("s", TICKET + 1)
        await writer.append(chunk(2))
        assert await take(new, 1) == [2]
        assert await take(old, 1) == [1]
        assert (old.unread, new.unread) == (0, 0)


async def test_entries_of_an_older_session_with_the_same_id_are_not_delivered(
    broker: Broker,
) -> None:
    await write(broker, "s", 1)
    newer = StreamPosition.before(TICKET + 1)
    async with broker.reader.subscribe(broker.keys.inbound("s"), newer) as subscription:
        writer = await broker.streams.input_writer("s", TICKET + 1)
        await writer.append(chunk(2))
        assert await take(subscription, 1) == [2]


@pytest.mark.one_redis
async def test_a_slow_subscriber_ends_after_the_entries_before_the_overflow(broker: Broker) -> None:
    key = broker.keys.inbound("s")
    async with (
        broker.reader.subscribe(key, START, limit=3) as slow,
        broker.reader.subscribe(key, START) as quick,
    ):
        await write(broker, "s", *range(10))
        assert await take(quick, 10) == list(range(10))
        assert slow.overflowed
        assert not quick.overflowed
        assert await take(slow, 3) == [0, 1, 2]
        for _ in range(2):
            with pytest.raises(StopAsyncIteration):
                await anext(slow)


async def test_an_unreadable_entry_is_skipped(broker: Broker, raw: Redis) -> None:
    key = broker.keys.inbound("s")
    await raw.xadd(key, {"h": "no json"}, id=StreamPosition(TICKET, 1, 1).id())
    async with broker.reader.subscribe(key, START) as subscription:
        writer = await broker.streams.input_writer("s", TICKET)
        await writer.append(chunk(5))
        assert await take(subscription, 1) == [5]


async def test_closing_the_last_subscription_closes_the_connection(
    broker: Broker, raw: Redis
) -> None:
    async with broker.reader.subscribe(broker.keys.inbound("a"), START) as staying:
        async with broker.reader.subscribe(broker.keys.inbound("b"), START):
            pass
        await write(broker, "b", 1)
        await write(broker, "a", 2)
        assert await take(staying, 1) == [2]
        assert list(broker.reader._reads[0].streams) == [broker.keys.inbound("a")]
    await broker.reader.close()
    assert not [t for t in asyncio.all_tasks() if t.get_name().startswith("stream-read")]


@pytest.mark.one_redis
async def test_subscribing_and_closing_leaks_nothing(broker: Broker) -> None:
    await write(broker, "s", 1)

    async def visit(ticks: int) -> None:
        async with broker.reader.subscribe(broker.keys.inbound("s"), START) as subscription:
            if ticks % 2:
                await take(subscription, 1)
            for _ in range(ticks):
                await asyncio.sleep(0)

    async with asyncio.timeout(90):
        for ticks in range(25):
            await visit(ticks)
            await asyncio.gather(*(visit(n) for n in range(ticks)))
        await broker.reader.close()
    assert not broker.reader._closing
    assert not [t for t in asyncio.all_tasks() if t.get_name().startswith("stream-read")]


@pytest.mark.one_redis
async def test_a_cancelled_reader_closes_its_subscription(broker: Broker) -> None:
    async def listen(sid: str) -> None:
        async with broker.reader.subscribe(broker.keys.inbound(sid), START) as subscription:
            async for _ in subscription:
                pass

    async with asyncio.timeout(90):
        for ticks in range(40):
            tasks = [asyncio.create_task(listen(f"s{i}")) for i in range(3)]
            for _ in range(ticks):
                await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
        await broker.reader.close()
    assert broker.reader._reads == []


@pytest.mark.single_server
async def test_a_dead_read_is_reported_to_all_its_subscriptions(broker: Broker, raw: Redis) -> None:
    wrong, fine = broker.keys.inbound("wrong"), broker.keys.inbound("fine")
    async with broker.reader.subscribe(fine, START) as neighbour:
        await write(broker, "fine", 1)
        assert await take(neighbour, 1) == [1]
        await raw.set(wrong, "no stream", ex=600)
        async with broker.reader.subscribe(wrong, START) as subscription:
            for listener in (subscription, neighbour, subscription):
                with pytest.raises(BrokerError, match="WRONGTYPE"):
                    await take(listener, 1)
            after = StreamPosition(TICKET, 1, 1)
            async with broker.reader.subscribe(fine, after) as again:
                await write(broker, "fine", 2)
                assert await take(again, 1) == [2]
    assert broker.reader._reads == []


async def test_a_restart_of_redis_loses_and_repeats_nothing(redis_server: RedisServer) -> None:
    settings = BrokerSettings(redis_url=redis_server.url)
    async with open_broker(settings) as broker, AsyncExitStack() as stack:
        logs = stack.enter_context(capture_logs())
        subscriptions = {
            sid: await stack.enter_async_context(
                broker.reader.subscribe(broker.keys.inbound(sid), START)
            )
            for sid in ("a", "b", "c")
        }
        half = asyncio.Event()

        async def talk(sid: str) -> None:
            writer = await broker.streams.input_writer(sid, TICKET)
            for number in range(200):
                await retry_until_available(lambda n=number: writer.append(chunk(n)), "write")
                if number == 100:
                    half.set()

        talking = [asyncio.create_task(talk(sid)) for sid in subscriptions]
        await half.wait()
        await asyncio.to_thread(redis_server.kill)
        await asyncio.to_thread(redis_server.start)
        for subscription in subscriptions.values():
            assert await take(subscription, 200, within_s=90) == list(range(200))
            assert subscription.unread == 0
        await asyncio.gather(*talking)
    assert "stream_read_failed" in {line["event"] for line in logs}


@pytest.fixture
def admin(redis_server: RedisServer) -> Iterator[BlockingRedis]:
    """One connection that stays open."""
    with BlockingRedis.from_url(redis_server.url, single_connection_client=True) as admin:
        admin.ping()
        yield admin


def refuse_connections(admin: BlockingRedis) -> None:
    """As a server does with `maxclients` clients. Those of blocking reads lose theirs."""
    admin.config_set("maxclients", 1)
    for client in admin.client_list():
        if client["cmd"] == "xread":
            admin.client_kill_filter(_id=client["id"])


async def test_reads_that_fail_while_redis_answers_end_the_subscription(
    redis_server: RedisServer, admin: BlockingRedis
) -> None:
    async with (
        open_broker(BrokerSettings(redis_url=redis_server.url)) as broker,
        broker.reader.subscribe(broker.keys.inbound("s"), START, patience_s=0.5) as impatient,
        broker.reader.subscribe(broker.keys.inbound("s"), START) as patient,
    ):
        await write(broker, "s", 1)
        for subscription in (impatient, patient):
            assert await take(subscription, 1) == [1]
        refuse_connections(admin)
        with pytest.raises(BrokerUnavailable, match="max number of clients"):
            await take(impatient, 1)
        await asyncio.to_thread(admin.config_set, "maxclients", 1000)
        await (await broker.streams.input_writer("s", TICKET)).append(chunk(2))
        assert await take(patient, 1) == [2]


@pytest.mark.one_redis
async def test_an_outage_ends_no_subscription(redis_server: RedisServer) -> None:
    """Other calls fail as well: those who make them decide what an outage means."""
    async with (
        open_broker(BrokerSettings(redis_url=redis_server.url)) as broker,
        broker.reader.subscribe(broker.keys.inbound("s"), START, patience_s=0.5) as subscription,
    ):
        await write(broker, "s", 1)
        assert await take(subscription, 1) == [1]
        await asyncio.to_thread(redis_server.stop)
        with pytest.raises(TimeoutError):
            await take(subscription, 1, within_s=2.0)
        await asyncio.to_thread(redis_server.start)
        await retry_until_available(lambda: write(broker, "s", 2), "write")
        assert await take(subscription, 1) == [2]


@pytest.mark.single_server
@pytest.mark.parametrize("stays", [True, False])
async def test_a_subscription_made_during_a_read_misses_nothing(
    broker: Broker, raw: Redis, settings: BrokerSettings, stays: bool
) -> None:
    """A read for another subscription returns before the new one is part of any read."""
    key = broker.keys.inbound("s")
    writer = await broker.streams.input_writer("s", TICKET)
    for number in range(3):
        await writer.append(chunk(number))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(broker.reader.subscribe(broker.keys.inbound("idle"), START))
        leaving = await stack.enter_async_context(AsyncExitStack())
        first = await leaving.enter_async_context(broker.reader.subscribe(key, writer.last))
        await until_blocked(raw)
        with BlockingRedis.from_url(settings.redis_url) as blocking:
            at_once = pack(chunk(3))
            fields = dict(zip(at_once[::2], at_once[1::2], strict=True))
            blocking.xadd(key, fields, id=writer.last._replace(n=writer.last.n + 1).id())
        if not stays:
            await leaving.aclose()
        late = await stack.enter_async_context(broker.reader.subscribe(key, START))
        assert await take(late, 4) == [0, 1, 2, 3]
        if stays:
            assert await take(first, 1) == [3]


@pytest.mark.one_redis
async def test_a_reader_that_pauses_catches_up_without_pauses(redis_server: RedisServer) -> None:
    settings = BrokerSettings(redis_url=redis_server.url)
    async with open_broker(settings, read_pause_s=10 * SOON_S) as broker:
        await write(broker, "long", *range(40))
        async with broker.reader.subscribe(broker.keys.inbound("long"), START) as subscription:
            assert await take(subscription, 40) == list(range(40))
