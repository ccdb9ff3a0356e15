"""Dynamic batcher: one thread serves everything queued at that moment and never waits to fill a batch."""

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
    """`serve` gets a list of requests and returns a result or an exception for each.

    One thread runs it: cuDNN builds its plans again in every new thread.
    """

    def __init__(self, serve: Callable[[list[Request]], Sequence[Reply | BaseException]]) -> None:
        self._serve = serve
        self._inbox: queue.SimpleQueue[list[Pending[Request, Reply]]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="token2wav", daemon=True)
        self._thread.start()

    def run(self, asked: Request) -> Reply:
        """The result of `asked`; raises its exception."""
        [answer] = self.run_batch([asked])
        return answer

    def run_batch(self, asked: Sequence[Request]) -> list[Reply]:
        """The results of one batch. Raises the first exception in it."""
        seats: list[Pending[Request, Reply]] = [(each, Future()) for each in asked]
        self._inbox.put(seats)
        return [answer.result() for _, answer in seats]

    def close(self) -> None:
        """Serve the queued requests and end the thread. No call may follow."""
        self._inbox.put([])
        self._thread.join()

    def _run(self) -> None:
        while batch := self._next_batch():
            self._answer(batch)

    def _next_batch(self) -> list[Pending[Request, Reply]]:
        """At least one request, in order of arrival; empty at the end."""
        batch = self._inbox.get()
        while batch and not self._inbox.empty():
            more = self._inbox.get()
            if not more:
                self._inbox.put(more)  # read again after this batch
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
        """One result for each request; if `serve` fails, its exception for each."""
        try:
            answers = [*self._serve(asked)]
        except BaseException as error:  # noqa: BLE001
            return [error] * len(asked)
        if len(answers) == len(asked):
            return answers
        text = f"{len(answers)} answers to {len(asked)} questions"
        return [RuntimeError(text) for _ in asked]
