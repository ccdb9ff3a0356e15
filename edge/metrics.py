"""Prometheus metrics of an edge."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from antiphon.broker.fleet_metrics import FleetMetrics
from antiphon.broker.service.metrics import MILLISECONDS, SECONDS, BrokerMetrics, new_registry
from antiphon.shared_schemas.states import EndReason, SessionKind

_NAME = "antiphon_edge_"


class EdgeMetrics:
    """Metrics of one edge, of its broker client, and of the whole system."""

    def __init__(self, edge_id: str) -> None:
        self.registry = registry = new_registry("edge", edge_id)
        self.broker = BrokerMetrics(registry)
        self.fleet = FleetMetrics()
        registry.register(self.fleet)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(_NAME + name, text, labels, registry=registry)

        self.started = counter("sessions_started", "Sessions queued, by kind.", "kind")
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
        hop = Histogram(
            _NAME + "hop_seconds",
            "parse: frame to entry. append: until the entry is in the stream. "
            "out_wait: from a worker's append until this edge reads it. send: until it is sent.",
            ["hop"],
            buckets=MILLISECONDS,
            registry=registry,
        )
        self.parse, self.append = hop.labels("parse"), hop.labels("append")
        self.out_wait, self.send = hop.labels("out_wait"), hop.labels("send")
        self._begin_at_zero()

    def _begin_at_zero(self) -> None:
        """Create all series: `rate` ignores the first event of a series that starts with it."""
        for kind in SessionKind:
            self.started.labels(kind)
        for end in EndReason:
            self.ended.labels(end)
        for reason in ("queue_full", "no_capacity", "rate_limited", "unauthorized"):
            self.rejected.labels(reason)
        for outcome in ("detached", "resumed", "expired"):
            self.resumes.labels(outcome)
