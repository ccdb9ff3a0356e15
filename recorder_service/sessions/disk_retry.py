"""Work on one recording goes on for as often as the disk or Redis fails; its outages are noted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from antiphon.broker.connection import RedisClock
from antiphon.broker.errors import BrokerUnavailable
from antiphon.recorder_service.journal.journal import Line
from antiphon.recorder_service.manifest.common import trouble_line
from antiphon.recorder_service.metrics import RecorderCounters

log = structlog.get_logger()

_LONGEST_RETRY_S = 30.0


class DiskRetry:
    """Repeats work with growing pauses. `troubles` are the disk's outages so far, to be noted."""

    def __init__(
        self, recording: str, clock: RedisClock, retry_s: float, counters: RecorderCounters
    ) -> None:
        self.troubles: list[Line] = []
        self._recording = recording
        self._clock = clock
        self._retry_s = retry_s
        self._counters = counters
        self._degraded = False

    async def endure(self, work: Callable[[], Awaitable[None]]) -> None:
        """Start again from what is on disk until it has succeeded."""
        loop = asyncio.get_running_loop()
        delay = self._retry_s
        while True:
            began = loop.time()
            try:
                await work()
            except OSError as error:
                if _is_cancelled():
                    raise
                self._fell_behind(error, delay)
            except BrokerUnavailable as error:
                log.warning("recording_waits_for_redis", error=str(error))
            else:
                return self.caught_up()
            fresh = loop.time() - began > _LONGEST_RETRY_S
            delay = self._retry_s if fresh else delay
            await asyncio.sleep(delay)
            delay = min(delay * 2, _LONGEST_RETRY_S)

    def recorded(self, at_ms: float) -> None:
        """What was said at `at_ms` (Redis clock) is on disk."""
        self._counters.entries += 1
        self._counters.lag.add(self._clock.now_ms() - at_ms)
        self.caught_up()

    def caught_up(self) -> None:
        """The disk takes again what it is given, or nobody waits for it any more."""
        if self._degraded:
            self._degraded = False
            self._counters.degraded -= 1
            log.info("recording_resumed", recording=self._recording)

    def _fell_behind(self, error: OSError, delay: float) -> None:
        reason = error.strerror or str(error)
        log.error("recording_degraded", recording=self._recording, error=reason, retry_s=delay)
        self._counters.outages += 1
        if not self._degraded or self.troubles[-1]["error"] != reason:
            self.troubles.append(trouble_line(self._clock.now_ms(), reason))
        if not self._degraded:
            self._degraded = True
            self._counters.degraded += 1


def _is_cancelled() -> bool:
    """True when this task is being ended, whatever else went wrong on the way."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
