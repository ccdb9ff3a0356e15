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
_FORGIVEN = 0.9


@dataclass(order=True, slots=True)
class _Job:
    """`needed_at` is a value of time.perf_counter(); `number` keeps the order of equal ones."""

    needed_at: float
    number: int
    letters: int = field(compare=False)


class SynthesisQueue:
    """Threads wait here for the network, because a run of it uses the cores that there are.

    Two runs at once would take as long as one after the other, and both would be late.
    """

    def __init__(self, seconds_per_letter: float) -> None:
        self._seconds_per_letter = seconds_per_letter
        self._changed = threading.Condition()
        self._numbers = itertools.count()
        self._waiting: list[_Job] = []
        self._running: tuple[_Job, float] | None = None

    def estimate_s(self, letters: int, needed_at: float) -> tuple[float, float]:
        """How long a job would wait for others, and how long it would run then."""
        with self._changed:
            ahead = [job.letters for job in self._waiting if job.needed_at <= needed_at]
            wait = sum(ahead) * self._seconds_per_letter
            if self._running is not None:
                job, begun = self._running
                left = job.letters * self._seconds_per_letter - (time.perf_counter() - begun)
                wait += max(0.0, left)
            return wait, letters * self._seconds_per_letter

    def forgive(self) -> None:
        """A job was given up because of the estimate, so it will not be corrected: lower it a little."""
        with self._changed:
            self._seconds_per_letter *= _FORGIVEN

    def run(self, work: Callable[[], ResultT], letters: int, needed_at: float) -> ResultT:
        """Run `work`, which speaks a text of that length, when it is its turn."""
        job = _Job(needed_at, next(self._numbers), letters)
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
                self._learn(letters, time.perf_counter() - begun)
                self._running = None
                self._changed.notify_all()

    def _learn(self, letters: int, seconds: float) -> None:
        newest = seconds / max(1, letters)
        self._seconds_per_letter += _NEWEST_SHARE * (newest - self._seconds_per_letter)
