"""The objects that all sessions of one worker share, and the spans of their traces."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import NamedTuple

from prometheus_client import CollectorRegistry

from antiphon.broker.client import Broker
from antiphon.broker.connections.client import RedisClock
from antiphon.broker.service.tracing import Tracing
from antiphon.inference_worker.engines.processor import UnifiedProcessor
from antiphon.inference_worker.metrics import WorkerCounters, WorkerMetrics
from antiphon.inference_worker.sessions.engine_executor import EngineExecutor
from antiphon.inference_worker.sessions.transcripts import UserTranscriber
from antiphon.inference_worker.settings import WorkerSettings
from antiphon.shared_schemas.entries import ResultOut


class TraceContext(NamedTuple):
    """The trace of the input that an answer is for, and when that input was written (ms)."""

    trace: bytes = b""
    at: float = 0.0


class SessionTracer:
    """Records spans after the work is done, from the measured times."""

    def __init__(self, tracing: Tracing, clock: RedisClock) -> None:
        self._tracing = tracing
        self._clock = clock

    def record_unit(self, result: ResultOut, published_at: float) -> None:
        """`published_at`: when the publishing of the result began (ms)."""
        if not result.trace:
            return
        began_at = published_at - result.cost_all_ms
        about = {"antiphon.listen": result.is_listen, "antiphon.tokens": result.n_tokens}
        self._tracing.record("worker.wait", result.trace, result.received_at, began_at)
        self._tracing.record("engine", result.trace, began_at, published_at, **about)
        self._tracing.record("publish", result.trace, published_at, self._clock.now_ms())

    def record_answer(self, context: TraceContext, took_s: float, tokens: int) -> None:
        """A turn's or a chat's answer that has just been published."""
        if context.trace:
            now_ms = self._clock.now_ms()
            began_at = now_ms - took_s * 1000
            self._tracing.record("worker.wait", context.trace, context.at, began_at)
            about = {"antiphon.tokens": tokens}
            self._tracing.record("engine", context.trace, began_at, now_ms, **about)


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
