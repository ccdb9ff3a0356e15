"""What a worker measures of itself, by the names that Prometheus sees."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from antiphon.broker.service.metrics import MILLISECONDS, SECONDS
from antiphon.inference_worker.counters import Counters
from antiphon.shared_schemas.entries import ResultOut
from antiphon.shared_schemas.states import SessionKind

_COSTS = {
    "prefill": "prefill_ms",
    "llm": "cost_llm_ms",
    "tts_prep": "cost_tts_prep_ms",
    "tts": "cost_tts_ms",
    "token2wav": "cost_token2wav_ms",
    "all": "cost_all_ms",
}
"""Stages of a unit in the engine, and the field of a result that says how long each took."""


class WorkerMetrics:
    """Histograms are fed as things happen; what the worker counts anyway is read when it is asked."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.claims = Counter(
            "antiphon_worker_claims",
            "Sessions taken from the queue, by kind.",
            ["kind"],
            registry=registry,
        )
        self.stream_wait = _histogram(
            "stream_wait", "From the edge's append of a chunk to its being read here.", registry
        )
        self.unit = _histogram(
            "unit", "From a chunk's being read to its result, before it is published.", registry
        )
        engine = Histogram(
            "antiphon_worker_engine_seconds",
            "A unit's stages in the engine; `all` is prefill and generate together.",
            ["stage"],
            buckets=MILLISECONDS,
            registry=registry,
        )
        self.finalize = engine.labels("finalize")
        self._stages = {field: engine.labels(stage) for stage, field in _COSTS.items()}
        self.first_piece = Histogram(
            "antiphon_worker_first_piece_seconds",
            "From a question's being whole to the first piece of its answer, by kind.",
            ["kind"],
            buckets=SECONDS,
            registry=registry,
        )
        for kind in SessionKind:
            self.claims.labels(kind)

    def observe_unit(self, result: ResultOut) -> None:
        """One served unit."""
        self.stream_wait.observe(max(0.0, result.read_at - result.received_at) / 1000)
        self.unit.observe(result.wall_clock_ms / 1000)
        for field, stage in self._stages.items():
            stage.observe(getattr(result, field) / 1000)

    def show(self, counters: Counters, slots: int, used: Callable[[], int]) -> None:
        """Show what the worker counts, and its slots."""
        self.registry.register(_Counted(counters))
        text = "Sessions that this worker can serve at once."
        Gauge("antiphon_worker_slots", text, registry=self.registry).set(slots)
        in_use = Gauge("antiphon_worker_slots_used", "Slots in use.", registry=self.registry)
        in_use.set_function(used)


class _Counted(Collector):
    """The totals of `Counters`, as they are at the moment."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters

    def collect(self) -> Iterator[Metric]:
        """One family per total."""
        counters = self._counters
        units = CounterMetricFamily(
            "antiphon_worker_units", "Units served, by what they did.", labels=["did"]
        )
        units.add_metric(["listen"], counters.units - counters.units_speaking)
        units.add_metric(["speak"], counters.units_speaking)
        yield units
        for name, text, value in (
            (
                "deadline_misses",
                "Units later than the length of a chunk.",
                counters.deadline_misses,
            ),
            ("chunks_skipped", "Chunks dropped, as newer ones waited.", counters.chunks_skipped),
            ("engine_errors", "Steps that the engine could not do.", counters.engine_errors),
            ("recovered_sessions", "Sessions of a lost worker, gone on with.", counters.recovered),
            ("turns", "Half-duplex answers given.", counters.turns),
            ("chats", "Chat requests answered.", counters.chats),
        ):
            yield CounterMetricFamily(f"antiphon_worker_{name}", text, value=value)


def _histogram(name: str, text: str, registry: CollectorRegistry) -> Histogram:
    full = f"antiphon_worker_{name}_seconds"
    return Histogram(full, text, buckets=MILLISECONDS, registry=registry)
