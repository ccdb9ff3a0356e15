"""Steps for tests of the control plane: workers, sessions, expired leases."""

from redis.asyncio import Redis

from antiphon.broker.client import Broker
from antiphon.shared_schemas.registry import Claim, Ticket, WorkerReport
from antiphon.shared_schemas.states import SessionKind, SessionState, WorkerState

AUDIO = SessionKind.AUDIO_DUPLEX
OMNI = SessionKind.OMNI_DUPLEX
CHAT = SessionKind.CHAT
EDGE = "edge-1"
SILENCE_S = 60
"""How long ago `silence` puts the last heartbeat."""


def report(*kinds: SessionKind, slots: int = 1, is_open: bool = True) -> WorkerReport:
    """Registers a worker that serves these kinds (all kinds by default)."""
    return WorkerReport(
        engine="test",
        model="none",
        kinds=frozenset(kinds or SessionKind),
        slots=slots,
        state=WorkerState.IDLE,
        device="cpu",
        address="127.0.0.1:1",
        open=is_open,
        counters={"units": 3.0},
    )


async def join(broker: Broker, sid: str, kind: SessionKind = AUDIO, *, edge: str = EDGE) -> Ticket:
    return await broker.queue.join(sid, kind, edge=edge, recording=f"rec-{sid}")


async def serve(
    broker: Broker, worker: str = "w1", *kinds: SessionKind, slots: int = 1, is_open: bool = True
) -> None:
    await broker.registry.worker_beat(worker, report(*kinds, slots=slots, is_open=is_open))


async def claim(broker: Broker, worker: str = "w1") -> Claim:
    claimed = await broker.leases.claim(worker)
    assert claimed is not None
    return claimed


async def activate(broker: Broker, held: Claim, worker: str = "w1") -> None:
    for state in (SessionState.PREPARING, SessionState.ACTIVE):
        assert await broker.leases.move(held.sid, worker, held.epoch, state)


async def waiting(broker: Broker) -> list[str]:
    return [row.sid for row in (await broker.queue.snapshot()).waiting]


async def used(broker: Broker) -> dict[str, int]:
    return {row.id: row.used for row in (await broker.queue.snapshot()).workers}


async def now_ms(raw: Redis) -> int:
    seconds, micros = await raw.time()
    return int(seconds) * 1000 + int(micros) // 1000


async def expire_lease(broker: Broker, raw: Redis, sid: str) -> None:
    """Sets the end of a lease to one second ago."""
    await raw.zadd(broker.keys.leases, {sid: await now_ms(raw) - 1000}, xx=True)
    assert await raw.zscore(broker.keys.leases, sid) is not None


async def silence(raw: Redis, beats: str, who: str, broker: Broker) -> None:
    """Sets the last heartbeat of a worker or an edge to one minute ago. `beats`: the ZSET's key."""
    assert beats in (broker.keys.workers, broker.keys.edges)
    await raw.zadd(beats, {who: await now_ms(raw) - SILENCE_S * 1000}, xx=True)
    assert await raw.zscore(beats, who) is not None


async def reap(broker: Broker, raw: Redis) -> tuple[int, int]:
    """Runs upkeep without its quiet time: it ran a moment ago, so it spares no session."""
    reaper = {"last": await now_ms(raw), "quiet_until": 0}
    await raw.hset(broker.keys.reaper, mapping=reaper)
    return await broker.registry.reap()
