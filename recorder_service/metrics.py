"""What a recorder counts, by the names that Prometheus sees."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

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


_NAME = "antiphon_recorder_"


class RecorderMetrics(Collector):
    """The counters as they are when somebody asks."""

    def __init__(self, counters: RecorderCounters) -> None:
        self._counters = counters

    def collect(self) -> Iterator[Metric]:
        """Gauges, totals, and how long entries took to the disk."""
        counters = self._counters
        for name, text, value in (
            ("sessions", "Sessions this recorder has in hand.", counters.sessions),
            ("degraded_sessions", "Of these, behind as the disk fails.", counters.degraded),
            ("merges_waiting", "Replays that wait to be made.", counters.merges_waiting),
        ):
            yield GaugeMetricFamily(_NAME + name, text, value=value)
        for name, text, total in (
            ("entries", "Entries written to disk.", counters.entries),
            ("disk_errors", "Refusals of the disk, repeats included.", counters.outages),
            (
                "declined_sessions",
                "Not recorded: asked not to be, or for nothing.",
                counters.declined,
            ),
            ("replay_seconds", "Length of the replays made.", counters.merged_seconds),
        ):
            yield CounterMetricFamily(_NAME + name, text, value=total)
        yield _recordings(counters)
        yield _merges(counters)
        yield _lag(counters.lag)


def _recordings(counters: RecorderCounters) -> Metric:
    text = "Recordings brought to their end, by state."
    family = CounterMetricFamily(_NAME + "recordings", text, labels=["state"])
    family.add_metric(["complete"], counters.complete)
    family.add_metric(["interrupted"], counters.interrupted)
    return family


def _merges(counters: RecorderCounters) -> Metric:
    family = CounterMetricFamily(_NAME + "merges", "Replays made, or not.", labels=["outcome"])
    family.add_metric(["done"], counters.merges_done)
    family.add_metric(["failed"], counters.merges_failed)
    return family


def _lag(lag: LagHistogram) -> Metric:
    """Prometheus wants seconds, and each class to hold all smaller ones."""
    bounds = [str(bound / 1000) for bound in LAG_BOUNDS_MS]
    buckets = list(zip([*bounds, "+Inf"], map(float, accumulate(lag.counts)), strict=True))
    text = "From an entry's being said to its being on disk."
    return HistogramMetricFamily(_NAME + "lag_seconds", text, buckets, lag.sum_ms / 1000)
