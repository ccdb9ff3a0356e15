"""A worker's life: start, serve, drain."""

from __future__ import annotations

import asyncio
import contextlib

import structlog

from broker.client import Broker, open_broker
from broker.errors import BrokerUnavailable
from broker.process import stop_on_signals
from inference_worker.bench import Bench
from inference_worker.claimer import Claimer
from inference_worker.engine_thread import EngineThread
from inference_worker.engines.factory import build_processor
from inference_worker.health import bind, health_server
from inference_worker.heartbeat import Heartbeat
from inference_worker.roster import Roster
from inference_worker.settings import WorkerSettings
from shared_schemas.ids import new_process_id
from shared_schemas.states import WorkerState

log = structlog.get_logger()


async def run(settings: WorkerSettings, stop: asyncio.Event | None = None) -> None:
    """Serve until `stop` is set (SIGTERM and SIGINT set it by default), then drain.

    Raises EngineLoadError when the engine cannot start.
    """
    stop = stop or stop_on_signals()
    processor = build_processor(
        settings.engine,
        slots=settings.slots,
        model_path=settings.model_path,
        options=settings.engine_options,
    )
    async with open_broker(settings) as broker:
        engine = EngineThread(settings.slots)
        bench = Bench(new_process_id("worker"), broker, processor, engine, settings)
        try:
            await _Worker(bench).live(stop)
        finally:
            engine.close()
            processor.close()


class _Worker:
    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._roster = Roster(bench)
        self._socket = bind(bench.settings.health_host, bench.settings.health_port)
        host, port = self._socket.getsockname()[:2]
        self._heartbeat = Heartbeat(bench, self._roster, f"{host}:{port}")
        self._background: list[asyncio.Task[None]] = []

    async def live(self, stop: asyncio.Event) -> None:
        """Start, serve until told to stop, drain; the registry forgets the worker whatever happens."""
        health = health_server(self._bench, self._roster, self._heartbeat)
        self._spawn(health.serve(sockets=[self._socket]), "health")
        self._spawn(self._heartbeat.run(), "heartbeat")
        try:
            await self._load()
            await self._serve(stop)
            await self._drain()
        finally:
            health.should_exit = True
            await self._leave(self._bench.broker)

    def _spawn(self, coroutine: object, name: str) -> None:
        task: asyncio.Task[None] = asyncio.create_task(coroutine, name=name)  # type: ignore[arg-type]
        self._background.append(task)

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
        await self._heartbeat.beat()
        log.info("worker_ready", worker=self._bench.worker_id, slots=self._bench.settings.slots)

    def _report_progress(self, stage: str) -> None:
        """Called on the engine's thread."""
        self._heartbeat.detail = stage
        log.info("engine_loading", stage=stage)

    async def _serve(self, stop: asyncio.Event) -> None:
        claimer = Claimer(self._bench, self._roster)
        watch = await self._bench.broker.watch_events()
        loops = [
            asyncio.create_task(claimer.listen(watch), name="listen"),
            asyncio.create_task(claimer.fill(), name="claim"),
        ]
        stopping = asyncio.create_task(stop.wait(), name="stop")
        everything = [*loops, *self._background, stopping]
        done, _ = await asyncio.wait(everything, return_when=asyncio.FIRST_COMPLETED)
        for task in (*loops, stopping):
            task.cancel()
        await asyncio.gather(*loops, stopping, return_exceptions=True)
        await watch.close()
        for task in done - {stopping}:
            task.result()  # a loop that ended by itself has failed

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
        for task in self._background:
            if task.get_name() != "health":
                task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        try:
            await broker.registry.worker_gone(self._bench.worker_id)
        except BrokerUnavailable as error:
            log.warning("leave_unannounced", error=str(error))
        log.info("worker_stopped")
