"""The queue for merges: a thread of their own, so that nobody's recording waits for them."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from antiphon.recorder_service.counters import RecorderCounters
from antiphon.recorder_service.merge import merge
from antiphon.recorder_service.replay_mix import Halted
from antiphon.shared_schemas.recording import Meta, ReplayState

_NICENESS = 10


class MergeRoom:
    """Merges one session after the other, with less of a claim on the processor than the rest."""

    def __init__(self, counters: RecorderCounters) -> None:
        self._counters = counters
        self._halt = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="merge", initializer=_step_back)

    async def merge(self, folder: Path) -> Meta | None:
        """Wait for the session's turn, and for its replay. Raises OSError, or Halted at the end."""
        self._counters.merges_waiting += 1
        try:
            loop = asyncio.get_running_loop()
            meta = await loop.run_in_executor(self._thread, merge, folder, self._check)
        finally:
            self._counters.merges_waiting -= 1
        self._count(meta)
        return meta

    async def close(self) -> None:
        """Break off what is being merged; what waits is not begun."""
        self._halt.set()
        await asyncio.to_thread(self._thread.shutdown, wait=True, cancel_futures=True)

    def _check(self) -> None:
        if self._halt.is_set():
            raise Halted

    def _count(self, meta: Meta | None) -> None:
        if meta is None:
            return
        if meta.replay is ReplayState.FAILED:
            self._counters.merges_failed += 1
        elif meta.merged_replay:
            self._counters.merges_done += 1
            self._counters.merged_seconds += meta.duration_s or 0.0


def _step_back() -> None:
    """On Linux a niceness is a thread's own."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
