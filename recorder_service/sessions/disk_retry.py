"""Repeats the work on one recording while the disk or Redis fails, and notes the disk's outages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from antiphon.broker.connection import RedisClock
from antiphon.broker.errors import BrokerUnavailable
from antiphon.recorder_service.journal.journal import OutageStart
from antiphon.recorder_service.metrics import RecorderMetrics

log = structlog.get_logger()

_LONGEST_RETRY_S = 30.0


class DiskRetry:
    """Repeats work with growing pauses. `outages`: the disk's outages so far."""

    def __init__(
        self, recording: str, clock: RedisClock, retry_s: float, metrics: RecorderMetrics
    ) -> None:
        self.outages: list[OutageStart] = []
        self._recording = recording
        self._clock = clock
        self._retry_s = retry_s
        self._metrics = metrics
        self._degraded = False

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Repeat `work`, which continues from what is on disk, until it succeeds."""
        loop = asyncio.get_running_loop()
        delay = self._retry_s
        while True:
            began = loop.time()
            try:
                await work()
            except OSError as error:
                if _is_cancelled():
                    raise
                self._disk_failed(error, delay)
            except BrokerUnavailable as error:
                log.warning("recording_waits_for_redis", error=str(error))
            else:
                return self.disk_recovered()
            if loop.time() - began > _LONGEST_RETRY_S:  # it worked for a while: a new outage
                delay = self._retry_s
            await asyncio.sleep(delay)
            delay = min(delay * 2, _LONGEST_RETRY_S)

    def recorded(self, at_ms: float) -> None:
        """Count an entry that was appended at `at_ms` (Redis clock) and is now on disk."""
        self._metrics.entries.inc()
        self._metrics.lag.observe(max(0.0, self._clock.now_ms() - at_ms) / 1000)
        self.disk_recovered()

    def disk_recovered(self) -> None:
        """The disk accepts writes again, or the session has nothing left to write."""
        if self._degraded:
            self._degraded = False
            self._metrics.degraded -= 1
            log.info("recording_resumed", recording=self._recording)

    def _disk_failed(self, error: OSError, delay: float) -> None:
        reason = error.strerror or str(error)
        log.error("recording_degraded", recording=self._recording, error=reason, retry_s=delay)
        self._metrics.disk_errors.inc()
        if not self._degraded or self.outages[-1].error != reason:
            self.outages.append(OutageStart(round(self._clock.now_ms(), 3), reason))
        if not self._degraded:
            self._degraded = True
            self._metrics.degraded += 1


def _is_cancelled() -> bool:
    """True while this task is being cancelled: the OSError is then a consequence."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
