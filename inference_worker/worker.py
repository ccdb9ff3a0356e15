"""A worker process: load the engine, claim and serve sessions, drain."""

import asyncio
import contextlib

import structlog
from structlog.contextvars import bind_contextvars

from antiphon.broker.client import open_broker
from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.retry import retry_until_available
from antiphon.broker.service.metrics import BrokerMetrics, new_registry
from antiphon.broker.service.process import first_of, freeze_heap, stop_on_signals
from antiphon.broker.service.status_port import status_port
from antiphon.broker.service.tracing import open_tracing
from antiphon.inference_worker.engines.factory import build_processor
from antiphon.inference_worker.heartbeat import WorkerHeartbeat
from antiphon.inference_worker.metrics import WorkerMetrics
from antiphon.inference_worker.pool import SessionPool
from antiphon.inference_worker.sessions.transcripts import UserTranscriber
from antiphon.inference_worker.sessions.worker_context import (
    EngineExecutor,
    SessionTracer,
    WorkerContext,
    finish_despite_cancel,
)
from antiphon.inference_worker.settings import WorkerSettings
from antiphon.shared_schemas.ids import new_process_id
from antiphon.shared_schemas.states import WAITING_STATES, SessionState, WorkerState

log = structlog.get_logger()

_HAND_OVER_S = 5.0
"""Time to hand over the sessions before the service manager kills the worker."""

_CLAIM_FALLBACK_S = 1.0
"""Claim at this interval even without an event."""


async def run(settings: WorkerSettings, stop: asyncio.Event | None = None) -> None:
    """Serve until `stop` is set (by default on SIGTERM and SIGINT) or an operator asks, then drain.

    A second signal ends the drain.

    Raises EngineLoadError if the engine cannot start.
    """
    hurry = asyncio.Event()
    stop = stop or stop_on_signals(again=hurry)
    processor = build_processor(
        settings.engine,
        slots=settings.slots,
        model_path=settings.engine_model_path,
        options=settings.all_engine_options,
    )
    worker_id = new_process_id("worker")
    bind_contextvars(instance=worker_id)
    registry = new_registry("worker", worker_id)
    async with (
        open_tracing("worker", worker_id) as tracing,
        open_broker(settings, BrokerMetrics(registry)) as broker,
    ):
        engine, metrics = EngineExecutor(settings.slots), WorkerMetrics(registry)
        tracer = SessionTracer(tracing, broker.clock) if tracing else None
        transcriber = (
            UserTranscriber() if settings.transcribe and settings.engine != "local" else None
        )
        context = WorkerContext(
            worker_id,
            broker,
            processor,
            engine,
            settings,
            tracer=tracer,
            transcriber=transcriber,
            metrics=metrics,
        )
        try:
            await _Worker(context).run(stop, hurry)
        finally:
            engine.close()
            processor.close()
            if transcriber is not None:
                transcriber.close()


class _Worker:
    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._pool = SessionPool(context)
        self._heartbeat = WorkerHeartbeat(context, self._pool)
        context.metrics.show(context.counters, context.settings.slots, lambda: len(self._pool))

    async def run(self, stop: asyncio.Event, hurry: asyncio.Event) -> None:
        """Load, serve until asked to stop, drain. The registry row is removed in any case."""
        settings, registry = self._context.settings, self._context.metrics.registry
        host, port = settings.health_host, settings.health_port
        page = status_port(
            host, port, self._heartbeat.health, registry, setting="ANTIPHON_HEALTH_PORT"
        )
        async with page as self._heartbeat.address:
            beating = asyncio.create_task(self._heartbeat.run(), name="heartbeat")
            try:
                await self._load()
                freeze_heap()
                await self._serve(stop, beating)
                await self._drain(stop, hurry)
            finally:
                beating.cancel()
                await asyncio.wait([beating])
                await self._leave()

    async def _load(self) -> None:
        log.info("engine_loading", engine=self._context.processor.info.name)
        try:
            await self._context.engine.call(self._load_models)
        except Exception as error:
            self._heartbeat.state, self._heartbeat.detail = WorkerState.ERROR, str(error)
            with contextlib.suppress(BrokerUnavailable):
                await self._heartbeat.beat()
            raise
        self._heartbeat.state, self._heartbeat.detail = None, ""

    def _load_models(self) -> None:
        self._context.processor.load(self._report_progress)
        if self._context.transcriber is not None:
            self._report_progress("speech recogniser for transcripts")
            self._context.transcriber.load()

    def _report_progress(self, stage: str) -> None:
        """Called on an engine thread."""
        self._heartbeat.detail = stage
        log.info("engine_loading", stage=stage)

    async def _serve(self, stop: asyncio.Event, beating: asyncio.Task[None]) -> None:
        """Raises the error of a loop that has failed."""
        claimer = Claimer(self._context, self._pool)
        loops = claimer.listen(), self._claim(claimer), asyncio.shield(beating)
        await first_of(*loops, stop.wait(), self._heartbeat.drain_asked.wait())

    async def _claim(self, claimer: "Claimer") -> None:
        """Claim only after the registry shows that the worker is ready."""
        await retry_until_available(self._heartbeat.beat, "report that the worker is ready")
        log.info("worker_ready", worker=self._context.worker_id, slots=self._context.settings.slots)
        await claimer.fill()

    async def _drain(self, stop: asyncio.Event, hurry: asyncio.Event) -> None:
        """Claim nothing new, wait for running sessions, hand the rest over to other workers."""
        self._heartbeat.state = WorkerState.DRAINING
        settings = self._context.settings
        log.info("worker_draining", sessions=len(self._pool), drain_s=settings.drain_s)
        ends = [
            asyncio.create_task(self._until_empty(), name="until-empty"),
            asyncio.create_task(hurry.wait(), name="hurry"),
        ]
        if settings.stop_grace_s is not None:
            killed = self._until_killed(stop, settings.stop_grace_s)
            ends.append(asyncio.create_task(killed, name="until-killed"))
        with contextlib.suppress(BrokerUnavailable):
            await self._heartbeat.beat()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(settings.drain_s):
                await first_of(*ends)
        if self._pool:
            log.warning("drain_deadline", sessions=len(self._pool))
        await self._pool.hand_over()

    async def _until_empty(self) -> None:
        while self._pool:
            self._pool.changed.clear()
            await self._pool.changed.wait()

    async def _until_killed(self, stop: asyncio.Event, grace_s: float) -> None:
        """Until shortly before the service manager, which has set `stop`, kills the worker."""
        await stop.wait()
        await asyncio.sleep(grace_s - min(_HAND_OVER_S, grace_s / 2))

    async def _leave(self) -> None:
        try:
            await self._context.broker.registry.worker_gone(self._context.worker_id)
        except BrokerUnavailable as error:
            log.warning("leave_unannounced", error=str(error))
        log.info("worker_stopped")


class Claimer:
    """Two loops: one follows session events, the other claims."""

    def __init__(self, context: WorkerContext, pool: SessionPool) -> None:
        self._context = context
        self._pool = pool

    async def listen(self) -> None:
        """Wake the claim loop for waiting sessions; abort ended ones."""
        async for events in self._context.broker.events.follow():
            for event in events:
                if event.state in WAITING_STATES:
                    self._pool.changed.set()
                elif event.state is SessionState.ENDED:
                    self._pool.abort_ended(event.ticket)

    async def fill(self) -> None:
        """Claim while there is a free slot and a waiting session; then wait for a change."""
        while True:
            self._pool.changed.clear()
            try:
                # A claim that Redis has made must be started, even if the drain begins.
                while self._pool.free > 0 and await finish_despite_cancel(
                    asyncio.create_task(self._claim_one(), name="claim-one")
                ):
                    pass
            except BrokerUnavailable as error:
                log.warning("claim_failed", error=str(error))
            try:
                async with asyncio.timeout(_CLAIM_FALLBACK_S):
                    await self._pool.changed.wait()
            except TimeoutError:
                continue

    async def _claim_one(self) -> bool:
        """True if a session was waiting."""
        claim = await self._context.broker.leases.claim(self._context.worker_id)
        if claim is not None:
            self._pool.start(claim)
        return claim is not None
