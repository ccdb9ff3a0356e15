"""The faults of a run, as a function of its seed. A shorter run has the first faults of a longer one."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile

EDGES = ("edge-1", "edge-2")
WORKERS = ("worker-1", "worker-2")
RECORDER = "recorder"
PROCESSES = (*EDGES, *WORKERS, RECORDER)
REDIS = "redis"
EVERYTHING = "all"

_MEAN_PAUSE_S = 1.2


class FaultKind(StrEnum):
    """What happens to the target. All except `reset` last for a time and then end."""

    KILL = "kill"
    """SIGKILL, later a new process."""
    STOP = "stop"
    """SIGTERM, later a new process."""
    FREEZE = "freeze"
    """SIGSTOP, later SIGCONT."""
    RESET = "reset"
    """RST on every connection of the target to Redis."""
    CUT = "cut"
    """Forward nothing between the target and Redis."""
    DELAY = "delay"
    """Delay everything between the target and Redis."""
    RESET_CLIENTS = "reset-clients"
    """RST on every connection of clients to an edge."""
    CUT_CLIENTS = "cut-clients"
    """Forward nothing between an edge and its clients."""


@dataclass(frozen=True)
class Fault:
    """`at_s` counts from the start of the run."""

    at_s: float
    kind: FaultKind
    target: str
    for_s: float

    def __str__(self) -> str:
        return f"{self.at_s:6.1f} s  {self.kind:13} {self.target:8} for {self.for_s:.1f} s"


_K = FaultKind
_CHOICES: tuple[tuple[FaultKind, tuple[str, ...], float, int], ...] = (
    (_K.KILL, PROCESSES, 1.0, 4),
    (_K.STOP, PROCESSES, 1.0, 2),
    (_K.FREEZE, PROCESSES, 4.0, 4),
    (_K.RESET, (*PROCESSES, EVERYTHING), 0.0, 4),
    (_K.CUT, PROCESSES, 4.0, 4),
    (_K.DELAY, PROCESSES, 3.0, 2),
    (_K.RESET_CLIENTS, EDGES, 0.0, 2),
    (_K.CUT_CLIENTS, EDGES, 4.0, 2),
    (_K.KILL, (REDIS,), 2.0, 1),
    (_K.FREEZE, (REDIS,), 3.0, 1),
)
"""Kind, targets, longest duration and weight."""


def plan(seed: int, seconds: float) -> list[Fault]:
    return list(takewhile(lambda fault: fault.at_s < seconds, _faults(seed)))


def _faults(seed: int) -> Iterator[Fault]:
    rng = random.Random(seed)
    weights = [weight for *_, weight in _CHOICES]
    at_s = 0.0
    while True:
        at_s += rng.uniform(0.2, 2 * _MEAN_PAUSE_S)
        (chosen,) = rng.choices(_CHOICES, weights)
        kind, targets, longest_s, _ = chosen
        target, for_s = rng.choice(targets), rng.uniform(0.1, 1.0) * longest_s
        yield Fault(at_s, kind, target, for_s)
