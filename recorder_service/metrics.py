"""What a recorder counts, by the names that Prometheus sees."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from antiphon.recorder_service.counters import LAG_BOUNDS_MS, LagHistogram, RecorderCounters

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
