"""What one recorder counts of its work, for whoever publishes it."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

LAG_BOUNDS_MS = (
    *(5.0, 10.0, 20.0, 35.0, 50.0, 75.0, 100.0, 150.0, 200.0, 300.0, 500.0, 750.0),
    *(1000.0, 2000.0, 5000.0, 10_000.0, 30_000.0, 60_000.0),
)
"""Upper bounds of the histogram's classes; a last class holds what is beyond."""


@dataclass(slots=True)
class LagHistogram:
    """How long after it was said an entry was on disk, in milliseconds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(LAG_BOUNDS_MS) + 1))
    sum_ms: float = 0.0
    worst_ms: float = 0.0

    def add(self, lag_ms: float) -> None:
        """Count one entry."""
        self.counts[bisect_left(LAG_BOUNDS_MS, lag_ms)] += 1
        self.sum_ms += max(0.0, lag_ms)
        self.worst_ms = max(self.worst_ms, lag_ms)

    @property
    def total(self) -> int:
        """Entries counted."""
        return sum(self.counts)


@dataclass(slots=True)
class RecorderCounters:
    """Since the recorder's start. Gauges: `sessions`, `degraded`, `merges_waiting`.

    `degraded` sessions are behind because the disk refuses them. `outages`: disk errors, repeats
    included. `declined`: sessions that asked not to be recorded, or for nothing.
    """

    sessions: int = 0
    degraded: int = 0
    entries: int = 0
    outages: int = 0
    declined: int = 0
    complete: int = 0
    interrupted: int = 0
    merges_waiting: int = 0
    merges_done: int = 0
    merges_failed: int = 0
    merged_seconds: float = 0.0
    lag: LagHistogram = field(default_factory=LagHistogram)
