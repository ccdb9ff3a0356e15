"""The worker's counters and Prometheus metrics."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from antiphon.broker.service.metrics import MILLISECONDS, SECONDS
from antiphon.inference_worker.engines.types import RefusalReason
from antiphon.shared_schemas.states import SessionKind
from antiphon.shared_schemas.unit_result import TokenUsage

_COSTS = ("llm", "tts_prep", "tts", "token2wav", "all")
"""Engine stages of a unit. The result has the duration of each in `cost_..._ms`."""

_COUNTERS = {
    "deadline_misses": (
        "deadline_misses",
        "Units with speech that took longer than their chunk, others than a second.",
    ),
    "chunks_skipped": ("chunks_skipped", "Chunks dropped because newer ones waited."),
    "engine_errors": ("engine_errors", "Engine steps that failed. Refused input is not one."),
    "recovered_sessions": ("recovered", "Sessions recovered from a lost worker."),
    "turns": ("turns", "Half-duplex answers given."),
    "chats": ("chats", "Chat requests answered."),
}
"""Metrics with one value, and the field of WorkerCounters that has it."""


@dataclass(slots=True)
class WorkerCounters:
    """Totals since the process started. Durations in milliseconds."""

    sessions: int = 0
    recovered: int = 0
    turns: int = 0
    chats: int = 0
    units: int = 0
    units_speaking: int = 0
    chunks_skipped: int = 0
    deadline_misses: int = 0
    engine_errors: int = 0
    unit_ms_total: float = 0.0

    def row(self) -> dict[str, float]:
        """For the registry and the health page."""
        return asdict(self)


class WorkerMetrics:
    """Histograms are updated as units run; counters are read when Prometheus scrapes."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        text = "Sessions taken from the queue, by kind."
        self.claims = Counter("antiphon_worker_claims", text, ["kind"], registry=registry)
        text = "From the edge's append of a chunk to the worker's read."
        self.stream_wait = self._histogram("stream_wait", text)
        text = "From the read of a chunk to its result, before it is published."
        self.unit = self._histogram("unit", text)
        text = "A unit's stages in the engine; `all` is prefill and generate together."
        engine = self._histogram("engine", text, ["stage"])
        self.finalize = engine.labels("finalize")
        self.stages = {f"cost_{stage}_ms": engine.labels(stage) for stage in _COSTS}
        """By the field of a result that has the stage's milliseconds."""
        self.stages["prefill_ms"] = engine.labels("prefill")
        text = "From the end of a question to the first piece of its answer, by kind."
        self.first_piece = self._histogram("first_piece", text, ["kind"], SECONDS)
        text = "Tokens that the model read and generated, by kind."
        tokens = Counter("antiphon_worker_tokens", text, ["kind"], registry=registry)
        self._tokens = {kind: tokens.labels(kind) for kind in asdict(TokenUsage())}
        text = "Inputs that the engine refuses because of the client, by reason."
        self.refused = Counter("antiphon_worker_refused", text, ["reason"], registry=registry)
        for kind in SessionKind:
            self.claims.labels(kind)
        for reason in RefusalReason:
            self.refused.labels(reason)

    def _histogram(
        self,
        name: str,
        text: str,
        labels: Sequence[str] = (),
        buckets: Sequence[float] = MILLISECONDS,
    ) -> Histogram:
        full = f"antiphon_worker_{name}_seconds"
        return Histogram(full, text, labels, buckets=buckets, registry=self.registry)

    def count_tokens(self, usage: TokenUsage) -> None:
        for kind, count in asdict(usage).items():
            self._tokens[kind].inc(count)

    def show(self, counters: WorkerCounters, slots: int, used: Callable[[], int]) -> None:
        """Export the counters and the slots."""
        self.registry.register(_CounterExport(counters))
        text = "Sessions that this worker can serve at once."
        Gauge("antiphon_worker_slots", text, registry=self.registry).set(slots)
        in_use = Gauge("antiphon_worker_slots_used", "Slots in use.", registry=self.registry)
        in_use.set_function(used)


class _CounterExport(Collector):
    def __init__(self, counters: WorkerCounters) -> None:
        self._counters = counters

    def collect(self) -> Iterator[Metric]:
        counters = self._counters
        units = CounterMetricFamily(
            "antiphon_worker_units", "Units served, by what they did.", labels=["did"]
        )
        units.add_metric(["listen"], counters.units - counters.units_speaking)
        units.add_metric(["speak"], counters.units_speaking)
        yield units
        for name, (field, text) in _COUNTERS.items():
            value = getattr(counters, field)
            yield CounterMetricFamily(f"antiphon_worker_{name}", text, value=value)
