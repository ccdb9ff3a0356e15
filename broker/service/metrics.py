"""Metrics that all services share, and the registry of a process."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version

from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    Info,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.samples import Sample

from antiphon.broker.errors import BrokerUnavailable

MILLISECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Histogram bounds (s) for a hop of the data path, whose budget is milliseconds."""

SECONDS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0)
"""Histogram bounds (s) for waits of users."""


def new_registry(service: str, instance: str) -> CollectorRegistry:
    """A registry with the metrics of every process: its name, CPU, memory, files, collections."""
    disable_created_metrics()  # type: ignore[no-untyped-call]  # they would double the number of series
    registry = CollectorRegistry(auto_describe=True)
    about = Info("antiphon", "The process and its version.", registry=registry)
    about.info({"service": service, "instance_id": instance, "version": version("antiphon")})
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


class HopHistogram(Histogram):
    """For values of the data path, which one thread observes: a sixth of the CPU time, without locks."""

    def _metric_init(self) -> None:
        super()._metric_init()
        self._total = 0.0
        self._counts = [0.0] * len(self._upper_bounds)

    def observe(self, amount: float, exemplar: dict[str, str] | None = None) -> None:
        """Ignores the exemplar."""
        del exemplar
        self._total += amount
        self._counts[bisect_left(self._upper_bounds, amount)] += 1.0

    def _child_samples(self) -> Iterable[Sample]:
        self._sum.set(self._total)
        for bucket, count in zip(self._buckets, self._counts, strict=True):
            bucket.set(count)
        return super()._child_samples()


class BrokerMetrics:
    """A process's calls to Redis."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.round_trip = Histogram(
            "antiphon_redis_round_trip_seconds",
            "Round trip of a script call, by script.",
            ["script"],
            buckets=MILLISECONDS,
            registry=registry,
        )
        self.failures = Counter(
            "antiphon_redis_failures",
            "Script calls that Redis did not answer, or refused temporarily.",
            registry=registry,
        )
        self.append = HopHistogram(
            "antiphon_stream_append_seconds",
            "Time to append one entry to a session's stream, by stream: in, out or told.",
            ["stream"],
            buckets=MILLISECONDS,
            registry=registry,
        )
        self.reaped = Counter(
            "antiphon_reaped_sessions",
            "Sessions without a worker or an edge that this process requeued or ended.",
            ["outcome"],
            registry=registry,
        )
        for outcome in ("requeued", "ended"):
            self.reaped.labels(outcome)

    @contextmanager
    def calling(self, script: str) -> Iterator[None]:
        """Time one call; a call without an answer counts as a failure instead."""
        began = time.perf_counter()
        try:
            yield
        except BrokerUnavailable:
            self.failures.inc()
            raise
        self.round_trip.labels(script).observe(time.perf_counter() - began)
