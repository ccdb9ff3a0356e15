import pytest
from redis.asyncio import Redis

from antiphon.broker.client import Broker
from antiphon.shared_schemas.states import EndReason
from support.control_plane import (
    AUDIO,
    CHAT,
    OMNI,
    activate,
    claim,
    expire_lease,
    join,
    now_ms,
    reap,
    serve,
)

pytestmark = pytest.mark.on_cluster

DAY_MS = 86_400_000


async def run_session(broker: Broker, raw: Redis, sid: str, seconds: float) -> float:
    """Returns the seconds by which it may be longer: a busy machine is late."""
    await join(broker, sid)
    held = await claim(broker)
    await activate(broker, held)
    at = await now_ms(raw)
    await raw.hset(broker.keys.session(sid), "assigned_at", at - round(seconds * 1000))
    await broker.sessions.end(sid, EndReason.STOPPED)
    return (await now_ms(raw) - at) / 1000


async def test_durations_are_learnt_from_finished_sessions(broker: Broker, raw: Redis) -> None:
    await serve(broker)
    expected, late = None, 0.0
    for index, seconds in enumerate((10.0, 20.0, 40.0)):
        assert (await broker.eta.lengths()).expected_s(AUDIO) == 120.0
        late += await run_session(broker, raw, f"s{index}", seconds)
        expected = seconds if expected is None else 0.3 * seconds + 0.7 * expected
    status = await broker.eta.lengths()
    assert status.counts[AUDIO] == 3
    assert status.expected_s(AUDIO) == pytest.approx(expected, abs=0.2 + late)
    assert status.expected_s(CHAT) == 15.0


async def test_a_session_that_was_never_active_is_not_counted(broker: Broker, raw: Redis) -> None:
    await serve(broker, slots=2)
    for sid in ("cancelled", "gone-before-prepare", "lost"):
        await join(broker, sid)
    await broker.sessions.end("cancelled", EndReason.CANCELLED)
    await claim(broker)
    await broker.sessions.end("gone-before-prepare", EndReason.CLIENT_GONE)
    await claim(broker)
    await expire_lease(broker, raw, "lost")
    await reap(broker, raw)
    await broker.sessions.end("lost", EndReason.CLIENT_GONE)
    assert (await broker.eta.lengths()).counts[AUDIO] == 0


async def test_f27_a_session_during_which_the_clock_jumped_is_not_counted(
    broker: Broker, raw: Redis
) -> None:
    """It ends before the reaper has noticed the jump, or after that."""
    await serve(broker)
    await broker.registry.reap()
    await raw.hset(broker.keys.reaper, "last", await now_ms(raw) - DAY_MS)
    await run_session(broker, raw, "before", DAY_MS / 1000)
    assert (await broker.eta.lengths()).counts[AUDIO] == 0
    await broker.registry.reap()
    await run_session(broker, raw, "after", DAY_MS / 1000)
    assert (await broker.eta.lengths()).counts[AUDIO] == 0
    await run_session(broker, raw, "new", 0.0)
    assert (await broker.eta.lengths()).counts[AUDIO] == 1


async def test_a_session_counts_once_over_all_its_workers(broker: Broker, raw: Redis) -> None:
    await serve(broker)
    await join(broker, "s")
    await activate(broker, await claim(broker))
    await broker.leases.give_back("s", "w1", 1)
    assert (await broker.eta.lengths()).counts[AUDIO] == 0
    await activate(broker, await claim(broker))
    at = await now_ms(raw)
    await raw.hset(broker.keys.session("s"), "assigned_at", at - 50_000)
    await broker.sessions.end("s", EndReason.STOPPED)
    late = (await now_ms(raw) - at) / 1000
    status = await broker.eta.lengths()
    assert status.counts[AUDIO] == 1
    assert status.averages[AUDIO] == pytest.approx(50.0, abs=0.5 + late)


async def test_baselines_and_smoothing_can_be_set(broker: Broker, raw: Redis) -> None:
    await broker.eta.configure({AUDIO: 7.5}, alpha=1.0)
    await broker.eta.configure({OMNI: 3.0})
    await broker.eta.configure({})
    status = await broker.eta.lengths()
    assert (status.expected_s(AUDIO), status.expected_s(OMNI), status.alpha) == (7.5, 3.0, 1.0)
    await serve(broker)
    for sid, seconds in (("a", 10.0), ("b", 20.0)):
        late = await run_session(broker, raw, sid, seconds)
    assert (await broker.eta.lengths()).averages[AUDIO] == pytest.approx(20.0, abs=0.2 + late)
