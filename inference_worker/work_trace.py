"""What a worker adds to a session's trace, where traces are wanted."""

from __future__ import annotations

from typing import NamedTuple

from antiphon.broker.connection import RedisClock
from antiphon.broker.service.tracing import Tracing
from antiphon.shared_schemas.entries import ResultOut


class Question(NamedTuple):
    """What an answer is to: its place in the trace, and since when it lay in the stream (ms)."""

    trace: bytes = b""
    at: float = 0.0


class WorkTrace:
    """Spans are made when the work is done, from the times that were taken anyway."""

    def __init__(self, tracing: Tracing, clock: RedisClock) -> None:
        self._tracing = tracing
        self._clock = clock

    def unit(self, result: ResultOut, published_at: float) -> None:
        """A unit whose result is in the stream; `published_at`: when its publishing began (ms)."""
        if not result.trace:
            return
        began_at = published_at - result.cost_all_ms
        about = {"antiphon.listen": result.is_listen, "antiphon.tokens": result.n_tokens}
        self._tracing.record("worker.wait", result.trace, result.received_at, began_at)
        self._tracing.record("engine", result.trace, began_at, published_at, **about)
        self._tracing.record("publish", result.trace, published_at, self._clock.now_ms())

    def answer(self, question: Question, took_s: float, tokens: int) -> None:
        """A whole answer to a turn or a chat, which has just been published."""
        if question.trace:
            now_ms = self._clock.now_ms()
            began_at = now_ms - took_s * 1000
            self._tracing.record("worker.wait", question.trace, question.at, began_at)
            about = {"antiphon.tokens": tokens}
            self._tracing.record("engine", question.trace, began_at, now_ms, **about)
