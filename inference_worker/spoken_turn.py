"""One answer of a half-duplex session, from the utterance to the end of its sound."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import aclosing

from antiphon.inference_worker.attention import Attention, delta_out, deltas
from antiphon.inference_worker.bench import Bench
from antiphon.inference_worker.engines.processor import HalfDuplexView
from antiphon.inference_worker.engines.types import Delta
from antiphon.inference_worker.held_session import HeldSession
from antiphon.inference_worker.session.half_duplex import Turn
from antiphon.inference_worker.work_trace import Question
from antiphon.shared_schemas.entries import TurnDoneOut
from antiphon.shared_schemas.states import SessionKind


class SpokenTurn:
    """The answer to one utterance on its way to the client."""

    def __init__(
        self,
        bench: Bench,
        session: HeldSession,
        view: HalfDuplexView,
        client: Attention,
        question: Question,
    ) -> None:
        self._bench = bench
        self._session = session
        self._view = view
        self._client = client
        self._question = question
        self._begun = time.perf_counter()
        self._text = ""
        self._tokens = 0

    async def run(self, turn: Turn) -> None:
        """Publish the answer piece by piece. Raises EngineError where it cannot be made."""
        engine = self._bench.engine
        await engine.call(self._view.prefill, turn.utterance)
        if self._client.stopped:
            return
        answer = await self._choose(turn)
        async with aclosing(deltas(engine, answer, self._client)) as pieces:
            async for delta in pieces:
                self._note_first_piece()
                self._text += delta.text
                self._tokens += delta.n_tokens
                if delta.text or len(delta.audio):
                    await self._session.publish(delta_out(delta))

    def _note_first_piece(self) -> None:
        if not (self._text or self._tokens):
            waited_s = time.perf_counter() - self._begun
            self._bench.metrics.first_piece.labels(SessionKind.HALF_DUPLEX).observe(waited_s)
            self._session.answered(waited_s * 1000)

    async def _choose(self, turn: Turn) -> Callable[[], Iterator[Delta]]:
        """The whole answer, or what is left of one that another worker began."""
        if turn.said:
            rest = await self._bench.engine.call(self._view.resume, turn.said)
            if rest is not None:
                self._text = turn.said
                return lambda: rest
        return self._view.generate

    async def finish(self, turn: Turn, *, failed: bool) -> None:
        """Tell that it is complete, was broken off, or failed."""
        view, memo = self._view, {}
        if not failed:
            memo = await self._bench.engine.call(view.memo)
        self._bench.counters.turns += 1
        took_s = time.perf_counter() - self._begun
        await self._session.publish(
            TurnDoneOut(
                trace=self._question.trace,
                input_n=self._client.last_n,
                turn_index=turn.index,
                text=self._text,
                stopped=self._client.broken,
                failed=failed,
                n_tokens=self._tokens,
                cost_all_ms=round(took_s * 1000, 3),
                kv_cache_length=view.kv_cache_length,
                memo=memo,
            )
        )
        if self._bench.trace:
            self._bench.trace.answer(self._question, took_s, self._tokens)
