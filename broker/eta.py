"""Queue wait estimates: expected session lengths per kind, and a simulation of the slots."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from antiphon.broker.connections.client import RedisClient
from antiphon.broker.keys import Keys
from antiphon.broker.rows import HashReply, call_on_row, field_pairs, read_rows
from antiphon.shared_schemas.registry import LARGEST_NUMBER, RunningSession, WorkerRow
from antiphon.shared_schemas.states import SessionKind, WaitReason, WorkerState

BASELINES = {
    SessionKind.CHAT: 15.0,
    SessionKind.HALF_DUPLEX: 180.0,
    SessionKind.AUDIO_DUPLEX: 120.0,
    SessionKind.OMNI_DUPLEX: 90.0,
    SessionKind.TURNS: 300.0,
}
"""Expected seconds of a session until enough have been measured."""

ENOUGH_SAMPLES = 3
DEFAULT_ALPHA = 0.3


@dataclass(frozen=True, slots=True)
class SessionLengths:
    """Baselines, moving averages (seconds) and sample counts per kind."""

    baselines: dict[SessionKind, float]
    averages: dict[SessionKind, float] = field(default_factory=dict)
    counts: dict[SessionKind, int] = field(default_factory=dict)
    alpha: float = DEFAULT_ALPHA

    @classmethod
    def read(cls, reply: HashReply) -> "SessionLengths":
        """Parse the `eta` hash. Values that are no number are skipped."""
        pairs = field_pairs(reply)
        row = dict(read_rows("eta", pairs, lambda name, text: (name.decode(), _number(text))))
        return cls(
            baselines={k: row.get(f"baseline:{k}", v) for k, v in BASELINES.items()},
            averages={k: row[f"ema:{k}"] for k in SessionKind if f"ema:{k}" in row},
            counts={k: int(row.get(f"count:{k}", 0)) for k in SessionKind},
            alpha=min(1.0, row.get("alpha", DEFAULT_ALPHA)),
        )

    def expected_s(self, kind: SessionKind) -> float:
        if self.counts.get(kind, 0) >= ENOUGH_SAMPLES and kind in self.averages:
            return self.averages[kind]
        return self.baselines[kind]


def _number(text: bytes) -> float:
    number = float(text)
    if not 0 <= number <= LARGEST_NUMBER:  # NaN is not
        raise ValueError(f"{number} is out of range")
    return number


def estimate_waits(
    kinds: Sequence[SessionKind],
    running: Sequence[RunningSession],
    workers: Sequence[WorkerRow],
    lengths: SessionLengths,
) -> list[float | WaitReason]:
    """Seconds until each queued session (given by kind, in order) should get a slot.

    Slots are given out in queue order, each for the expected length of its session. Estimates never
    decrease along the queue. Without an open worker for a kind, its sessions have a reason instead.
    """
    slots = _Slots(running, workers)
    waits: list[float | WaitReason] = []
    longest = 0.0
    for kind in kinds:
        if reason := slots.missing(kind):
            waits.append(reason)
            continue
        longest = max(longest, slots.take(kind, lengths.expected_s(kind)))
        waits.append(longest)
    return waits


class _Slots:
    """The times (s from now) at which each worker's slots become free."""

    def __init__(self, running: Sequence[RunningSession], workers: Sequence[WorkerRow]) -> None:
        usable = [w for w in workers if w.slots and (w.open or w.state is WorkerState.LOADING)]
        self._kinds = {w.id: w.kinds for w in usable}
        self._free = {w.id: [0.0] * w.slots for w in usable if w.open}
        for job in running:
            if heap := self._free.get(job.worker):
                heapq.heapreplace(heap, job.remaining_s)

    def missing(self, kind: SessionKind) -> WaitReason | None:
        """Why no slot can be expected for this kind; None if a worker gives it one."""
        if not self._kinds:
            return WaitReason.NO_WORKER
        serving = [worker for worker, kinds in self._kinds.items() if kind in kinds]
        if not serving:
            return WaitReason.KIND_NOT_SERVED
        return None if self._free.keys() & serving else WaitReason.WORKER_LOADING

    def take(self, kind: SessionKind, length_s: float) -> float:
        """Use the slot that becomes free first; returns the wait in seconds."""
        heap = min((h for w, h in self._free.items() if kind in self._kinds[w]), key=lambda h: h[0])
        wait = heap[0]
        heapq.heapreplace(heap, wait + length_s)
        return wait


class EtaStore:
    """The `eta` hash. Operators may change the baselines and the smoothing."""

    def __init__(self, redis: RedisClient, keys: Keys) -> None:
        self._redis = redis
        self._key = keys.eta

    async def lengths(self) -> SessionLengths:
        return SessionLengths.read(await call_on_row(self._redis, "HGETALL", self._key) or {})

    async def configure(
        self, baselines: dict[SessionKind, float], alpha: float | None = None
    ) -> None:
        """Set baselines (seconds) and, if given, the smoothing factor."""
        values: dict[str, float] = {f"baseline:{k}": v for k, v in baselines.items()}
        if alpha is not None:
            values["alpha"] = alpha
        flat = [part for pair in values.items() for part in pair]
        if flat:
            await self._redis.call("HSET", self._key, *flat)
