"""A worker's life: start, serve, drain."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import structlog
from structlog.contextvars import bind_contextvars

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.retry import retry_until_available
from antiphon.broker.service.metrics import BrokerMetrics, new_registry
from antiphon.broker.service.process import stop_on_signals
from antiphon.broker.service.status_port import status_port
from antiphon.broker.service.tracing import open_tracing
from antiphon.inference_worker.bench import Bench
from antiphon.inference_worker.claimer import Claimer
from antiphon.inference_worker.engine_thread import EngineThread
from antiphon.inference_worker.engines.factory import build_processor
from antiphon.inference_worker.health import health
from antiphon.inference_worker.heartbeat import Heartbeat
from antiphon.inference_worker.metrics import WorkerMetrics
from antiphon.inference_worker.roster import Roster
from antiphon.inference_worker.settings import WorkerSettings
from antiphon.inference_worker.work_trace import WorkTrace
from antiphon.shared_schemas.ids import new_process_id
from antiphon.shared_schemas.states import WorkerState

log = structlog.get_logger()


async def run(settings: WorkerSettings, stop: asyncio.Event | None = None) -> None:
    """Serve until `stop` is set (SIGTERM and SIGINT set it by default) or an operator asks; drain.

    Raises EngineLoadError when the engine cannot start.
    """
    stop = stop or stop_on_signals()
    processor = build_processor(
        settings.engine,
        slots=settings.slots,
        model_path=settings.model_path,
        options=settings.engine_options,
    )
    worker_id = new_process_id("worker")
    bind_contextvars(instance=worker_id)
    registry = new_registry("worker", worker_id)
    async with (
        open_tracing("worker", worker_id) as tracing,
        open_broker(settings, BrokerMetrics(registry)) as broker,
    ):
        engine, metrics = EngineThread(settings.slots), WorkerMetrics(registry)
        trace = WorkTrace(tracing, broker.clock) if tracing else None
        bench = Bench(worker_id, broker, processor, engine, settings, trace=trace, metrics=metrics)
        try:
            await _Worker(bench).live(stop)
        finally:
            engine.close()
            processor.close()


class _Worker:
    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._roster = Roster(bench)
        self._heartbeat = Heartbeat(bench, self._roster)
        bench.metrics.show(bench.counters, bench.settings.slots, lambda: len(self._roster))

    async def live(self, stop: asyncio.Event) -> None:
        """Start, serve until told to stop, drain; the registry forgets the worker whatever happens."""
        settings, registry = self._bench.settings, self._bench.metrics.registry
        page = status_port(settings.health_host, settings.health_port, self._health, registry)
        async with page as self._heartbeat.address:
            beating = asyncio.create_task(self._heartbeat.run(), name="heartbeat")
            try:
                await self._load()
                await self._serve(stop, beating)
                await self._drain()
            finally:
                beating.cancel()
                await asyncio.wait([beating])
                await self._leave(self._bench.broker)

    def _health(self) -> tuple[bool, dict[str, Any]]:
        return health(self._bench, self._roster, self._heartbeat)

    async def _load(self) -> None:
        log.info("engine_loading", engine=self._bench.processor.info.name)
        try:
            await self._bench.engine.call(self._bench.processor.load, self._report_progress)
        except Exception as error:
            self._heartbeat.state, self._heartbeat.detail = WorkerState.ERROR, str(error)
            with contextlib.suppress(BrokerUnavailable):
                await self._heartbeat.beat()
            raise
        self._heartbeat.state, self._heartbeat.detail = None, ""

    def _report_progress(self, stage: str) -> None:
        """Called on the engine's thread."""
        self._heartbeat.detail = stage
        log.info("engine_loading", stage=stage)

    async def _serve(self, stop: asyncio.Event, beating: asyncio.Task[None]) -> None:
        claimer = Claimer(self._bench, self._roster)
        loops = [
            asyncio.create_task(self._listen(claimer), name="listen"),
            asyncio.create_task(self._claim(claimer), name="claim"),
        ]
        ends = [
            asyncio.create_task(stop.wait(), name="stop"),
            asyncio.create_task(self._heartbeat.drain_asked.wait(), name="drain-asked"),
        ]
        everything = [*loops, beating, *ends]
        done, _ = await asyncio.wait(everything, return_when=asyncio.FIRST_COMPLETED)
        for task in (*loops, *ends):
            task.cancel()
        await asyncio.gather(*loops, *ends, return_exceptions=True)
        for task in done.difference(ends):
            task.result()  # a loop that ended by itself has failed

    async def _listen(self, claimer: Claimer) -> None:
        watch = await retry_until_available(self._bench.broker.watch_events, "watch events")
        try:
            await claimer.listen(watch)
        finally:
            await watch.close()

    async def _claim(self, claimer: Claimer) -> None:
        """Nothing is given to a worker that has not said that it is ready."""
        await retry_until_available(self._heartbeat.beat, "say that the worker is ready")
        log.info("worker_ready", worker=self._bench.worker_id, slots=self._bench.settings.slots)
        await claimer.fill()

    async def _drain(self) -> None:
        """No new claims; running sessions may end by themselves, the rest goes to other workers."""
        self._heartbeat.state = WorkerState.DRAINING
        with contextlib.suppress(BrokerUnavailable):
            await self._heartbeat.beat()
        log.info(
            "worker_draining", sessions=len(self._roster), drain_s=self._bench.settings.drain_s
        )
        try:
            async with asyncio.timeout(self._bench.settings.drain_s):
                while self._roster:
                    self._roster.changed.clear()
                    await self._roster.changed.wait()
        except TimeoutError:
            log.warning("drain_deadline", sessions=len(self._roster))
        await self._roster.hand_back()

    async def _leave(self, broker: Broker) -> None:
        try:
            await broker.registry.worker_gone(self._bench.worker_id)
        except BrokerUnavailable as error:
            log.warning("leave_unannounced", error=str(error))
        log.info("worker_stopped")
