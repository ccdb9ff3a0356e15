"""The cleanup process: sweeps recordings and orphaned keys at the start and once per interval."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Any, TypeVar

import structlog
from prometheus_client import CollectorRegistry
from structlog.contextvars import bind_contextvars

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.errors import BrokerError
from antiphon.broker.service.disk import GIB, free_bytes
from antiphon.broker.service.metrics import new_registry
from antiphon.broker.service.process import stop_on_signals, with_remedy
from antiphon.broker.service.status_port import status_port
from antiphon.cleanup_job.report import CleanupMetrics, RedisReport, SweepReport, SweepStatus
from antiphon.cleanup_job.settings import CleanupSettings
from antiphon.cleanup_job.sweep import sweep, wanted_free_bytes
from antiphon.shared_schemas.ids import new_process_id

log = structlog.get_logger()

T = TypeVar("T")

_LOSS_SHARE = 0.02
"""The loss of space, as a share of the reserve, after which a sweep is repeated."""
_WRITTEN_SHARE = 0.1
"""Of the allowed size: so much written since the last sweep starts the next one."""
_REPEAT_S = 600.0


async def run(settings: CleanupSettings) -> None:
    """Sweep until SIGTERM or SIGINT; a running sweep ends after the current deletion.

    Raises OSError when its status port is taken.
    """
    stop = stop_on_signals()
    instance = new_process_id("cleanup")
    bind_contextvars(instance=instance)
    registry = new_registry("cleanup", instance)
    host, port = settings.health_host, settings.cleanup_health_port
    healthy: tuple[bool, dict[str, Any]] = (True, {"status": "healthy"})
    page = status_port(
        host, port, lambda: healthy, registry, setting="ANTIPHON_CLEANUP_HEALTH_PORT"
    )
    async with page as address:
        log.info("cleanup_ready", data=str(settings.data_dir), status=address)
        await run_loop(settings, stop, CleanupMetrics(registry))


async def run_loop(
    settings: CleanupSettings, stop: asyncio.Event, metrics: CleanupMetrics | None = None
) -> None:
    """Sweep once per interval, and when the disk loses space, until `stop` is set.

    After a disk error the next sweep tries again.
    """
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
            await _until_next_sweep(settings, stop)
    finally:
        halt.set()
        halting.cancel()


async def _until_next_sweep(settings: CleanupSettings, stop: asyncio.Event) -> None:
    """Wait for the interval, for a loss of space that cleanup should answer, or for `stop`."""
    loop = asyncio.get_running_loop()
    began, before = loop.time(), _free_bytes(settings)
    while (left := began + settings.interval_s - loop.time()) > 0 and not stop.is_set():
        with suppress(TimeoutError):
            async with asyncio.timeout(min(left, settings.disk_check_s)):
                await stop.wait()
        waited_s = loop.time() - began
        if _lost_space(settings, before, _free_bytes(settings), waited_s=waited_s):
            return


def _free_bytes(settings: CleanupSettings) -> float:
    try:
        return free_bytes(settings.data_dir)
    except OSError:  # the next sweep reports it
        return float("inf")


def _lost_space(settings: CleanupSettings, before: float, now: float, *, waited_s: float) -> bool:
    """Whether a sweep may help: the reserve is reached, or a tenth of the allowed size was written.

    A sweep that could not free enough is repeated when more is lost, or after ten minutes.
    """
    if settings.max_storage_gb < 0:
        return False
    wanted = wanted_free_bytes(settings)
    if now < wanted:
        return before >= wanted or before - now > wanted * _LOSS_SHARE or waited_s > _REPEAT_S
    return before - now > max(settings.max_storage_gb * GIB * _WRITTEN_SHARE, wanted * _LOSS_SHARE)


async def _forward_stop(stop: asyncio.Event, halt: threading.Event) -> None:
    await stop.wait()
    halt.set()


async def run_once(settings: CleanupSettings, halt: threading.Event | None = None) -> SweepReport:
    """Sweep now, until done or `halt` is set. Raises OSError when `data_dir` cannot be used at all.

    Without Redis the disk is swept too; recordings in progress are left alone.
    """
    halt = halt or threading.Event()
    serving = await _with_redis(settings, live_recordings, lambda _: frozenset[str]())
    report = await asyncio.to_thread(sweep, settings, halt, serving)
    if report.status is not SweepStatus.BUSY and not halt.is_set():
        redis = await _with_redis(
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


async def _with_redis(
    settings: CleanupSettings,
    step: Callable[[Broker], Awaitable[T]],
    fallback: Callable[[BrokerError], T],
) -> T:
    """The answer of Redis, or `fallback` when Redis is unavailable."""
    try:
        async with open_broker(settings) as broker:
            return await step(broker)
    except BrokerError as error:
        log.warning("cleanup_without_redis", error=with_remedy(error))
        return fallback(error)
