"""The cleanup process: sweeps at the start and then once per interval."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import structlog
from prometheus_client import CollectorRegistry

from antiphon.broker.service.metrics import new_registry
from antiphon.broker.service.process import stop_on_signals
from antiphon.broker.service.status_port import status_port
from antiphon.cleanup_job.metrics import CleanupMetrics
from antiphon.cleanup_job.once import run_once
from antiphon.cleanup_job.settings import CleanupSettings
from antiphon.shared_schemas.ids import new_process_id

log = structlog.get_logger()


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
