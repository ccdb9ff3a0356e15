from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.states import EndReason, SessionState
from support.control_plane import (
    AUDIO,
    EDGE,
    activate,
    claim,
    expire_lease,
    join,
    now_ms,
    reap,
    report,
    serve,
    silence,
    used,
    waiting,
)

pytestmark = pytest.mark.on_cluster


@pytest.fixture
async def without_recovery(settings: BrokerSettings) -> AsyncIterator[Broker]:
    """A broker whose reaper ends recovering sessions at once."""
    async with open_broker(settings.model_copy(update={"recovery_timeout_s": 0.001})) as opened:
        yield opened


async def reason_of(broker: Broker, sid: str) -> EndReason | None:
    row = await broker.sessions.get(sid)
    assert row is not None
    assert (row.state is SessionState.ENDED) == (row.reason is not None)
    return row.reason


async def test_an_edge_that_shuts_down_ends_its_remaining_sessions(
    broker: Broker, raw: Redis
) -> None:
    await join(broker, "a")
    await broker.registry.edge_gone(EDGE)
    assert await reap(broker, raw) == (0, 1)
    assert await reason_of(broker, "a") is EndReason.EDGE_LOST


async def test_an_edge_is_registered_from_its_first_session(broker: Broker, raw: Redis) -> None:
    await join(broker, "a", edge="has-not-beaten-yet")
    assert await reap(broker, raw) == (0, 0)


async def test_an_edge_is_told_which_of_its_sessions_have_ended(broker: Broker) -> None:
    tickets = {sid: (await join(broker, sid)).number for sid in ("live", "ended", "replaced")}
    await broker.sessions.end("ended", EndReason.PAUSE_TIMEOUT)
    await broker.sessions.end("replaced", EndReason.STOPPED)
    await join(broker, "replaced")
    await broker.sessions.end("replaced", EndReason.ERROR)
    over = await broker.registry.edge_beat(
        EDGE, [*((sid, n, 0) for sid, n in tickets.items()), ("never-was", 5, 0)]
    )
    assert over.over == {"ended": EndReason.PAUSE_TIMEOUT, "replaced": None, "never-was": None}
    nothing = ({}, set(), {}, set())
    assert await broker.registry.edge_beat(EDGE, [("live", tickets["live"], 0)]) == nothing
    assert await broker.registry.edge_beat(EDGE, []) == nothing


async def test_the_sessions_of_a_silent_worker_have_places_in_the_queue(
    broker: Broker, raw: Redis
) -> None:
    """They stay with their worker until their leases expire."""
    serving = [(sid, (await join(broker, sid)).number, 0) for sid in "abcd"]
    await serve(broker, "silent", slots=2)
    await serve(broker, "alive")
    for worker in ("silent", "alive", "silent"):
        await claim(broker, worker)
    await silence(raw, broker.keys.workers, "silent", broker)
    await _ran_regularly(broker, raw)
    assert await broker.registry.edge_beat(EDGE, serving) == ({}, {"a", "c"}, {}, set())
    snapshot = await broker.queue.snapshot()
    assert [(row.sid, row.position) for row in snapshot.places] == [("a", 1), ("c", 2), ("d", 3)]
    one_worker = pytest.approx([120.0, 240.0, 360.0], abs=60)  # less the time of its session
    assert [row.eta_s for row in snapshot.places] == one_worker
    assert [(row.sid, row.position) for row in snapshot.waiting] == [("d", 1)]
    assert sorted(job.sid for job in snapshot.running) == ["a", "b", "c"]
    await serve(broker, "silent", slots=2)
    assert await broker.registry.edge_beat(EDGE, serving) == ({}, set(), {}, set())
    assert [row.sid for row in (await broker.queue.snapshot()).places] == ["d"]


@pytest.mark.parametrize("outage", [{"last": 1600}, {"regular_since": -5000}], ids=str)
async def test_no_worker_is_silent_after_an_outage(
    broker: Broker, raw: Redis, outage: dict[str, int]
) -> None:
    ticket = (await join(broker, "a")).number
    await serve(broker, "w1")
    await claim(broker)
    await silence(raw, broker.keys.workers, "w1", broker)
    await _ran_regularly(broker, raw, **outage)
    assert (await broker.registry.edge_beat(EDGE, [("a", ticket, 0)])).silent == set()
    assert (await broker.queue.snapshot()).places == ()


async def test_no_worker_is_silent_after_an_outage_that_the_reaper_does_not_notice(
    broker: Broker, raw: Redis
) -> None:
    """It lasted for 1.4 s, and the worker, whose heartbeat was due, tries again soon."""
    ticket = (await join(broker, "a")).number
    await serve(broker, "w1")
    await claim(broker)
    took_ms = 1000
    while took_ms > 300:  # a busy machine: look again
        at = await now_ms(raw)
        await raw.zadd(broker.keys.workers, {"w1": at - 2600})
        await _ran_regularly(broker, raw)
        silent = (await broker.registry.edge_beat(EDGE, [("a", ticket, 0)])).silent
        took_ms = await now_ms(raw) - at
    assert silent == set()


async def _ran_regularly(
    broker: Broker, raw: Redis, *, last: int = 0, regular_since: int = 60_000
) -> None:
    """Sets when the reaper ran last and since when it has run each second, in ms before now."""
    at = await now_ms(raw)
    times = {"last": at - last, "regular_since": at - regular_since}
    await raw.hset(broker.keys.reaper, mapping=times)


async def test_heartbeats_keep_the_slot_count_and_renew_the_rest(broker: Broker) -> None:
    await join(broker, "a")
    await serve(broker, "w1", AUDIO, slots=1)
    await claim(broker)
    await broker.registry.worker_beat("w1", report(slots=3, is_open=False))
    (row,) = (await broker.queue.snapshot()).workers
    assert (row.used, row.slots, row.open) == (1, 3, False)
    await broker.registry.worker_gone("w1")
    assert (await broker.queue.snapshot()).workers == ()


async def test_ending_a_session_of_a_worker_that_is_gone(broker: Broker, raw: Redis) -> None:
    await join(broker, "a")
    await serve(broker)
    await claim(broker)
    await broker.registry.worker_gone("w1")
    assert await broker.sessions.end("a", EndReason.STOPPED)
    assert not await raw.exists(broker.keys.worker("w1"))
    await serve(broker)
    assert await used(broker) == {"w1": 0}


async def test_a_session_that_no_worker_recovers_ends(without_recovery: Broker, raw: Redis) -> None:
    await join(without_recovery, "a")
    await join(without_recovery, "b")
    await serve(without_recovery)
    await activate(without_recovery, await claim(without_recovery))
    await expire_lease(without_recovery, raw, "a")
    assert await reap(without_recovery, raw) == (1, 0)
    await raw.hset(without_recovery.keys.session("a"), "recovering_at", await now_ms(raw) - 1000)
    assert await reap(without_recovery, raw) == (0, 1)
    assert await reason_of(without_recovery, "a") is EndReason.WORKER_LOST
    assert await waiting(without_recovery) == ["b"]


async def test_the_queue_entry_of_a_deleted_row_is_removed(broker: Broker, raw: Redis) -> None:
    await join(broker, "lost-in-queue")
    await join(broker, "b")
    await raw.delete(broker.keys.session("lost-in-queue"))
    assert await reap(broker, raw) == (0, 0)
    assert await raw.zrange(broker.keys.queue, 0, -1) == [b"b"]


async def test_upkeep_after_a_pause_ends_no_session(broker: Broker, raw: Redis) -> None:
    await join(broker, "held", edge="e1")
    await join(broker, "recovering", edge="e1")
    await join(broker, "queued", edge="e1")
    await serve(broker, slots=2)
    await claim(broker)
    await claim(broker)
    await broker.leases.give_back("recovering", "w1", 1)
    await expire_lease(broker, raw, "held")
    await silence(raw, broker.keys.edges, "e1", broker)
    await silence(raw, broker.keys.workers, "w1", broker)
    long_ago = await now_ms(raw) - 3_600_000
    await raw.hset(broker.keys.session("recovering"), "recovering_at", long_ago)
    await raw.hset(broker.keys.reaper, mapping={"last": long_ago, "quiet_until": 0})
    assert await broker.registry.reap() == (0, 0)
    assert await broker.registry.reap() == (0, 0)
    assert await reap(broker, raw) == (0, 0)  # even after the quiet time
    assert await waiting(broker) == ["recovering", "queued"]
    assert await broker.leases.renew("w1", {"held": 1}) == set()


async def test_a_clock_that_is_set_back_delays_sessions_only_briefly(
    broker: Broker, raw: Redis
) -> None:
    await join(broker, "a")
    await serve(broker)
    await claim(broker)
    future = await now_ms(raw) + 3_600_000
    await raw.zadd(broker.keys.leases, {"a": future})
    await raw.zadd(broker.keys.workers, {"w1": future})
    await raw.zadd(broker.keys.edges, {EDGE: future})
    await raw.hset(broker.keys.reaper, mapping={"last": future, "quiet_until": future})
    assert await broker.registry.reap() == (0, 0)
    limit = await now_ms(raw) + 5000
    assert float(await raw.zscore(broker.keys.leases, "a")) <= limit
    assert float(await raw.zscore(broker.keys.workers, "w1")) <= limit
    assert float(await raw.zscore(broker.keys.edges, EDGE)) <= limit
    assert int(await raw.hget(broker.keys.reaper, "quiet_until")) <= limit


async def test_the_first_upkeep_ends_no_session(broker: Broker, raw: Redis) -> None:
    await join(broker, "a")
    await broker.registry.edge_gone(EDGE)
    assert await broker.registry.reap() == (0, 0)
    assert await reap(broker, raw) == (0, 1)
