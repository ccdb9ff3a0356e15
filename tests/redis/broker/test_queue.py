import asyncio

import pytest
from redis.asyncio import Redis

from antiphon.broker.client import Broker
from antiphon.shared_schemas.registry import Ticket
from antiphon.shared_schemas.states import EndReason, SessionState, WaitReason
from support.control_plane import AUDIO, EDGE, OMNI, claim, join, serve

pytestmark = pytest.mark.on_cluster


async def test_join_reports_whether_a_session_must_wait(broker: Broker) -> None:
    assert (await join(broker, "not-served")).wait
    await broker.sessions.end("not-served", EndReason.CANCELLED)
    await serve(broker, "w1", AUDIO, slots=2)
    assert not (await join(broker, "first")).wait
    assert not (await join(broker, "second")).wait
    assert (await join(broker, "third")).wait
    await serve(broker, "closing", OMNI, slots=2, is_open=False)
    assert (await join(broker, "another-kind", OMNI)).wait


async def test_the_row_of_a_queued_session(broker: Broker) -> None:
    ticket = await broker.queue.join("adx_1", AUDIO, edge=EDGE, recording="secret")
    row = await broker.sessions.get("adx_1")
    assert row is not None
    assert (row.kind, row.state, row.ticket) == (AUDIO, SessionState.QUEUED, ticket.number)
    assert (row.epoch, row.attempt, row.edge, row.worker) == (0, 1, EDGE, "")
    assert (row.recording, row.config) == ("secret", {})
    assert row.assigned_at is row.ended_at is row.reason is None
    assert await broker.sessions.get("unknown") is None


async def test_a_reused_id_does_not_expire_with_its_earlier_session(
    broker: Broker, raw: Redis
) -> None:
    await join(broker, "s")
    await broker.sessions.end("s", EndReason.STOPPED)
    assert 0 < await raw.ttl(broker.keys.session("s")) <= 3600
    await join(broker, "s")
    assert await raw.ttl(broker.keys.session("s")) == -1
    row = await broker.sessions.get("s")
    assert row is not None
    assert (row.ended_at, row.reason) == (None, None)


async def test_tickets_are_not_reused_after_redis_has_lost_its_data(
    broker: Broker, raw: Redis
) -> None:
    async def lose_everything() -> None:
        async for key in raw.scan_iter(f"{broker.keys.control}*"):
            await raw.delete(key)
        await asyncio.sleep(0.002)  # a server does not lose its data faster

    numbers: list[int] = []
    for sid in ("a", "b", "c"):
        ticket: Ticket = await join(broker, sid)
        numbers.append(ticket.number)
        await lose_everything()
    assert numbers == sorted(set(numbers))


async def test_tickets_are_not_reused_after_redis_has_lost_its_newest_writes(
    broker: Broker, raw: Redis
) -> None:
    """As on a replica that becomes the master."""
    await join(broker, "a")
    counter = await raw.get(broker.keys.tickets)
    lost = await join(broker, "b")
    await raw.zrem(broker.keys.queue, "b")
    await raw.delete(broker.keys.session("b"))
    await raw.set(broker.keys.tickets, counter)
    await asyncio.sleep(0.01)  # shorter than any election
    assert (await join(broker, "c")).number > lost.number


async def test_a_snapshot_lists_the_queue_the_running_sessions_and_the_workers(
    broker: Broker,
) -> None:
    await broker.eta.configure({AUDIO: 10.0})
    await serve(broker, "w1", AUDIO, slots=1)
    for sid in "abc":
        await join(broker, sid)
    held = await claim(broker)
    snapshot = await broker.queue.snapshot()
    assert [(w.sid, w.kind, w.position) for w in snapshot.waiting] == [
        ("b", AUDIO, 1),
        ("c", AUDIO, 2),
    ]
    (running,) = snapshot.running
    assert (running.sid, running.worker, running.state) == ("a", "w1", SessionState.ASSIGNED)
    assert running.assigned_at <= snapshot.at
    (worker,) = snapshot.workers
    assert (worker.id, worker.slots, worker.used, worker.kinds) == ("w1", 1, 1, {AUDIO})
    assert (worker.engine, worker.counters, worker.open) == ("test", {"units": 3.0}, True)
    first, second = (row.eta_s for row in snapshot.waiting)
    assert first is not None
    served_s = (snapshot.at - running.assigned_at) / 1000
    assert first == pytest.approx(max(0.0, 10.0 - served_s), abs=0.01)
    assert second == pytest.approx(first + 10.0)
    assert held.ticket < min(row.ticket for row in snapshot.waiting)


async def test_a_snapshot_says_why_a_session_has_no_estimate(broker: Broker) -> None:
    async def estimates() -> list[tuple[float | None, WaitReason | None]]:
        return [(row.eta_s, row.reason) for row in (await broker.queue.snapshot()).waiting]

    await join(broker, "a", OMNI)
    assert await estimates() == [(None, WaitReason.NO_WORKER)]
    await serve(broker, "w1", AUDIO)
    assert await estimates() == [(None, WaitReason.KIND_NOT_SERVED)]
    await serve(broker, "w2", OMNI)
    assert await estimates() == [(0.0, None)]
    await broker.registry.worker_gone("w2")
    assert await estimates() == [(None, WaitReason.KIND_NOT_SERVED)]
