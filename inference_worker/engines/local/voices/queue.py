"""The queue of the network that speaks: one synthesis at a time, the most urgent first."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

ResultT = TypeVar("ResultT")

_NEWEST_SHARE = 0.2


@dataclass(order=True, slots=True)
class _Job:
    """`needed_at` is a value of time.perf_counter(); `number` keeps the order of equal ones."""

    needed_at: float
    number: int
    symbols: int = field(compare=False)


class SynthesisQueue:
    """Threads wait here for the network, because a run of it uses the cores that there are.

    Two runs at once would take as long as one after the other, and both would be late.
    """

    def __init__(self, seconds_per_symbol: float) -> None:
        self._seconds_per_symbol = seconds_per_symbol
        self._changed = threading.Condition()
        self._numbers = itertools.count()
        self._waiting: list[_Job] = []
        self._running: tuple[_Job, float] | None = None

    def wait_s(self, needed_at: float) -> float:
        """How long a job that is needed at that time would wait for others, as an estimate."""
        with self._changed:
            ahead = [job.symbols for job in self._waiting if job.needed_at <= needed_at]
            wait = sum(ahead) * self._seconds_per_symbol
            if self._running is not None:
                job, begun = self._running
                left = job.symbols * self._seconds_per_symbol - (time.perf_counter() - begun)
                wait += max(0.0, left)
            return wait

    def run(self, work: Callable[[], ResultT], symbols: int, needed_at: float) -> ResultT:
        """Run `work`, which speaks `symbols`, when it is its turn."""
        job = _Job(needed_at, next(self._numbers), symbols)
        with self._changed:
            heapq.heappush(self._waiting, job)
            self._changed.wait_for(lambda: self._running is None and self._waiting[0] is job)
            heapq.heappop(self._waiting)
            begun = time.perf_counter()
            self._running = (job, begun)
        try:
            return work()
        finally:
            with self._changed:
                self._learn(symbols, time.perf_counter() - begun)
                self._running = None
                self._changed.notify_all()

    def _learn(self, symbols: int, seconds: float) -> None:
        newest = seconds / max(1, symbols)
        self._seconds_per_symbol += _NEWEST_SHARE * (newest - self._seconds_per_symbol)
