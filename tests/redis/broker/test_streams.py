import asyncio
import time
from collections.abc import AsyncIterator, Hashable
from itertools import count
from types import SimpleNamespace

import pytest
from redis.asyncio import Redis
from structlog.testing import capture_logs

from antiphon.broker import streams
from antiphon.broker.client import Broker, open_broker
from antiphon.broker.errors import BrokerUnavailable, StaleFence
from antiphon.broker.settings import BrokerSettings
from antiphon.broker.streams import StreamWriter
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.entries import (
    ChunkIn,
    Entry,
    PastSteps,
    PauseIn,
    PrepareIn,
    ResumeIn,
    StopIn,
    StoppedOut,
    StreamPosition,
)
from antiphon.shared_schemas.states import EndReason
from support.control_plane import join, now_ms, reap
from support.tcp_proxy import TcpProxy

pytestmark = pytest.mark.on_cluster

DAY_S = 86_400
SID = "adx_1"
TICKET = 1_700_000_000_000
Item = tuple[StreamPosition, Entry]


def chunk(number: int) -> ChunkIn:
    return ChunkIn(audio=number.to_bytes(4, "little"), frames=(b"jpeg",) * (number % 3))


def number_of(entry: Entry) -> int:
    assert isinstance(entry, ChunkIn)
    return int.from_bytes(entry.audio, "little")


async def history(broker: Broker, ticket: int = TICKET, sid: str = SID) -> list[Item]:
    return [item async for item in broker.streams.history(broker.keys.inbound(sid), ticket)]


@pytest.fixture
async def lossy_broker(settings: BrokerSettings, proxy: TcpProxy) -> AsyncIterator[Broker]:
    """A broker whose connection can lose a reply; `broker` reads the same keys without faults."""
    way = {"redis_url": f"redis://{proxy.address}/0"}
    async with open_broker(settings.model_copy(update=way)) as opened:
        yield opened


async def test_entries_are_numbered_stamped_and_kept(broker: Broker, raw: Redis) -> None:
    writer = await broker.streams.input_writer(SID, TICKET)
    before = await now_ms(raw)
    positions = [await writer.append(chunk(i)) for i in range(3)]
    after = await now_ms(raw) + 1
    assert positions == [StreamPosition(TICKET, 1, n) for n in (1, 2, 3)]
    assert writer.last.n == 3
    found = await history(broker)
    assert [position for position, _ in found] == positions
    assert [number_of(entry) for _, entry in found] == [0, 1, 2]
    # The offset of the clock is known to half a round trip, which takes long on a busy machine.
    assert all(before - 500 <= entry.at <= after + 500 for _, entry in found)


async def test_entries_have_a_second_time_that_does_not_jump_with_the_clock(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process stops for a second whenever it reads the time: both times are of one moment."""
    readings = count(time.monotonic())
    writer = await broker.streams.input_writer(SID, TICKET)
    monkeypatch.setattr(
        "antiphon.broker.clock.time", SimpleNamespace(monotonic=lambda: next(readings))
    )
    stamps = broker.clock.stamps()
    before = stamps["at"] - stamps["host_at"]
    for step in (0.0, 90_000.0, -30_000.0):
        broker.clock.offset_ms += step
        await writer.append(chunk(1))
    found = [entry for _, entry in await history(broker)]
    jumped = [entry.at - entry.host_at - before for entry in found]
    assert jumped == pytest.approx([0.0, 90_000.0, 60_000.0], abs=0.01)
    times = [entry.host_at for entry in found]
    assert times == sorted(times)
    assert abs(times[0] - time.time() * 1000) < 60_000


async def test_the_two_directions_are_separate_streams(broker: Broker) -> None:
    ins = await broker.streams.input_writer(SID, TICKET)
    outs = await broker.streams.output_writer(SID, TICKET, 1)
    await ins.append(StopIn())
    await outs.append(StoppedOut())
    key = broker.keys.outbound(SID)
    found = [type(entry) async for _, entry in broker.streams.history(key, TICKET)]
    assert found == [StoppedOut]
    assert [type(entry) for _, entry in await history(broker)] == [StopIn]


async def test_the_next_epoch_continues_the_count_and_fences_the_older_one(broker: Broker) -> None:
    old = await broker.streams.output_writer(SID, TICKET, 1)
    await old.append(StoppedOut())
    new = await broker.streams.output_writer(SID, TICKET, 2)
    with pytest.raises(StaleFence):
        await old.append(StoppedOut())  # though the new epoch has no entry yet
    assert await new.append(StoppedOut()) == StreamPosition(TICKET, 2, 2)
    with pytest.raises(StaleFence):
        await old.append(StoppedOut())
    with pytest.raises(StaleFence, match="newer writer"):
        await broker.streams.output_writer(SID, TICKET, 1)


async def test_a_fence_holds_on_an_empty_stream(broker: Broker) -> None:
    old = await broker.streams.output_writer(SID, TICKET, 1)
    new = await broker.streams.output_writer(SID, TICKET, 2)
    with pytest.raises(StaleFence):
        await old.append(StoppedOut())
    assert (await new.append(StoppedOut())).n == 1


async def test_a_writer_reopened_with_its_epoch_continues_the_count(broker: Broker) -> None:
    writer = await broker.streams.input_writer(SID, TICKET)
    for number in range(3):
        await writer.append(chunk(number))
    again = await broker.streams.input_writer(SID, TICKET)
    assert again.last.n == 3
    assert await again.append(chunk(3)) == StreamPosition(TICKET, 1, 4)


async def test_a_stream_that_was_only_opened_is_empty(broker: Broker, raw: Redis) -> None:
    key = broker.keys.outbound(SID)
    after = StreamPosition.before(TICKET)
    async with broker.reader.subscribe(key, after) as subscription:
        with capture_logs() as logs:
            writer = await broker.streams.output_writer(SID, TICKET, 1)
            assert await raw.xlen(key) == 0
            assert await raw.ttl(key) > DAY_S
            await writer.append(StoppedOut())
            async with asyncio.timeout(60):
                assert isinstance((await anext(subscription))[1], StoppedOut)
    assert logs == []


async def test_a_second_writer_of_the_same_epoch_is_fenced(broker: Broker) -> None:
    one = await broker.streams.input_writer(SID, TICKET)
    two = await broker.streams.input_writer(SID, TICKET)
    await one.append(chunk(1))
    with pytest.raises(StaleFence):
        await two.append(chunk(1))
    assert len(await history(broker)) == 1


async def test_discarding_keeps_the_fence(broker: Broker) -> None:
    writer = await broker.streams.output_writer(SID, TICKET, 1)
    await writer.append(StoppedOut())
    newer = await broker.streams.output_writer(SID, TICKET, 2)
    await newer.append(StoppedOut())
    await broker.streams.discard(SID, TICKET)
    with pytest.raises(StaleFence):
        await writer.append(StoppedOut())
    key = broker.keys.outbound(SID)
    assert [item async for item in broker.streams.history(key, TICKET)] == []


async def test_discarding_keeps_a_newer_session_of_the_same_id(broker: Broker) -> None:
    old = await broker.streams.input_writer(SID, TICKET)
    await old.append(chunk(1))
    new = await broker.streams.input_writer(SID, TICKET + 1)
    assert await new.append(chunk(2)) == StreamPosition(TICKET + 1, 1, 1)
    await broker.streams.discard(SID, TICKET)
    assert await history(broker, TICKET) == []
    assert [number_of(entry) for _, entry in await history(broker, TICKET + 1)] == [2]
    with pytest.raises(StaleFence):
        await old.append(chunk(3))
    with pytest.raises(StaleFence, match="newer writer"):
        await broker.streams.input_writer(SID, TICKET)


async def test_discarding_a_missing_stream_is_harmless(broker: Broker, raw: Redis) -> None:
    await broker.streams.discard("never", TICKET)
    assert not await raw.exists(broker.keys.inbound("never"), broker.keys.outbound("never"))


async def test_history_is_read_in_pages_from_any_position(broker: Broker) -> None:
    writer = await broker.streams.input_writer(SID, TICKET)
    for number in range(150):
        await writer.append(chunk(number))
    assert [number_of(entry) for _, entry in await history(broker)] == list(range(150))
    after = StreamPosition(TICKET, 1, 130)
    key = broker.keys.inbound(SID)
    rest = [entry async for _, entry in broker.streams.history(key, TICKET, after)]
    assert [number_of(entry) for entry in rest] == list(range(130, 150))


async def test_history_skips_unreadable_entries(broker: Broker, raw: Redis) -> None:
    writer = await broker.streams.input_writer(SID, TICKET)
    await writer.append(chunk(0))
    odd = StreamPosition(TICKET, 1, 2)
    await raw.xadd(broker.keys.inbound(SID), {"h": '{"type":"future"}'}, id=odd.id())
    later = await broker.streams.input_writer(SID, TICKET, 2)
    await later.append(chunk(1))
    assert [number_of(entry) for _, entry in await history(broker)] == [0, 1]


async def test_a_stream_expires_some_time_after_the_end(
    broker: Broker, raw: Redis, settings: BrokerSettings
) -> None:
    """A jump of Redis' clock by a day leaves the streams of an open session in place."""
    streams, key = broker.streams, broker.keys.inbound(SID)
    writer = await streams.input_writer(SID, TICKET)
    for end in (streams.expire, streams.discard):
        await writer.append(chunk(0))
        assert await raw.ttl(key) > DAY_S
        await end(SID, TICKET - 1)
        assert await raw.ttl(key) > DAY_S
        await end(SID, TICKET)
        await writer.append(chunk(0))
        assert 0 < await raw.ttl(key) <= settings.stream_ttl_s
        writer = await streams.input_writer(SID, TICKET, writer.last.epoch + 1)


async def test_the_end_of_a_session_reaches_its_streams(
    settings: BrokerSettings, raw: Redis
) -> None:
    """The process that ends it may stop at once. The reaper ends a session whose row is malformed."""
    async with open_broker(settings) as broker:
        numbers = {sid: (await join(broker, sid)).number for sid in ("adx_1", "adx_2")}
        for sid, number in numbers.items():
            await broker.streams.input_writer(sid, number)

    async def expires(sid: str) -> bool:
        return 0 < await raw.ttl(broker.keys.inbound(sid)) <= settings.stream_ttl_s

    async with open_broker(settings) as broker:
        assert not await broker.sessions.end("adx_1", EndReason.STOPPED, ticket=1)
        assert await broker.sessions.end("adx_1", EndReason.STOPPED, ticket=numbers["adx_1"])
    assert await expires("adx_1")
    async with open_broker(settings) as broker:
        await raw.zadd(broker.keys.leases, {"adx_2": 1})
        await raw.hdel(broker.keys.session("adx_2"), "attempt")
        assert await reap(broker, raw) == (0, 1)
        assert not await expires("adx_2")
    assert await expires("adx_2")


async def test_the_streams_of_an_ended_session_expire_after_a_minute(
    broker: Broker, raw: Redis, settings: BrokerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A jump of the clock right after the end costs the recorder nothing."""
    key = broker.keys.inbound(SID)
    await broker.streams.input_writer(SID, TICKET)
    broker.streams.expire_later(SID, TICKET)
    await broker.streams.expire_ended()
    assert await raw.ttl(key) > DAY_S
    broker.streams._ended.clear()
    monkeypatch.setattr(streams, "_RECORDED_S", -1.0)
    broker.streams.expire_later(SID, TICKET)
    await broker.streams.expire_ended()
    assert 0 < await raw.ttl(key) <= settings.stream_ttl_s


async def test_a_stream_that_was_deleted_is_recreated_with_a_ttl(
    broker: Broker, raw: Redis
) -> None:
    writer = await broker.streams.input_writer(SID, TICKET)
    await writer.append(chunk(0))
    await raw.delete(broker.keys.inbound(SID))
    assert (await writer.append(chunk(1))).n == 2
    assert await raw.ttl(broker.keys.inbound(SID)) > DAY_S
    assert [number_of(entry) for _, entry in await history(broker)] == [1]


async def test_a_stream_is_trimmed_to_about_its_limit(settings: BrokerSettings, raw: Redis) -> None:
    async with open_broker(settings.model_copy(update={"stream_max_entries": 100})) as broker:
        writer = await broker.streams.input_writer(SID, TICKET)
        for number in range(350):
            await writer.append(chunk(number))
        found = [number_of(entry) for _, entry in await history(broker)]
    assert 100 <= len(found) <= 250
    assert found == list(range(350 - len(found), 350))


MIB = 2**20


def picture(number: int) -> ChunkIn:
    return ChunkIn(audio=number.to_bytes(4, "little"), frames=(bytes(MIB // 4),))


async def test_a_stream_is_trimmed_to_about_its_bytes(settings: BrokerSettings, raw: Redis) -> None:
    """A new writer trims what earlier writers have left at once."""
    key = ""
    async with open_broker(settings.model_copy(update={"stream_max_bytes": 2 * MIB})) as broker:
        first = await broker.streams.input_writer(SID, TICKET)
        key = broker.keys.inbound(SID)
        for number in range(20):
            await first.append(picture(number))
            assert await raw.memory_usage(key) < 3 * MIB
        kept = [number_of(entry) for _, entry in await history(broker)]
        assert kept == list(range(20 - len(kept), 20))
        assert len(kept) >= 6
        second = await broker.streams.input_writer(SID, TICKET, epoch=2)
        for number in range(20, 40):
            await second.append(picture(number))
            assert await raw.memory_usage(key) < 5 * MIB
        kept = [number_of(entry) for _, entry in await history(broker)]
        assert kept == list(range(40 - len(kept), 40))
        assert len(kept) >= 6


async def test_a_reused_id_does_not_trim_the_session_before(broker: Broker) -> None:
    """A recorder may still read it."""
    await (await broker.streams.input_writer(SID, TICKET)).append(chunk(1))
    again = await broker.streams.input_writer(SID, TICKET + 1)
    await again.append(chunk(2))
    assert [number_of(entry) for _, entry in await history(broker)] == [1]


async def lose_answer_to(writer: StreamWriter, proxy: TcpProxy, entry: Entry) -> None:
    proxy.lose_next_answer()
    with pytest.raises(BrokerUnavailable):
        await writer.append(entry)
    assert proxy.lost == 1


async def test_each_server_is_asked_once_whether_it_is_still_the_master(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    sids = [f"adx_{number}" for number in range(20)]
    writers = [await broker.streams.input_writer(sid, TICKET) for sid in (*sids, *sids)]
    redis = broker._redis
    master_id, asked = redis.master_id, list[Hashable]()

    async def count(key: str) -> bytes:
        asked.append(redis.group(key))
        return await master_id(key)

    monkeypatch.setattr(redis, "master_id", count)
    await broker.streams.restore()
    assert len(asked) == len(set(asked))
    assert set(asked) == {redis.group(writer.key) for writer in writers}


@pytest.mark.single_server
@pytest.mark.parametrize("first", [0, 3], ids=["first entry", "later entry"])
async def test_an_append_repeated_after_a_lost_reply_is_stored_once(
    broker: Broker, lossy_broker: Broker, proxy: TcpProxy, first: int
) -> None:
    writer = await lossy_broker.streams.input_writer(SID, TICKET)
    for number in range(first):
        await writer.append(chunk(number))
    await lose_answer_to(writer, proxy, chunk(first))
    assert len(await history(broker)) == first + 1  # Redis has stored it
    assert (await writer.append(chunk(first))).n == first + 1
    assert (await writer.append(chunk(first + 1))).n == first + 2
    assert [number_of(entry) for _, entry in await history(broker)] == list(range(first + 2))


@pytest.mark.single_server
async def test_an_abandoned_append_does_not_suppress_the_next_one(
    broker: Broker, lossy_broker: Broker, proxy: TcpProxy
) -> None:
    writer = await lossy_broker.streams.input_writer(SID, TICKET)
    for number in range(2):  # the second one opens the connection whose reply is lost
        await writer.append(chunk(number))
    await lose_answer_to(writer, proxy, PauseIn(timeout_s=1.0))
    assert (await writer.append(PauseIn(timeout_s=2.0))).n == 4
    await writer.append(ResumeIn())
    found = [entry for _, entry in await history(broker)]
    assert [type(entry) for entry in found] == [ChunkIn, ChunkIn, PauseIn, PauseIn, ResumeIn]
    assert [entry.timeout_s for entry in found if isinstance(entry, PauseIn)] == [1.0, 2.0]


async def test_the_past_keeps_its_prepare_when_older_steps_are_deleted(broker: Broker) -> None:
    streams, key = broker.streams, broker.keys.past(SID)
    prepare = PrepareIn(system_prompt="Hi.", config=DuplexConfig(), input_n=3)
    steps = [PastSteps(last_input="1-1", last_output="1-1", count=n, steps=[]) for n in range(3)]
    writer = await streams.past_writer(SID, TICKET, 1)
    first, *others = [await writer.append(entry) for entry in (prepare, *steps)]
    await streams.delete_past(SID, *others[:2])
    kept = [position async for position, _ in streams.history(key, TICKET)]
    assert kept == [first, others[2]]
    oldest = await streams.first(key, TICKET)
    assert isinstance(oldest, PrepareIn)
    assert (oldest.system_prompt, oldest.input_n) == ("Hi.", 3)
    assert await streams.first(key, TICKET + 1) is None
    await streams.past_writer(SID, TICKET, 2)
    with pytest.raises(StaleFence):  # a worker that continues late
        await writer.append(steps[0])
