"""Prometheus metrics of an edge, and of the whole system, of which every edge exports the same values."""

import math
from collections import Counter
from collections.abc import Iterator

from prometheus_client import Counter as CounterMetric
from prometheus_client import Gauge, Histogram
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from antiphon.broker.client import Broker
from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.service.metrics import (
    RESPONSES,
    SECONDS,
    BrokerMetrics,
    HopHistogram,
    new_registry,
)
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.registry import (
    EdgeSnapshot,
    QueuedSession,
    QueueSnapshot,
    RunningSession,
)
from antiphon.shared_schemas.states import EndReason, SessionKind, SessionState, WorkerState
from antiphon.shared_schemas.unit_result import FirstAudio

_NAME = "antiphon_edge_"

_REJECTIONS = (
    *(ErrorCode.QUEUE_FULL, ErrorCode.STORE_FULL),
    *(ErrorCode.RATE_LIMITED, ErrorCode.UNAUTHORIZED),
    *("edge_full", "no_udp_port", "not_connected"),
)
"""Codes whose series begin at 0."""


class EdgeMetrics:
    """Metrics of one edge, of its broker client, and of the whole system."""

    def __init__(self, edge_id: str) -> None:
        self.registry = registry = new_registry("edge", edge_id)
        self.broker = BrokerMetrics(registry)
        self.fleet = FleetMetrics()
        registry.register(self.fleet)

        def counter(name: str, text: str, *labels: str) -> CounterMetric:
            return CounterMetric(_NAME + name, text, labels, registry=registry)

        self.started = counter("sessions_started", "Sessions queued, by kind.", "kind")
        self.protocols = counter("protocol_sessions", "Sessions queued, by protocol.", "protocol")
        self.ended = counter(
            "sessions_ended", "Sessions whose connection ended them, by reason.", "reason"
        )
        self.rejected = counter(
            "rejections", "Rejected connections and requests, by reason.", "reason"
        )
        self.refused_input = counter(
            "input_refused", "Client messages answered with an error.", "reason"
        )
        self.resumes = counter(
            "resumes",
            "Clients that lost their connection, resumed, or could not resume.",
            "outcome",
        )
        self.slow_consumers = counter(
            "slow_consumers", "Connections closed because their client did not read."
        )
        self.connections = Gauge(
            _NAME + "connections", "Sessions with a connection to this edge.", registry=registry
        )
        self.queue_wait = Histogram(
            _NAME + "queue_wait_seconds",
            "From joining the queue to the assignment of a worker.",
            buckets=SECONDS,
            registry=registry,
        )
        self._first_audio = Histogram(
            _NAME + "first_audio_seconds",
            "From the end of the user's speech, or of the request, until the first audio of the "
            "answer is in the send queue of its client.",
            ["kind", "engine"],
            buckets=RESPONSES,
            registry=registry,
        )
        hop = HopHistogram(
            _NAME + "hop_seconds",
            "parse: frame to entry. append: until the entry is in the stream. "
            "out_wait: from a worker's append until this edge reads it. send: until it is sent.",
            "hop",
            registry,
        )
        self.parse, self.append = hop.labels("parse"), hop.labels("append")
        self.out_wait, self.send = hop.labels("out_wait"), hop.labels("send")
        self._begin_at_zero()

    def observe_first_audio(self, first: FirstAudio, sent_ms: float) -> None:
        """Count the wait for an answer whose first audio was queued at this Redis-clock time."""
        waited_s = max(0.0, sent_ms - first.asked_at) / 1000
        self._first_audio.labels(first.kind, first.engine).observe(waited_s)

    def _begin_at_zero(self) -> None:
        """Create all series: `rate` ignores the first event of a series that starts with it."""
        for kind in SessionKind:
            self.started.labels(kind)
        for end in EndReason:
            self.ended.labels(end)
        for reason in _REJECTIONS:
            self.rejected.labels(reason)
        for outcome in ("detached", "resumed", "expired"):
            self.resumes.labels(outcome)


class FleetMetrics(Collector):
    """Of the whole system, from the last snapshot; only `up` while Redis does not answer."""

    def __init__(self) -> None:
        self._seen: tuple[QueueSnapshot, EdgeSnapshot] | None = None

    async def refresh(self, broker: Broker) -> None:
        """Take a snapshot; call before each scrape."""
        try:
            self._seen = await broker.queue.snapshot(), await broker.registry.edges()
        except BrokerUnavailable:
            self._seen = None

    def collect(self) -> Iterator[Metric]:
        up = self._seen is not None
        yield GaugeMetricFamily("antiphon_redis_up", "1 while Redis answers.", value=float(up))
        if self._seen is not None:
            snapshot, edges = self._seen
            yield from _queue(snapshot)
            yield _sessions(snapshot)
            yield from _slots(snapshot)
            yield _workers(snapshot)
            yield GaugeMetricFamily("antiphon_edges", "Live edges.", value=len(edges.edges))


def _queue(snapshot: QueueSnapshot) -> Iterator[Metric]:
    waiting = snapshot.waiting
    oldest = max((snapshot.at - row.queued_at for row in waiting), default=0) / 1000
    estimated = waiting[-1].eta_s if waiting else 0.0
    estimated = math.nan if estimated is None else estimated
    for name, text, value in (
        ("length", "Waiting sessions.", len(waiting)),
        ("oldest_wait_seconds", "Wait of the oldest queued session so far.", oldest),
        ("estimated_wait_seconds", "Estimated wait of the last queued session.", estimated),
    ):
        yield GaugeMetricFamily(f"antiphon_queue_{name}", text, value=value)


def _sessions(snapshot: QueueSnapshot) -> Metric:
    live: list[QueuedSession | RunningSession] = [*snapshot.waiting, *snapshot.running]
    found = Counter((row.kind, row.state) for row in live)
    family = GaugeMetricFamily(
        "antiphon_sessions", "Live sessions by kind and state.", labels=["kind", "state"]
    )
    for kind in SessionKind:
        for state in SessionState:
            if state is not SessionState.ENDED:
                family.add_metric([kind, state], found[kind, state])
    return family


def _slots(snapshot: QueueSnapshot) -> Iterator[Metric]:
    """Slots of open workers. Slots of draining workers count as used, but not as available."""
    engines = sorted({row.engine for row in snapshot.workers})
    slots, used, free = (
        GaugeMetricFamily(f"antiphon_slots{name}", text, labels=["engine"])
        for name, text in (
            ("", "Sessions that open workers can serve at once."),
            ("_used", "Slots in use, those of draining workers included."),
            ("_free", "Slots that could take a session now: scale by these and by the queue."),
        )
    )
    for engine in engines:
        rows = [row for row in snapshot.workers if row.engine == engine]
        open_rows = [row for row in rows if row.open]
        slots.add_metric([engine], sum(row.slots for row in open_rows))
        used.add_metric([engine], sum(row.used for row in rows))
        free.add_metric([engine], sum(max(0, row.slots - row.used) for row in open_rows))
    yield from (slots, used, free)


def _workers(snapshot: QueueSnapshot) -> Metric:
    found = Counter(row.state for row in snapshot.workers)
    family = GaugeMetricFamily("antiphon_workers", "Live workers by state.", labels=["state"])
    for state in WorkerState:
        family.add_metric([state], found[state])
    return family
