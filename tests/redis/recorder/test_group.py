"""The recorder's consumer group: which replica owns a transition, and how ownership moves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from antiphon.broker.client import Broker
from antiphon.broker.events import EventGroup
from antiphon.shared_schemas.states import EndReason, SessionState
from support.recorder_conversations import LiveTalk


@asynccontextmanager
async def member(broker: Broker, name: str) -> AsyncIterator[EventGroup]:
    group = await broker.events.join_group("recorder", name)
    try:
        yield group
    finally:
        await group.close()


async def test_touch_keeps_owned_transitions_and_returns_the_others(broker: Broker) -> None:
    for _ in range(3):
        await LiveTalk.queue(broker)
    async with member(broker, "a") as a, member(broker, "b") as b:
        first, second, third = [event.id for event in await a.read()]
        assert await a.touch([first, second, third]) == set()
        assert await b.reclaim(60_000) == []
        assert len(await b.reclaim(0)) == 3
        assert await a.touch([first, second, third]) == {first, second, third}
        await b.ack(first)
        assert await a.touch([first, second]) == {second}  # an acknowledged one is not taken over
        assert await b.touch([second, third]) == set()


async def test_released_transitions_are_found_at_once(broker: Broker) -> None:
    talk = await LiveTalk.queue(broker)
    async with member(broker, "a") as a, member(broker, "b") as b:
        await a.read()
        await a.release()
        (event,) = await b.reclaim(60_000)
        assert (event.sid, event.state) == (talk.sid, SessionState.QUEUED)


async def test_reclaim_finds_every_pending_transition(broker: Broker) -> None:
    key = broker.keys.events
    fields = ("sid", "s", "state", "queued", "kind", "chat", "ticket", 1, "epoch", 0)
    rest = ("attempt", 1, "edge", "e", "worker", "", "recording", "r", "at", 1)
    for _ in range(2500):
        await broker._redis.call("XADD", key, "*", *fields, *rest)
    async with member(broker, "a") as a, member(broker, "b") as b:
        read = 0
        while read < 2500:
            read += len(await a.read())
        assert len(await b.reclaim(0)) == 2500


async def test_a_group_that_was_lost_is_created_again(broker: Broker) -> None:
    async with member(broker, "a") as a:
        await broker._redis.call("DEL", broker.keys.events)
        assert await a.reclaim(0) == []
        await broker._redis.call("DEL", broker.keys.events)
        assert await a.touch(["1-1"]) == set()
        await broker._redis.call("DEL", broker.keys.events)
        assert await a.read() == []
        talk = await LiveTalk.queue(broker)
        assert [event.sid for event in await a.read()] == [talk.sid]


async def test_past_events_begin_after_the_one_named(broker: Broker) -> None:
    talk = await LiveTalk.begin(broker)
    await talk.end(EndReason.STOPPED)
    everything = [event async for event in broker.events.since("0-0")]
    assert [event.state for event in everything] == ["queued", "assigned", "ended"]
    rest = [event.id async for event in broker.events.since(everything[0].id)]
    assert rest == [event.id for event in everything[1:]]
