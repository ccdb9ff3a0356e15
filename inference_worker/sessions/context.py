"""The objects that all sessions of one worker share."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from antiphon.broker.client import Broker
from antiphon.inference_worker.engines.processor import UnifiedProcessor
from antiphon.inference_worker.metrics import WorkerCounters, WorkerMetrics
from antiphon.inference_worker.sessions.engine_executor import EngineExecutor
from antiphon.inference_worker.sessions.tracing import SessionTracer
from antiphon.inference_worker.sessions.transcripts import UserTranscriber
from antiphon.inference_worker.settings import WorkerSettings


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """The worker's identity, engine, Redis client, settings and counters."""

    worker_id: str
    broker: Broker
    processor: UnifiedProcessor
    engine: EngineExecutor
    settings: WorkerSettings
    counters: WorkerCounters = field(default_factory=WorkerCounters)
    contended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while every slot is taken and sessions wait that this worker could serve."""
    tracer: SessionTracer | None = None
    transcriber: UserTranscriber | None = None
    metrics: WorkerMetrics = field(default_factory=lambda: WorkerMetrics(CollectorRegistry()))
