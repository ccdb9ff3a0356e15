"""The queue of the network that speaks: one synthesis at a time, the most urgent first."""

from __future__ import annotations

import heapq
import itertools
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from antiphon.inference_worker.engines.local.voices.cancellation import (
    Cancellation,
    SynthesisCancelled,
)

ResultT = TypeVar("ResultT")

OVERHEAD_LETTERS = 7
"""A run takes as long as its letters and these: the silence around them is computed too."""

_RECENT_RUNS = 5
"""Their median is the speed: a machine that stalls for a moment is not slow."""

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
        self._speeds = deque([seconds_per_letter] * _RECENT_RUNS, maxlen=_RECENT_RUNS)
        """Seconds per letter of recent runs."""
        self._changed = threading.Condition()
        self._numbers = itertools.count()
        self._waiting: list[_Job] = []
        self._running: tuple[_Job, float] | None = None

    def estimate_s(self, letters: int, needed_at: float) -> tuple[float, float]:
        """How long a job would wait for others, and how long it would run then."""
        with self._changed:
            ahead = [job.letters for job in self._waiting if job.needed_at <= needed_at]
            wait = sum(map(self._run_s, ahead))
            if self._running is not None:
                job, begun = self._running
                wait += max(0.0, self._run_s(job.letters) - (time.perf_counter() - begun))
            return wait, self._run_s(letters)

    def longest_s(self, letters: int) -> float:
        """How long a job would run at the lowest speed of recent ones."""
        with self._changed:
            return (letters + OVERHEAD_LETTERS) * max(self._speeds)

    def forgive(self) -> None:
        """A job was given up because of the estimate, so it will not be corrected: lower it a little."""
        with self._changed:
            lower = [speed * _FORGIVEN for speed in self._speeds]
            self._speeds.extend(lower)

    def run(
        self,
        work: Callable[[], ResultT],
        letters: int,
        needed_at: float,
        cancellation: Cancellation | None = None,
    ) -> ResultT:
        """Run `work`, which speaks a text of that length, when it is its turn.

        Raises SynthesisCancelled if it is cancelled before, or what `work` raises.
        """
        cancellation = cancellation or Cancellation()
        job = _Job(needed_at, next(self._numbers), letters)
        with cancellation.ends_by(self._wake):
            begun = self._await_turn(job, cancellation)
        try:
            said = work()
            seconds = time.perf_counter() - begun
            with self._changed:
                self._speeds.append(seconds / (letters + OVERHEAD_LETTERS))
        finally:
            with self._changed:
                self._running = None
                self._changed.notify_all()
        return said

    def _await_turn(self, job: _Job, cancellation: Cancellation) -> float:
        """When the job began, as a value of time.perf_counter()."""
        with self._changed:
            heapq.heappush(self._waiting, job)
            while self._running is not None or self._waiting[0] is not job:
                if cancellation.is_set():
                    self._waiting.remove(job)
                    heapq.heapify(self._waiting)
                    self._changed.notify_all()
                    raise SynthesisCancelled
                self._changed.wait()
            heapq.heappop(self._waiting)
            begun = time.perf_counter()
            self._running = (job, begun)
            return begun

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _run_s(self, letters: int) -> float:
        return (letters + OVERHEAD_LETTERS) * statistics.median(self._speeds)
