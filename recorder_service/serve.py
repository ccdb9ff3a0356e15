"""A recorder as a process: its work, and the port on which it tells of it."""

from __future__ import annotations

from typing import Any

import structlog

from antiphon.broker.metrics import BrokerMetrics, new_registry
from antiphon.broker.status_port import status_port
from antiphon.recorder_service.counters import RecorderCounters
from antiphon.recorder_service.metrics import RecorderMetrics
from antiphon.recorder_service.service import run
from antiphon.recorder_service.settings import RecorderSettings
from antiphon.shared_schemas.ids import new_process_id

log = structlog.get_logger()


async def serve(settings: RecorderSettings) -> None:
    """Record until SIGTERM or SIGINT.

    Raises what `run` raises, and OSError when its status port is taken.
    """
    counters = RecorderCounters()
    registry = new_registry("recorder", new_process_id("recorder"))
    registry.register(RecorderMetrics(counters))
    host, port = settings.health_host, settings.recorder_health_port
    async with status_port(host, port, lambda: health(counters), registry) as address:
        log.info("recorder_serving", status=address)
        await run(settings, counters=counters, metrics=BrokerMetrics(registry))


def health(counters: RecorderCounters) -> tuple[bool, dict[str, Any]]:
    """Well even while the disk fails: starting anew would not mend it, and nothing is lost yet."""
    status = "degraded" if counters.degraded else "healthy"
    return True, {"status": status, "sessions": counters.sessions, "degraded": counters.degraded}
