"""Which waiting steps run next: the oldest one and everything that may share its batch. No torch."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from antiphon.inference_worker.engines.minicpmo.scheduling.steps import EngineStep


@dataclass(eq=False, slots=True)
class EngineJob:
    """A session's generator under way and the caller that waits for its outcome."""

    work: Generator[EngineStep, Any, Any]
    future: Future[Any] = field(default_factory=Future)
    step: EngineStep | None = None
    abandoned: bool = False

    def advance(self, answer: Any) -> bool:
        """Hand in an answer (an exception is raised inside); whether another step is wanted.

        Whatever the session raises ends this job alone: its caller gets it.
        """
        try:
            if isinstance(answer, BaseException):
                self.step = self.work.throw(answer)
            else:
                self.step = self.work.send(answer)
        except StopIteration as end:
            self.future.set_result(end.value)
            return False
        except Exception as error:  # noqa: BLE001  # the session's boundary: handed to its caller
            self.future.set_exception(error)
            return False
        return True


class Scheduler:
    """Waiting jobs in order of arrival."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: list[EngineJob] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, job: EngineJob) -> None:
        """Let a job that wants a step wait its turn."""
        self._waiting.append(job)

    def next_batch(self) -> list[EngineJob]:
        """Take the oldest job and up to `most` that share its group; empty when none waits."""
        if not self._waiting:
            return []
        group = self._group(self._waiting[0])
        if group is None:
            return [self._waiting.pop(0)]
        batch = [job for job in self._waiting if self._group(job) == group][: self._most]
        taken = set(map(id, batch))
        self._waiting = [job for job in self._waiting if id(job) not in taken]
        return batch

    def take_all(self) -> list[EngineJob]:
        """Empty the queue."""
        jobs, self._waiting = self._waiting, []
        return jobs

    @staticmethod
    def _group(job: EngineJob) -> object:
        return job.step.group if job.step is not None else None
