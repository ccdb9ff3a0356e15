"""Sessions that kill each worker that takes them over, at any moment, are found; their neighbours continue.

The time of Redis does not pass here: each step sets all stored times back by a second.
"""

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from redis.asyncio import Redis

from antiphon.broker.client import Broker
from antiphon.shared_schemas.registry import Claim
from antiphon.shared_schemas.states import EndReason, SessionState
from support.control_plane import activate, join, reap, serve

pytestmark = pytest.mark.one_redis

_SECOND_PASSES = """
for i = 1, 3 do
  for _, member in ipairs(redis.call('ZRANGE', KEYS[i], 0, -1)) do
    redis.call('ZINCRBY', KEYS[i], -1000, member)
  end
end
for i = 4, #KEYS do
  for _, name in ipairs({'recovering_at', 'works_since'}) do
    if redis.call('HEXISTS', KEYS[i], name) == 1 then redis.call('HINCRBY', KEYS[i], name, -1000) end
  end
end
"""

_SUPERVISED_AFTER_S = 3
"""A dead worker is started again after this time; its sessions are requeued a second before."""


@dataclass
class Process:
    """A worker. `dies_at` is set when it has taken over a poison."""

    name: str
    claims: dict[str, Claim] = field(default_factory=dict)
    dies_at: float = float("inf")
    died_at: float | None = None


@dataclass
class World:
    """`lives_s` gives how long a worker lives after it has taken over a poison; 0: not until `prepare`."""

    broker: Broker
    raw: Redis
    sids: list[str]
    poisons: set[str]
    lives_s: Iterator[float]
    slots: int = 16
    now_s: int = 0
    deaths: int = 0
    names: Iterator[int] = field(default_factory=itertools.count)
    processes: list[Process] = field(default_factory=list)

    async def start(self, workers: int) -> None:
        for sid in self.sids:
            await join(self.broker, sid)
        for _ in range(workers):
            await self._start_worker()

    async def _start_worker(self) -> None:
        self.processes.append(Process(f"w{next(self.names)}"))
        await serve(self.broker, self.processes[-1].name, slots=self.slots)

    async def second(self) -> None:
        keys = self.broker.keys
        rows = [keys.session(sid) for sid in self.sids]
        await self.raw.eval(  # type: ignore[no-untyped-call]
            _SECOND_PASSES, 3 + len(rows), keys.leases, keys.workers, keys.trials, *rows
        )
        self.now_s += 1
        for process in list(self.processes):
            await (self._beat(process) if process.died_at is None else self._replace(process))
        await reap(self.broker, self.raw)
        while any([await self._claim(process) for process in self.living()]):
            pass
        for process in self.living():
            if process.dies_at <= self.now_s:
                self.die(process)

    def living(self) -> list[Process]:
        return [process for process in self.processes if process.died_at is None]

    async def _beat(self, process: Process) -> None:
        await serve(self.broker, process.name, slots=self.slots)
        held = {sid: claim.epoch for sid, claim in process.claims.items()}
        assert not await self.broker.leases.renew(process.name, held)

    async def _replace(self, process: Process) -> None:
        assert process.died_at is not None
        if self.now_s == process.died_at + _SUPERVISED_AFTER_S - 1:
            await self.broker.registry.worker_gone(process.name)
        elif self.now_s == process.died_at + _SUPERVISED_AFTER_S:
            self.processes.remove(process)
            await self._start_worker()

    async def _claim(self, process: Process) -> bool:
        if process.died_at is not None:
            return False
        claim = await self.broker.leases.claim(process.name)
        if claim is None:
            return False
        process.claims[claim.sid] = claim
        if claim.sid in self.poisons:
            life_s = next(self.lives_s)
            if life_s == 0:
                self.die(process)
                return True
            process.dies_at = min(process.dies_at, self.now_s + life_s)
        await activate(self.broker, claim, process.name)
        return True

    def served(self) -> set[str]:
        return {sid for process in self.living() for sid in process.claims}

    def die(self, process: Process) -> None:
        process.died_at = self.now_s
        self.deaths += 1

    async def ended(self) -> dict[str, EndReason | None]:
        rows = {sid: await self.broker.sessions.get(sid) for sid in self.sids}
        return {
            sid: row.reason for sid, row in rows.items() if row and row.state is SessionState.ENDED
        }


def always(life_s: float) -> Callable[[], Iterator[float]]:
    return lambda: itertools.repeat(life_s)


def between(least_s: int, most_s: int) -> Callable[[], Iterator[float]]:
    chosen = random.Random(1)
    return lambda: (chosen.randint(least_s, most_s) for _ in itertools.count())


LIVES = {
    "in the claim": always(0),
    "at once": always(1),
    "2 s": always(2),
    "5 s": always(5),
    "15 s": always(15),
    "10 to 20 s": between(10, 20),
    "0 to 20 s": between(0, 20),
}


@pytest.mark.parametrize("life", LIVES)
@pytest.mark.parametrize(("workers", "poisons"), [(1, {"s1"}), (2, {"s1", "s2"})])
async def test_f25_poisons_end_and_their_neighbours_continue(
    broker: Broker, raw: Redis, life: str, workers: int, poisons: set[str]
) -> None:
    sids = [f"s{number}" for number in range(4)]
    world = World(broker, raw, sids, poisons, LIVES[life]())
    await world.start(workers)
    while len(ended := await world.ended()) < len(poisons):
        assert world.now_s < 300
        await world.second()
    assert ended == dict.fromkeys(poisons, EndReason.WORKER_LOST)
    assert world.deaths <= 6 * len(poisons)
    while world.served() < set(sids) - poisons:
        assert world.now_s < 400
        await world.second()
    for _ in range(40):  # the last trials end
        await world.second()
    assert await world.ended() == ended
    assert await raw.zcard(broker.keys.trials) == 0
    for sid in set(sids) - poisons:
        row = await broker.sessions.get(sid)
        assert row is not None
        assert row.state is SessionState.ACTIVE


async def test_no_session_ends_because_it_waits_for_the_trials_of_others(
    broker: Broker, raw: Redis
) -> None:
    """The last of sixteen sessions waits for longer than `recovery_timeout_s`."""
    sids = [f"s{number}" for number in range(16)]
    world = World(broker, raw, sids, {"s7"}, itertools.repeat(10.0))
    await world.start(1)
    while not (ended := await world.ended()):
        await world.second()
    assert set(ended) == {"s7"}


async def test_f25_a_poison_that_pauses_through_its_trials_is_found(
    broker: Broker, raw: Redis
) -> None:
    """It kills its worker a moment after each pause."""
    world = World(broker, raw, ["neighbour", "poison"], set(), iter(()))
    await world.start(1)
    await world.second()
    while not (ended := await world.ended()):
        assert world.deaths < 8
        (process,) = world.living()
        epoch = process.claims["poison"].epoch
        move = broker.leases.move
        assert await move("poison", process.name, epoch, SessionState.PAUSED)
        for _ in range(60):
            await world.second()
        assert await move("poison", process.name, epoch, SessionState.ACTIVE)
        world.die(process)
        await world.second()
        while "poison" not in world.served() and not await world.ended():
            await world.second()
    assert ended == {"poison": EndReason.WORKER_LOST}
