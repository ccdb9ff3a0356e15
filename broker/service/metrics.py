"""Metrics that all services share, and the registry of a process."""

import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from itertools import accumulate

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
from prometheus_client.metrics_core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from antiphon.broker.errors import BrokerUnavailable

MILLISECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Histogram bounds (s) for a hop of the data path, whose budget is milliseconds."""

SECONDS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0)
"""Histogram bounds (s) for waits of users."""


RESPONSES = (
    0.1,
    0.2,
    0.3,
    0.5,
    0.75,
    1.0,
    1.25,
    1.5,
    2.0,
    2.5,
    3.0,
    4.0,
    5.0,
    7.5,
    10.0,
    20.0,
    30.0,
)
"""Histogram bounds (s) for the wait for an answer."""


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


class HopSeconds:
    """The observations of one hop, by one thread."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def observe(self, seconds: float) -> None:
        self._total += seconds
        self._counts[bisect_left(self._bounds, seconds)] += 1

    def add_to(self, family: HistogramMetricFamily, hop: str) -> None:
        bounds = (*map(str, self._bounds), "+Inf")
        counts = zip(bounds, accumulate(self._counts), strict=True)
        family.add_metric([hop], buckets=list(counts), sum_value=self._total)


class HopHistogram(Collector):
    """A histogram in MILLISECONDS of each hop of the data path.

    An observation takes a sixth of the CPU time of the library's, which locks.
    """

    def __init__(self, name: str, text: str, label: str, registry: CollectorRegistry) -> None:
        self._about = (name, text)
        self._label = label
        self._hops: dict[str, HopSeconds] = {}
        registry.register(self)

    def labels(self, hop: str) -> HopSeconds:
        return self._hops.setdefault(hop, HopSeconds(MILLISECONDS))

    def collect(self) -> Iterator[Metric]:
        family = HistogramMetricFamily(*self._about, labels=[self._label])
        for name, hop in self._hops.items():
            hop.add_to(family, name)
        yield family


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
            "Time to append one entry to a session's stream, by stream: in, out or past.",
            "stream",
            registry,
        )
        self.reaped = Counter(
            "antiphon_reaped_sessions",
            "Sessions without a worker, an edge or a client that this process requeued or ended.",
            ["outcome"],
            registry=registry,
        )
        for outcome in ("requeued", "ended", "client_gone"):
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
