"""The cleanup process: sweeps recordings and orphaned keys at the start and once per interval."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any, TypeVar

import structlog
from prometheus_client import CollectorRegistry

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.errors import BrokerError
from antiphon.broker.service.metrics import new_registry
from antiphon.broker.service.process import stop_on_signals
from antiphon.broker.service.status_port import status_port
from antiphon.cleanup_job.metrics import CleanupMetrics
from antiphon.cleanup_job.report import RedisReport, SweepReport, SweepStatus
from antiphon.cleanup_job.settings import CleanupSettings
from antiphon.cleanup_job.sweep import sweep
from antiphon.shared_schemas.ids import new_process_id

log = structlog.get_logger()

T = TypeVar("T")


async def run(settings: CleanupSettings) -> None:
    """Sweep until SIGTERM or SIGINT; a running sweep ends after the current deletion.

    Raises OSError when its status port is taken.
    """
    stop = stop_on_signals()
    registry = new_registry("cleanup", new_process_id("cleanup"))
    port = settings.cleanup_health_port
    healthy: tuple[bool, dict[str, Any]] = (True, {"status": "healthy"})
    async with status_port(settings.health_host, port, lambda: healthy, registry) as address:
        log.info("cleanup_ready", data=str(settings.data_dir), status=address)
        await run_loop(settings, stop, CleanupMetrics(registry))


async def run_loop(
    settings: CleanupSettings, stop: asyncio.Event, metrics: CleanupMetrics | None = None
) -> None:
    """Sweep once per interval until `stop` is set. After a disk error the next sweep tries again."""
    metrics = metrics or CleanupMetrics(CollectorRegistry())
    halt = threading.Event()
    halting = asyncio.create_task(_forward_stop(stop, halt))
    try:
        while not stop.is_set():
            try:
                metrics.observe(await run_once(settings, halt))
            except OSError:
                metrics.fail()
                log.exception("cleanup_failed", data=str(settings.data_dir))
            await asyncio.wait([halting], timeout=settings.interval_s)
    finally:
        halt.set()
        halting.cancel()


async def _forward_stop(stop: asyncio.Event, halt: threading.Event) -> None:
    await stop.wait()
    halt.set()


async def run_once(settings: CleanupSettings, halt: threading.Event | None = None) -> SweepReport:
    """Sweep now, until done or `halt` is set. Raises OSError when `data_dir` cannot be used at all.

    Without Redis the disk is swept too; recordings in progress are left alone.
    """
    halt = halt or threading.Event()
    serving = await _ask(settings, live_recordings, lambda _: frozenset[str]())
    report = await asyncio.to_thread(sweep, settings, halt, serving)
    if report.status is not SweepStatus.BUSY and not halt.is_set():
        redis = await _ask(
            settings,
            lambda broker: _sweep_redis(broker, report),
            lambda error: RedisReport(error=str(error)),
        )
        report = report.model_copy(update={"redis": redis})
    log.info("cleanup_swept", **report.model_dump(mode="json"))
    return report


async def live_recordings(broker: Broker) -> frozenset[str]:
    """Recording ids of all waiting and running sessions."""
    snapshot = await broker.queue.snapshot()
    sids = [one.sid for one in snapshot.running] + [one.sid for one in snapshot.waiting]
    rows = [await broker.sessions.get(sid) for sid in sids]
    return frozenset(row.recording for row in rows if row is not None)


async def _sweep_redis(broker: Broker, report: SweepReport) -> RedisReport:
    gone = [] if report.dry_run else [removal.session for removal in report.removed]
    shares = [await broker.shares.forget(recording) for recording in gone]
    swept = await broker.orphaned_keys.sweep(dry_run=report.dry_run)
    return RedisReport(**asdict(swept), shares=sum(shares))


async def _ask(
    settings: CleanupSettings,
    question: Callable[[Broker], Awaitable[T]],
    otherwise: Callable[[BrokerError], T],
) -> T:
    """The answer of Redis, or `otherwise` when Redis is unavailable."""
    try:
        async with open_broker(settings) as broker:
            return await question(broker)
    except BrokerError as error:
        log.warning("cleanup_without_redis", error=str(error))
        return otherwise(error)
