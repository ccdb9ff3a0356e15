"""The engine thread: takes jobs from any thread, batches their steps and returns the results."""

import queue
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

import structlog

from antiphon.inference_worker.engines.minicpmo.device import exit_device_lost
from antiphon.inference_worker.engines.minicpmo.scheduling.code_decoder import DrawnCodes
from antiphon.inference_worker.engines.minicpmo.scheduling.model_runner import ModelRunner
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    CODES_BESIDE,
    CODES_PER_STEP,
    MAX_STEP_TOKENS,
    EngineStep,
    Steps,
    TokenStep,
)
from antiphon.inference_worker.engines.types import EngineError

T = TypeVar("T")

log = structlog.get_logger()


class StepAbandoned(EngineError):
    """The step was dropped because its session stopped."""


@dataclass(eq=False, slots=True)
class EngineJob:
    """The running generator of a session, and the future of its caller."""

    work: Generator[EngineStep, Any, Any]
    future: Future[Any] = field(default_factory=Future)
    step: EngineStep | None = None
    abandoned: bool = False
    group: object = None
    """Jobs that wait with equal groups may share a batch; None runs alone."""
    share: float = 0.0
    """What the job takes of the limit of a batch."""

    def advance(self, answer: Any) -> bool:
        """Send an answer to the generator (an exception is thrown into it); returns whether it has
        another step.

        An exception of the generator ends this job only and goes to its caller.
        """
        try:
            if isinstance(answer, BaseException):
                self.step = self.work.throw(answer)
            else:
                self.step = self.work.send(answer)
        except StopIteration as end:
            self.future.set_result(end.value)
            return False
        except Exception as error:  # noqa: BLE001  # passed on to the caller of the job
            self.future.set_exception(error)
            return False
        return True


class Scheduler:
    """Waiting jobs in order of arrival. The oldest of the least patient runs next, with all that may share
    its batch.

    With `ragged`, feeds of any length share a batch of at most MAX_STEP_TOKENS tokens. With `codes_first`,
    codes go before other steps that are as patient: they run beside them.
    """

    def __init__(
        self,
        most: int,
        *,
        ragged: bool = False,
        codes_first: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = most
        self._ragged = ragged
        self._codes_first = codes_first
        self._clock = clock
        self._waiting: list[EngineJob] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, job: EngineJob) -> None:
        step = job.step
        if self._ragged and isinstance(step, TokenStep):
            job.group, job.share = step.ragged_group, step.size / MAX_STEP_TOKENS
        elif step is not None:
            job.group, job.share = step.group, step.share
        self._waiting.append(job)

    def waits_without_codes(self) -> bool:
        """Whether a job waits for another step than codes."""
        return any(not _draws_codes(job) for job in self._waiting)

    def next_batch(self, *, with_codes: bool = True) -> list[EngineJob]:
        """Take the first job and up to `most` jobs of its group; empty if none waits. Unless
        `with_codes`, jobs that draw codes keep waiting.
        """
        now = self._clock()
        able = [job for job in self._waiting if with_codes or not _draws_codes(job)]
        first = min(able, key=lambda job: self._rank(job, now), default=None)
        if first is None:
            return []
        if first.group is None:
            self._waiting.remove(first)
            return [first]
        batch, others, room = list[EngineJob](), list[EngineJob](), 1.0
        for job in self._waiting:
            if job.group == first.group and len(batch) < self._most and job.share <= room:
                batch.append(job)
                room -= job.share
            else:
                others.append(job)
        self._waiting = others
        return batch

    def take_all(self) -> list[EngineJob]:
        jobs, self._waiting = self._waiting, []
        return jobs

    def _rank(self, job: EngineJob, now: float) -> tuple[int, bool]:
        if job.abandoned:  # its session waits for the end
            return -1, False
        patience = job.step.patience(now) if job.step is not None else 0
        return patience, self._codes_first and not _draws_codes(job)


def _draws_codes(job: EngineJob) -> bool:
    return job.step is not None and job.step.draws_codes


class Engine:
    """Runs the generators of sessions. Only the engine thread uses the network.

    If the runner can start codes, one batch of them runs beside the other steps. `clock` counts seconds.
    """

    def __init__(self, runner: ModelRunner, clock: Callable[[], float] = time.monotonic) -> None:
        self._runner = runner
        self._scheduler = Scheduler(
            most=runner.slots, ragged=runner.ragged, codes_first=runner.starts_codes, clock=clock
        )
        self._inbox: queue.SimpleQueue[EngineJob | None] = queue.SimpleQueue()
        self.codes_per_step = CODES_BESIDE if runner.starts_codes else CODES_PER_STEP
        self._started: tuple[list[EngineJob], DrawnCodes] | None = None
        self._closing = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._serve, name="minicpmo-engine", daemon=True)
        self._thread.start()

    def submit(self, job: EngineJob) -> Future[Any]:
        """Start a job. The future gets the result of its generator."""
        with self._lock:
            if self._closing:
                raise EngineError("the engine is closed")
            self._inbox.put(job)
        return job.future

    def run(self, work: Steps[T]) -> T:
        """Run a generator to its end; return its result or raise its exception."""
        outcome: T = self.submit(EngineJob(work)).result()
        return outcome

    def close(self) -> None:
        """Abandon all work and end the thread. A second call does nothing."""
        self._stop_accepting()
        self._thread.join()

    def _stop_accepting(self) -> None:
        with self._lock:
            self._closing = True
            self._inbox.put(None)

    def _serve(self) -> None:
        self._runner.enter_thread()
        try:
            while not self._closing:
                self._accept_jobs()
                self._finish_codes()
                batch = self._scheduler.next_batch(with_codes=self._started is None)
                if batch:
                    self._step(batch)
        finally:
            # No caller may wait forever, even if the thread ends by an error.
            self._stop_accepting()
            self._abandon_all()

    def _accept_jobs(self) -> None:
        """Accept new jobs; block only if there is nothing else to do."""
        while not self._inbox.empty() or not (len(self._scheduler) or self._started):
            job = self._inbox.get()
            if job is None:
                return
            self._advance(job, None)

    def _step(self, batch: Sequence[EngineJob]) -> None:
        alive = [job for job in batch if not self._fail_if_abandoned(job)]
        if not alive:
            return
        steps: list[Any] = [job.step for job in alive]
        try:
            if self._runner.starts_codes and steps[0].draws_codes:
                self._started = alive, self._runner.start(steps)
                return
            answers = self._runner.run(steps)
        except Exception as error:  # noqa: BLE001  # becomes the result of each job
            answers = self._failures(alive, error)
        self._answer(alive, answers)

    def _finish_codes(self) -> None:
        """Take the started codes if they are drawn; wait for them if no other step can run."""
        if self._started is None:
            return
        jobs, codes = self._started
        try:
            if self._scheduler.waits_without_codes() and not codes.is_ready():
                return
            answers: Sequence[Any] = codes.read()
        except Exception as error:  # noqa: BLE001  # becomes the result of each job
            answers = self._failures(jobs, error)
        self._started = None
        self._answer(jobs, answers)

    def _answer(self, jobs: Sequence[EngineJob], answers: Sequence[Any]) -> None:
        for job, answer in zip(jobs, answers, strict=True):
            self._advance(job, answer)

    def _failures(self, batch: Sequence[EngineJob], error: Exception) -> list[EngineError]:
        """A failed batch fails its jobs; the engine and the other jobs continue."""
        kind = type(batch[0].step).__name__
        log.error("batch_failed", step=kind, sessions=len(batch), exc_info=error)
        if self._runner.is_device_lost():
            exit_device_lost()
        failure = error if isinstance(error, EngineError) else EngineError(f"{kind}: {error}")
        return [failure] * len(batch)

    def _fail_if_abandoned(self, job: EngineJob) -> bool:
        if not job.abandoned:  # read once: other threads set it
            return False
        self._advance(job, StepAbandoned("the session stopped"))
        return True

    def _advance(self, job: EngineJob, answer: Any) -> None:
        if job.advance(answer):
            self._scheduler.add(job)

    def _abandon_all(self) -> None:
        while not self._inbox.empty():
            job = self._inbox.get()
            if job is not None:
                job.future.set_exception(EngineError("the engine is closed"))
        started, _ = self._started or ([], None)
        for job in [*started, *self._scheduler.take_all()]:
            job.advance(EngineError("the engine is closed"))
