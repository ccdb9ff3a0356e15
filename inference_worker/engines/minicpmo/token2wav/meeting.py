"""Threads that come while a batch is served are served together in the next one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


@dataclass(slots=True, eq=False)
class _Seat(Generic[Asked, Answer]):
    asked: Asked
    answer: Answer | BaseException | None = None


class Meeting(Generic[Asked, Answer]):
    """Whoever finds nobody serving serves all who wait, itself among them; the others sleep meanwhile.

    `serve` gets what was asked and returns an answer or an exception for each; it is never run by two
    threads at once. Nobody waits for company, and there is no thread but those that ask.
    """

    def __init__(self, serve: Callable[[list[Asked]], Sequence[Answer | BaseException]]) -> None:
        self._serve = serve
        self._changed = threading.Condition()
        self._waiting: list[_Seat[Asked, Answer]] = []
        self._serving = False

    def ask(self, asked: Asked) -> Answer:
        """The answer, or what was raised for this question."""
        seat = _Seat[Asked, Answer](asked)
        batch = self._sit_down(seat)
        if batch:
            self._serve_all(batch)
        answer = seat.answer
        if isinstance(answer, BaseException):
            raise answer
        assert answer is not None
        return answer

    def _sit_down(self, seat: _Seat[Asked, Answer]) -> list[_Seat[Asked, Answer]]:
        """Return when served, with nobody; or when it is this thread's turn, with those to serve."""
        with self._changed:
            self._waiting.append(seat)
            self._changed.wait_for(lambda: seat.answer is not None or not self._serving)
            if seat.answer is not None:
                return []
            self._serving = True
            batch, self._waiting = self._waiting, []
            return batch

    def _serve_all(self, batch: list[_Seat[Asked, Answer]]) -> None:
        try:
            answers = self._serve([seat.asked for seat in batch])
        except BaseException as error:  # noqa: BLE001  # raised for all of them, in their threads
            answers = [error] * len(batch)
        with self._changed:
            for seat, answer in zip(batch, answers, strict=True):
                seat.answer = answer
            self._serving = False
            self._changed.notify_all()
