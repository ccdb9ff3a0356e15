"""One thread serves those who ask: all that wait by then are one batch, and nobody waits for company."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

Request = TypeVar("Request")
Reply = TypeVar("Reply")

Pending = tuple[Request, "Future[Reply]"]


class MicroBatcher(Generic[Request, Reply]):
    """`serve` gets what was asked and returns an answer or an exception for each.

    It is always run by the same thread: cuDNN finds its plans anew in every thread that it meets.
    """

    def __init__(self, serve: Callable[[list[Request]], Sequence[Reply | BaseException]]) -> None:
        self._serve = serve
        self._inbox: queue.SimpleQueue[list[Pending[Request, Reply]]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="token2wav", daemon=True)
        self._thread.start()

    def run(self, asked: Request) -> Reply:
        """The answer, or what was raised for this question."""
        [answer] = self.run_batch([asked])
        return answer

    def run_batch(self, asked: Sequence[Request]) -> list[Reply]:
        """The answers of one batch. Raises what was raised for the first question that has none."""
        seats: list[Pending[Request, Reply]] = [(each, Future()) for each in asked]
        self._inbox.put(seats)
        return [answer.result() for _, answer in seats]

    def close(self) -> None:
        """Serve those who wait, and end the thread. Nobody may ask any more."""
        self._inbox.put([])
        self._thread.join()

    def _run(self) -> None:
        while batch := self._next_batch():
            self._answer(batch)

    def _next_batch(self) -> list[Pending[Request, Reply]]:
        """At least one, in the order in which they came; none at the end."""
        batch = self._inbox.get()
        while batch and not self._inbox.empty():
            more = self._inbox.get()
            if not more:
                self._inbox.put(more)  # found again once this batch is served
                break
            batch = batch + more
        return batch

    def _answer(self, batch: list[Pending[Request, Reply]]) -> None:
        answers = self._answers([asked for asked, _ in batch])
        for (_, seat), answer in zip(batch, answers, strict=True):
            if isinstance(answer, BaseException):
                seat.set_exception(answer)
            else:
                seat.set_result(answer)

    def _answers(self, asked: list[Request]) -> list[Reply | BaseException]:
        """One for each; what goes wrong for all is raised for all of them, in their threads."""
        try:
            answers = [*self._serve(asked)]
        except BaseException as error:  # noqa: BLE001
            return [error] * len(asked)
        if len(answers) == len(asked):
            return answers
        text = f"{len(answers)} answers to {len(asked)} questions"
        return [RuntimeError(text) for _ in asked]
