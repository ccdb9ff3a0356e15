"""Runs one chat request: reads the history, streams the answer, and is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import aclosing

import numpy as np

from antiphon.broker.retry import retry_until_available
from antiphon.inference_worker.attention import Attention, attending, delta_out, deltas
from antiphon.inference_worker.bench import Bench
from antiphon.inference_worker.engines.processor import ChatView
from antiphon.inference_worker.engines.types import (
    ContextFull,
    Delta,
    EngineError,
    UnsupportedContent,
)
from antiphon.inference_worker.held_session import HeldSession
from antiphon.inference_worker.mailbox import Mailbox, open_mailbox
from antiphon.inference_worker.progress import Progress
from antiphon.inference_worker.runner_parts import read_streams, reference_voice, report
from antiphon.inference_worker.session.backlog import Unread
from antiphon.inference_worker.session.chat import Past, recall
from antiphon.inference_worker.work_trace import Question
from antiphon.shared_schemas.audio import SILENCE, Samples, float_bytes
from antiphon.shared_schemas.entries import (
    BreakIn,
    ChatDoneOut,
    ChatIn,
    ErrorOut,
    PrefillDoneOut,
    StopIn,
)
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.states import EndReason, SessionKind, SessionState
from antiphon.shared_schemas.stream_position import StreamPosition


class ChatRunner:
    """One request and its answer."""

    def __init__(self, bench: Bench, session: HeldSession, view: ChatView) -> None:
        self._bench = bench
        self._session = session
        self._view = view
        self._past = Past()
        self._begun = time.perf_counter()
        self._question = Question()
        self._input_tokens = 0
        self._text = ""
        self._tokens = 0
        self._audio: list[Samples] = []

    async def run(self) -> EndReason:
        """Serve the request; returns how it ended.

        Raises StaleFence when it is ours no more, PastLost when nobody can go on with it.
        """
        claim = self._session.claim
        self._past = await retry_until_available(self._recall, "read a chat's past")
        after = StreamPosition.before(claim.ticket)
        limit = self._bench.settings.backlog_chunks
        async with open_mailbox(self._bench.broker, claim.sid, after, limit) as mailbox:
            while (item := await mailbox.next(self._bench.settings.prepare_timeout_s)) is not None:
                match item.entry:
                    case ChatIn() as request:
                        return await self._serve(item, request, mailbox)
                    case StopIn() | BreakIn():
                        return await self._finish(stopped=True)
        return await self._refuse_silence()

    async def _recall(self) -> Past:
        _, outputs, _ = await read_streams(self._bench.broker, self._session.claim)
        return recall(outputs)

    async def _refuse_silence(self) -> EndReason:
        text = f"no request within {self._bench.settings.prepare_timeout_s:g} s"
        await self._session.publish(ErrorOut(code=ErrorCode.NOT_READY, message=text, fatal=True))
        return EndReason.ERROR

    async def _serve(self, item: Unread, request: ChatIn, mailbox: Mailbox) -> EndReason:
        self._begun = time.perf_counter()
        self._question = Question(request.trace, request.at)
        await self._session.move(SessionState.PREPARING, request.options.model_dump())
        client = Attention(item.n, self._view.stop, self._view)
        async with attending(mailbox, client):
            try:
                await self._answer(request, client)
            except EngineError as error:
                if not client.ended:
                    return await self._fail(item.n, error)
        return await self._finish(stopped=client.ended)

    async def _fail(self, n: int, error: EngineError) -> EndReason:
        code, field, reason = ErrorCode.INFERENCE_ERROR, None, EndReason.ERROR
        if isinstance(error, ContextFull):
            code, reason = ErrorCode.CONTEXT_FULL, EndReason.CONTEXT_FULL
        elif isinstance(error, UnsupportedContent):
            code, field = ErrorCode.INVALID_FIELD, error.field
        await report(self._bench, self._session, n, error, code=code, fatal=True, field=field)
        return reason

    async def _answer(self, request: ChatIn, client: Attention) -> None:
        voice = reference_voice(request.ref_audio)
        self._input_tokens = await self._prefill(request, voice)
        if not self._past.prefill_told:
            await self._session.publish(PrefillDoneOut(input_tokens=self._input_tokens))
        await self._session.move(SessionState.ACTIVE)
        if client.ended:
            return
        answer = await self._choose()
        async with aclosing(deltas(self._bench.engine, answer, client)) as pieces:
            async for delta in pieces:
                await self._take(delta, streaming=request.options.streaming)

    async def _prefill(self, request: ChatIn, voice: Samples | None) -> int:
        prefill, messages = self._view.prefill, request.messages()
        if not request.progress or self._past.prefill_told:
            return await self._bench.engine.call(prefill, messages, request.options, voice)
        progress = Progress()
        async with progress.told(self._session):
            return await self._bench.engine.call(
                prefill, messages, request.options, voice, progress
            )

    async def _choose(self) -> Callable[[], Iterator[Delta]]:
        """The whole answer, or what is left of one that another worker began."""
        if self._past.said:
            rest = await self._bench.engine.call(self._view.resume, self._past.said)
            if rest is not None:
                self._text = self._past.said
                return lambda: rest
        return self._view.generate

    async def _take(self, delta: Delta, *, streaming: bool) -> None:
        if not (self._text or self._tokens):
            waited_s = time.perf_counter() - self._begun
            self._bench.metrics.first_piece.labels(SessionKind.CHAT).observe(waited_s)
            self._session.answered(waited_s * 1000)
        self._text += delta.text
        self._tokens += delta.n_tokens
        if not streaming:
            self._audio.append(delta.audio)
        elif delta.text or len(delta.audio):
            await self._session.publish(delta_out(delta))

    async def _finish(self, *, stopped: bool) -> EndReason:
        self._bench.counters.chats += 1
        took_s = time.perf_counter() - self._begun
        await self._session.publish(
            ChatDoneOut(
                trace=self._question.trace,
                text=self._text,
                audio=float_bytes(np.concatenate([SILENCE, *self._audio])),
                generated_tokens=self._tokens,
                input_tokens=self._input_tokens,
                duration_ms=round(took_s * 1000, 3),
                stopped=stopped,
            )
        )
        if self._bench.trace:
            self._bench.trace.answer(self._question, took_s, self._tokens)
        return EndReason.STOPPED
