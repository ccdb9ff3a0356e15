"""The engine thread: takes jobs from any thread, batches their steps and returns the results."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from typing import Any, TypeVar

import structlog

from antiphon.inference_worker.engines.minicpmo.device import exit_device_lost
from antiphon.inference_worker.engines.minicpmo.scheduling.runner import Runner
from antiphon.inference_worker.engines.minicpmo.scheduling.scheduler import EngineJob, Scheduler
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import Steps
from antiphon.inference_worker.engines.types import EngineError

T = TypeVar("T")

log = structlog.get_logger()


class StepAbandoned(EngineError):
    """The step was dropped because its session stopped."""


class Engine:
    """Runs the generators of sessions. Only the engine thread uses the network."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._scheduler = Scheduler(most=runner.slots)
        self._inbox: queue.SimpleQueue[EngineJob | None] = queue.SimpleQueue()
        self._closing = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._serve, name="minicpmo-engine", daemon=True)
        self._thread.start()

    def submit(self, work: Steps[Any]) -> EngineJob:
        """Start a generator. The future of the job gets its result."""
        job = EngineJob(work)
        with self._lock:
            if self._closing:
                raise EngineError("the engine is closed")
            self._inbox.put(job)
        return job

    def run(self, work: Steps[T]) -> T:
        """Run a generator to its end; return its result or raise its exception."""
        outcome: T = self.submit(work).future.result()
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
                batch = self._scheduler.next_batch()
                if batch:
                    self._step(batch)
        finally:
            # No caller may wait forever, even if the thread ends by an error.
            self._stop_accepting()
            self._abandon_all()

    def _accept_jobs(self) -> None:
        """Accept new jobs; block only if there is nothing else to do."""
        while not self._inbox.empty() or not len(self._scheduler):
            job = self._inbox.get()
            if job is None:
                return
            self._advance(job, None)

    def _step(self, batch: Sequence[EngineJob]) -> None:
        alive = [job for job in batch if not self._fail_if_abandoned(job)]
        if not alive:
            return
        answers = self._run_steps(alive)
        for job, answer in zip(alive, answers, strict=True):
            self._advance(job, answer)

    def _run_steps(self, batch: Sequence[EngineJob]) -> Sequence[Any]:
        steps = [job.step for job in batch if job.step is not None]
        try:
            return self._runner.run(steps)
        except Exception as error:
            # A failed batch fails its jobs; the engine and the other jobs continue.
            kind = type(steps[0]).__name__
            log.exception("batch_failed", step=kind, sessions=len(batch))
            if self._runner.is_device_lost():
                exit_device_lost()
            failure = error if isinstance(error, EngineError) else EngineError(f"{kind}: {error}")
            return [failure] * len(batch)

    def _fail_if_abandoned(self, job: EngineJob) -> bool:
        if job.abandoned:
            self._advance(job, StepAbandoned("the session stopped"))
        return job.abandoned

    def _advance(self, job: EngineJob, answer: Any) -> None:
        if job.advance(answer):
            self._scheduler.add(job)

    def _abandon_all(self) -> None:
        while not self._inbox.empty():
            job = self._inbox.get()
            if job is not None:
                job.future.set_exception(EngineError("the engine is closed"))
        for job in self._scheduler.take_all():
            job.advance(EngineError("the engine is closed"))
