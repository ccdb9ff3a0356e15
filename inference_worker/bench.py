"""What every session of one worker shares."""

from __future__ import annotations

from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from antiphon.broker.client import Broker
from antiphon.inference_worker.counters import Counters
from antiphon.inference_worker.engine_thread import EngineThread
from antiphon.inference_worker.engines.processor import UnifiedProcessor
from antiphon.inference_worker.metrics import WorkerMetrics
from antiphon.inference_worker.settings import WorkerSettings
from antiphon.inference_worker.work_trace import WorkTrace


@dataclass(frozen=True, slots=True)
class Bench:
    """The worker's identity, its engine, its connection to the rest."""

    worker_id: str
    broker: Broker
    processor: UnifiedProcessor
    engine: EngineThread
    settings: WorkerSettings
    counters: Counters = field(default_factory=Counters)
    trace: WorkTrace | None = None
    metrics: WorkerMetrics = field(default_factory=lambda: WorkerMetrics(CollectorRegistry()))
