"""The cleanup job's life: a sweep now, and one every interval until it is told to stop."""

from __future__ import annotations

import asyncio
import threading

import structlog

from broker.process import stop_on_signals
from cleanup_job.settings import CleanupSettings
from cleanup_job.sweep import run_once

log = structlog.get_logger()


async def run(settings: CleanupSettings) -> None:
    """Sweep until SIGTERM or SIGINT; one that is under way ends after the deletion it is at."""
    await run_loop(settings, stop_on_signals())


async def run_loop(settings: CleanupSettings, stop: asyncio.Event) -> None:
    """Sweep, wait, sweep again, until `stop` is set. A disk that fails is tried again next time."""
    halt = threading.Event()
    halting = asyncio.create_task(_pass_on(stop, halt))
    try:
        while not stop.is_set():
            try:
                await run_once(settings, halt)
            except OSError:
                log.exception("cleanup_failed", data=str(settings.data_dir))
            await asyncio.wait([halting], timeout=settings.interval_s)
    finally:
        halt.set()
        halting.cancel()


async def _pass_on(stop: asyncio.Event, halt: threading.Event) -> None:
    await stop.wait()
    halt.set()
