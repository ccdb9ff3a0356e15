import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from redis.asyncio import Redis
from structlog.testing import capture_logs

from antiphon.broker import events
from antiphon.broker.client import Broker
from antiphon.broker.events import EventGroup, EventWatch
from antiphon.broker.service.logs import LogLimit
from antiphon.shared_schemas.registry import SessionCommand, SessionEvent
from antiphon.shared_schemas.states import EndReason, SessionKind, SessionState
from support.control_plane import AUDIO, activate, claim, join, serve

pytestmark = pytest.mark.on_cluster

GROUP = "recorders"


@pytest.fixture(autouse=True)
def short_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short blocking reads; the results do not depend on the duration."""
    monkeypatch.setattr(events, "LONGEST_BLOCK_MS", 50)


@asynccontextmanager
async def watching(broker: Broker) -> AsyncIterator[EventWatch]:
    watch = await broker.events.watch()
    try:
        yield watch
    finally:
        await watch.close()


@asynccontextmanager
async def member(broker: Broker, consumer: str) -> AsyncIterator[EventGroup]:
    group = await broker.events.join_group(GROUP, consumer)
    try:
        yield group
    finally:
        await group.close()


async def read_all(read: Callable[[], Awaitable[list[SessionEvent]]]) -> list[SessionEvent]:
    found: list[SessionEvent] = []
    while events := await read():
        found += events
    return found


def states(events: list[SessionEvent]) -> list[tuple[str, SessionState]]:
    return [(event.sid, event.state) for event in events]


async def test_a_watch_sees_every_transition_from_now_on(broker: Broker) -> None:
    await join(broker, "before")
    async with watching(broker) as watch:
        await serve(broker)
        ticket = await join(broker, "a")
        await broker.sessions.end("before", EndReason.CANCELLED)
        held = await claim(broker)
        await activate(broker, held)
        await broker.leases.move("a", "w1", 1, SessionState.PAUSED)
        await broker.leases.give_back("a", "w1", 1)
        await broker.sessions.end("a", EndReason.STOPPED)
        events = await read_all(watch.read)
    assert states(events) == [
        ("a", SessionState.QUEUED),
        ("before", SessionState.ENDED),
        ("a", SessionState.ASSIGNED),
        ("a", SessionState.PREPARING),
        ("a", SessionState.ACTIVE),
        ("a", SessionState.PAUSED),
        ("a", SessionState.RECOVERING),
        ("a", SessionState.ENDED),
    ]
    last = events[-1]
    assert (last.ticket, last.epoch, last.attempt, last.worker) == (ticket.number, 1, 1, "w1")
    assert (last.edge, last.recording, last.reason) == ("edge-1", "rec-a", EndReason.STOPPED)
    assert [event.reason for event in events[2:-1]] == [None] * 5
    assert [event.at for event in events] == sorted(event.at for event in events)


async def test_an_event_ends_a_blocking_read(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "LONGEST_BLOCK_MS", 20_000)
    async with watching(broker) as watch, asyncio.timeout(60):
        reading = asyncio.create_task(watch.read())
        await join(broker, "a")
        assert states(await reading) == [("a", SessionState.QUEUED)]


async def test_past_events_are_read_in_pages(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_HISTORY_PAGE", 3)
    for i in range(8):
        await join(broker, f"s{i}")
    past = [event async for event in broker.events.since("0-0")]
    assert [event.sid for event in past] == [f"s{i}" for i in range(8)]
    rest = [event.sid async for event in broker.events.since(past[5].id)]
    assert rest == ["s6", "s7"]


async def test_the_newest_events_of_a_session_are_read_in_pages(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_HISTORY_PAGE", 2)
    await serve(broker)
    await join(broker, "s1")
    await activate(broker, await claim(broker))
    for number in range(5):
        await join(broker, f"other-{number}")
    newest = await broker.events.recent(2, sid="s1")
    assert states(newest) == [("s1", SessionState.PREPARING), ("s1", SessionState.ACTIVE)]
    assert len(await broker.events.recent(10, sid="s1")) == 4
    assert await broker.events.recent(10, sid="s2") == []


async def test_an_event_of_another_version_is_skipped(
    broker: Broker, raw: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_LOG_LIMIT", LogLimit())
    async with watching(broker) as watch, member(broker, "c1") as group:
        await raw.xadd(broker.keys.events, {"sid": "x", "state": "levitating"})
        await join(broker, "a")
        with capture_logs() as logs:
            assert states(await read_all(watch.read)) == [("a", SessionState.QUEUED)]
            assert states(await group.read()) == [("a", SessionState.QUEUED)]
    assert [line["event"] for line in logs] == ["event_unreadable"]


async def test_a_group_begins_with_the_oldest_event_and_is_created_once(broker: Broker) -> None:
    await join(broker, "a")
    async with member(broker, "c1") as one:
        assert states(await one.read()) == [("a", SessionState.QUEUED)]
        await one.create()
        async with member(broker, "c2") as two:
            assert await one.read() == []
            assert await two.read() == []


async def test_events_of_a_dead_member_are_taken_over_until_they_are_acked(broker: Broker) -> None:
    for sid in "abc":
        await join(broker, sid)
    async with member(broker, "dies") as dead:
        first, second, _ = await dead.read()
        await dead.ack(first.id)
    async with member(broker, "lives") as successor:
        assert await successor.read() == []
        assert await successor.reclaim(60_000) == []
        taken = await successor.reclaim(0)
        assert [event.sid for event in taken] == ["b", "c"]
        await successor.ack(second.id)
        await successor.ack()
        assert [event.sid for event in await successor.reclaim(0)] == ["c"]


async def test_many_pending_events_are_all_taken_over(broker: Broker) -> None:
    for i in range(250):
        await join(broker, f"s{i}")
    async with member(broker, "dies") as dead:
        assert len(await read_all(dead.read)) == 250
    async with member(broker, "lives") as successor:
        taken = await successor.reclaim(0)
    assert [event.sid for event in taken] == [f"s{i}" for i in range(250)]


async def test_touch_reports_events_that_another_consumer_took_over(broker: Broker) -> None:
    for sid in "abc":
        await join(broker, sid)
    async with member(broker, "stalled") as stalled, member(broker, "heir") as successor:
        a, b, c = await stalled.read()
        await stalled.ack(c.id)
        await successor.reclaim(0)
        assert await stalled.touch([a.id, b.id, c.id]) == {a.id, b.id}
        assert await successor.touch([a.id, b.id]) == set()
        assert await successor.touch([]) == set()
        assert await stalled.reclaim(60_000) == []


async def test_f27_a_jump_of_the_clock_makes_no_consumer_silent(broker: Broker, raw: Redis) -> None:
    """All transitions seem to be idle for an hour. Those of the future, which seem to be idle for 0 ms,
    are restarted alone: a consumer that starts has seen no jump."""
    for sid in "ab":
        await join(broker, sid)
    async with member(broker, "lives") as living, member(broker, "heir") as successor:
        ids = [event.id for event in await living.read()]
        head = (broker.keys.events, GROUP, "lives", 0)
        await raw.xclaim(*head, ids, idle=3_600_000)
        await successor.restart_timers()
        assert await successor.reclaim(60_000) == []
        assert await living.touch(ids) == set()
        await raw.xclaim(*head, ids, idle=3_600_000)
        await successor.restart_timers(longest_idle_ms=0)
        assert [event.sid for event in await successor.reclaim(60_000)] == ["a", "b"]


async def test_released_events_are_taken_over_at_any_age(broker: Broker) -> None:
    await join(broker, "a")
    async with member(broker, "leaves") as leaving, member(broker, "heir") as successor:
        await leaving.read()
        await leaving.release()
        assert [event.sid for event in await successor.reclaim(60_000)] == ["a"]


async def test_pending_events_that_were_trimmed_are_skipped(broker: Broker, raw: Redis) -> None:
    for sid in "abc":
        await join(broker, sid)
    async with member(broker, "c1") as group:
        assert len(await group.read()) == 3
        await raw.xtrim(broker.keys.events, maxlen=1, approximate=False)
        assert [event.sid for event in await group.reclaim(0)] == ["c"]
        await join(broker, "d")
        assert [event.sid for event in await group.read()] == ["d"]


async def test_a_group_that_redis_lost_is_created_again(broker: Broker, raw: Redis) -> None:
    async with member(broker, "c1") as group:
        await join(broker, "a")
        (event,) = await group.read()
        await raw.delete(broker.keys.events)
        assert await group.read() == []
        assert await group.reclaim(0) == []
        assert await group.touch([event.id]) == set()
        await group.ack(event.id)
        await join(broker, "b")
        assert [event.sid for event in await group.read()] == ["b"]


async def test_a_watch_continues_after_redis_lost_the_stream(broker: Broker, raw: Redis) -> None:
    async with watching(broker) as watch:
        await join(broker, "a")
        assert len(await watch.read()) == 1
        await raw.delete(broker.keys.events)
        await join(broker, "b")
        assert states(await watch.read()) == [("b", SessionState.QUEUED)]


async def test_a_command_reaches_an_active_session_and_keeps_its_state(broker: Broker) -> None:
    await serve(broker)
    ticket = await join(broker, "adx_1")
    held = await claim(broker)
    await activate(broker, held)
    async with watching(broker) as watch:
        assert await broker.sessions.send_command("adx_1", AUDIO, SessionCommand.INTERRUPT)
        [event] = await watch.read()
    assert (event.sid, event.ticket, event.ask) == (
        "adx_1",
        ticket.number,
        SessionCommand.INTERRUPT,
    )
    assert event.state is SessionState.ACTIVE
    row = await broker.sessions.get("adx_1")
    assert row is not None
    assert row.state is SessionState.ACTIVE


async def test_no_other_session_receives_the_command(broker: Broker) -> None:
    assert not await broker.sessions.send_command("unknown", AUDIO, SessionCommand.INTERRUPT)
    await serve(broker)
    await join(broker, "adx_1")
    assert not await broker.sessions.send_command(
        "adx_1", AUDIO, SessionCommand.INTERRUPT
    )  # it waits
    await activate(broker, await claim(broker))
    assert not await broker.sessions.send_command(
        "adx_1", SessionKind.HALF_DUPLEX, SessionCommand.INTERRUPT
    )
