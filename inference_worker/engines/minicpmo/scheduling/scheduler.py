"""Selects the steps that run next: the oldest one and all that may share its batch. Free of torch."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from antiphon.inference_worker.engines.minicpmo.scheduling.steps import EngineStep


@dataclass(eq=False, slots=True)
class EngineJob:
    """The running generator of a session, and the future of its caller."""

    work: Generator[EngineStep, Any, Any]
    future: Future[Any] = field(default_factory=Future)
    step: EngineStep | None = None
    abandoned: bool = False

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
    """Waiting jobs in order of arrival."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: list[EngineJob] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, job: EngineJob) -> None:
        self._waiting.append(job)

    def next_batch(self) -> list[EngineJob]:
        """Take the oldest job and up to `most` jobs of its group; empty if none waits."""
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
        jobs, self._waiting = self._waiting, []
        return jobs

    @staticmethod
    def _group(job: EngineJob) -> object:
        return job.step.group if job.step is not None else None
