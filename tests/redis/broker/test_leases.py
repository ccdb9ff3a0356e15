import pytest
from redis.asyncio import Redis

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.states import EndReason, SessionState
from support.control_plane import (
    AUDIO,
    activate,
    claim,
    expire_lease,
    join,
    now_ms,
    reap,
    serve,
    used,
)

pytestmark = pytest.mark.on_cluster


async def test_a_claim_contains_everything_that_a_worker_needs(broker: Broker) -> None:
    ticket = await join(broker, "adx_1")
    await serve(broker)
    held = await claim(broker)
    assert (held.sid, held.kind, held.ticket) == ("adx_1", AUDIO, ticket.number)
    assert (held.epoch, held.attempt, held.edge, held.recording) == (1, 1, "edge-1", "rec-adx_1")
    row = await broker.sessions.get("adx_1")
    assert row is not None
    assert (row.state, row.worker, row.epoch) == (SessionState.ASSIGNED, "w1", 1)


async def test_a_renewal_extends_held_leases_and_lists_lost_ones(
    broker: Broker, raw: Redis
) -> None:
    for sid in "ab":
        await join(broker, sid)
    await serve(broker, slots=2)
    await claim(broker)
    await claim(broker)
    await expire_lease(broker, raw, "a")
    before = await now_ms(raw)
    assert await broker.leases.renew("w1", {"a": 1, "b": 2, "zz": 1}) == {"b", "zz"}
    lease = await raw.zscore(broker.keys.leases, "a")
    assert before <= float(lease) - 5000 <= await now_ms(raw)
    assert await broker.leases.renew("w2", {"a": 1}) == {"a"}
    assert await broker.leases.renew("w1", {}) == set()


async def test_a_repeated_transition_makes_one_event(broker: Broker) -> None:
    await join(broker, "a")
    await serve(broker)
    await claim(broker)
    watch = await broker.events.watch()
    try:
        for _ in range(2):
            assert await broker.leases.move("a", "w1", 1, SessionState.PREPARING)
        await broker.sessions.end("a", EndReason.STOPPED)
        states = [event.state for event in await watch.read()]
        while SessionState.ENDED not in states:
            states += [event.state for event in await watch.read()]
    finally:
        await watch.close()
    assert states == [SessionState.PREPARING, SessionState.ENDED]


async def test_a_worker_ends_or_gives_back_a_session_by_other_calls(broker: Broker) -> None:
    await join(broker, "a")
    await serve(broker)
    await claim(broker)
    for state in (SessionState.ENDED, SessionState.RECOVERING, SessionState.QUEUED):
        with pytest.raises(ValueError, match="end it or give it back"):
            await broker.leases.move("a", "w1", 1, state)
    assert await used(broker) == {"w1": 1}


async def test_ending_is_fenced_by_epoch_and_frees_the_slot_once(
    broker: Broker, settings: BrokerSettings, raw: Redis
) -> None:
    await join(broker, "a")
    await serve(broker)
    await claim(broker)
    assert not await broker.sessions.end("a", EndReason.STOPPED, epoch=7)
    assert await broker.sessions.end("a", EndReason.STOPPED, epoch=1)
    assert not await broker.sessions.end("a", EndReason.ERROR, epoch=1)
    row = await broker.sessions.get("a")
    assert row is not None
    assert row.reason is EndReason.STOPPED
    assert row.ended_at is not None
    assert await used(broker) == {"w1": 0}
    assert await raw.zcard(broker.keys.leases) == 0
    assert 0 < await raw.ttl(broker.keys.session("a")) <= settings.session_row_ttl_s


async def lose(broker: Broker, raw: Redis, *sids: str) -> tuple[int, int]:
    """The worker of these sessions dies."""
    for sid in sids:
        await expire_lease(broker, raw, sid)
    return await reap(broker, raw)


async def survive(broker: Broker, raw: Redis, sid: str) -> None:
    """The session's trial is over, and its worker has renewed the lease since."""
    await raw.zadd(broker.keys.trials, {sid: 1}, xx=True)
    assert await reap(broker, raw) == (0, 0)
    assert await raw.zscore(broker.keys.trials, sid) is None


async def attempts(broker: Broker, *sids: str) -> list[int]:
    rows = [await broker.sessions.get(sid) for sid in sids]
    return [row.attempt for row in rows if row is not None]


async def test_sessions_of_a_lost_worker_are_tried_together_without_new_ones(
    broker: Broker, raw: Redis
) -> None:
    for sid in "ab":
        await join(broker, sid)
    await serve(broker, "w1", slots=4)
    for _ in "ab":
        await claim(broker)
    assert await lose(broker, raw, "a", "b") == (2, 0)
    assert not (await join(broker, "new")).wait
    tried = [await claim(broker) for _ in "ab"]
    assert [(each.sid, each.attempt) for each in tried] == [("a", 2), ("b", 2)]
    assert await broker.leases.claim("w1") is None
    assert (await join(broker, "newer")).wait
    await survive(broker, raw, "a")
    assert await broker.leases.claim("w1") is None
    await survive(broker, raw, "b")
    assert (await claim(broker)).sid == "new"
    assert await attempts(broker, "a", "b") == [1, 1]


async def test_after_two_losses_sessions_are_tried_alone_and_only_the_cause_ends(
    broker: Broker, raw: Redis
) -> None:
    for sid in ("poison", "b", "c"):
        await join(broker, sid)
    await serve(broker, "w1", slots=4)
    for _ in range(2):
        for _ in range(3):
            await claim(broker)
        assert await lose(broker, raw, "poison", "b", "c") == (3, 0)
    assert await attempts(broker, "poison", "b", "c") == [3, 3, 3]
    assert (await claim(broker)).sid == "poison"
    assert await broker.leases.claim("w1") is None
    assert await lose(broker, raw, "poison") == (0, 1)
    assert (await claim(broker)).sid == "b"
    assert await broker.leases.claim("w1") is None
    await survive(broker, raw, "b")
    assert await broker.leases.claim("w1") is None  # `c` waits for a worker without sessions
    await raw.hincrby(broker.keys.session("c"), "recovering_at", -10_000)
    assert (await claim(broker)).sid == "c"
    assert await lose(broker, raw, "b", "c") == (2, 0)  # `b` has survived, but only just
    assert await attempts(broker, "b", "c") == [1, 4]
    await raw.hincrby(broker.keys.session("c"), "recovering_at", -10_000)
    assert (await claim(broker)).sid == "c"  # it has lost more workers
    assert await lose(broker, raw, "c") == (0, 1)


async def test_leases_of_a_lost_worker_that_expire_one_after_another_share_the_blame(
    broker: Broker, raw: Redis
) -> None:
    for sid in "ab":
        await join(broker, sid)
    await serve(broker, "w1", slots=2)
    for _ in "ab":
        await claim(broker)
    for sid in "ab":
        assert await lose(broker, raw, sid) == (1, 0)
    for sid in "ab":
        fields = await raw.hmget(broker.keys.session(sid), "failures", "shared", "verdict")
        assert fields == [b"1", b"1", None]


async def test_a_trial_lasts_longer_if_the_last_worker_was_lost_soon_after_it(
    broker: Broker, raw: Redis
) -> None:
    await join(broker, "a")
    await serve(broker, "w1", slots=2)

    async def trial_s() -> float:
        held = await claim(broker)
        await activate(broker, held)
        ends_at = await raw.zscore(broker.keys.trials, "a")
        assert ends_at is not None
        return round((ends_at - await now_ms(raw)) / 1000)

    await claim(broker)
    await lose(broker, raw, "a")
    assert await trial_s() == pytest.approx(8, abs=2)
    await survive(broker, raw, "a")
    await lose(broker, raw, "a")
    assert await trial_s() == pytest.approx(30, abs=2)
    await survive(broker, raw, "a")
    await raw.hincrby(broker.keys.session("a"), "works_since", -60_000)
    await raw.hset(broker.keys.session("a"), "attempt", 1)
    await lose(broker, raw, "a")
    assert await trial_s() == pytest.approx(8, abs=2)


async def test_a_pause_proves_nothing(broker: Broker, raw: Redis) -> None:
    """A session that lost a worker in the last ten minutes is tried again after it."""
    await join(broker, "a")
    await serve(broker, "w1", slots=2)
    await claim(broker)
    await lose(broker, raw, "a")
    held = await claim(broker)
    await activate(broker, held)
    for minutes, is_tried in ((0, True), (9, True), (11, False)):
        assert await broker.leases.move("a", "w1", held.epoch, SessionState.PAUSED)
        if await raw.zcard(broker.keys.trials):
            await survive(broker, raw, "a")
        await raw.hincrby(broker.keys.session("a"), "works_since", -minutes * 60_000)
        assert await broker.leases.move("a", "w1", held.epoch, SessionState.ACTIVE)
        assert await raw.zcard(broker.keys.trials) == is_tried


async def test_a_session_waits_longer_while_a_trial_runs(broker: Broker, raw: Redis) -> None:
    for sid in "ab":
        await join(broker, sid)
    await serve(broker, "w1", slots=2)
    for _ in range(2):
        for _ in "ab":
            await claim(broker)
        await lose(broker, raw, "a", "b")
    assert (await claim(broker)).sid == "a"
    for ends in (False, True):
        await raw.hset(broker.keys.session("b"), "recovering_at", 1)
        await raw.hset(broker.keys.reaper, "tried_at", 1)
        assert await reap(broker, raw) == (0, int(ends))
        if not ends:
            await survive(broker, raw, "a")
