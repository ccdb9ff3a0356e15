"""Streams one answer to the client. Half-duplex turns and chats share this."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing
from functools import partial
from typing import NamedTuple

import numpy as np

from antiphon.inference_worker.engines.processor import AnsweringView
from antiphon.inference_worker.engines.types import Delta
from antiphon.inference_worker.sessions.claimed_session import ClaimedSession
from antiphon.inference_worker.sessions.mailbox import InterruptWatcher
from antiphon.inference_worker.sessions.worker_context import TraceContext, WorkerContext
from antiphon.shared_schemas.audio import OUTPUT_RATE, SILENCE, Samples, float_bytes
from antiphon.shared_schemas.content import ToolCall, TranscribedSegment
from antiphon.shared_schemas.entries import DeltaOut, InterruptedOut
from antiphon.shared_schemas.entries.turns import whole_words
from antiphon.shared_schemas.unit_result import FirstAudio

_NO_TRACE = TraceContext()


class PlayedPart(NamedTuple):
    """The part of an answer that a client has played. `own_ms`: without the sound of another worker."""

    ms: int
    own_ms: int
    text: str


class AnswerStream:
    """One answer: its text, its tokens, and its duration since this object was created."""

    def __init__(
        self,
        context: WorkerContext,
        session: ClaimedSession,
        view: AnsweringView,
        trace: TraceContext = _NO_TRACE,
        asked_at: float | None = None,
    ) -> None:
        """`asked_at`: when the user stopped speaking, or the request was appended (Redis-clock ms)."""
        self.trace = trace
        self.text = ""
        self.tokens = 0
        self.tool_calls: list[ToolCall] = []
        self.segments: list[TranscribedSegment] = []
        self.played_at = 0.0
        """When a client that plays the answer as it arrives has played it (monotonic)."""
        self._context = context
        self._session = session
        self._view = view
        self._began = time.perf_counter()
        self._is_answer = True
        self._unsent: list[Samples] = []
        self._pieces: list[tuple[str, float]] = []
        """The text and the audio in ms of each piece, with the part of another worker as the first."""
        self._said_ms = 0.0
        self._asked_at = asked_at
        self._publishing = asyncio.Lock()
        """Nothing of an answer follows its interruption."""

    def follow(self, said_ms: float, played_at: float) -> None:
        """Another worker published the audio before.

        It has `said_ms`, and a client has played it at `played_at` (Redis-clock ms).
        """
        self._said_ms = said_ms
        left_ms = played_at - self._context.broker.clock.now_ms()
        self.played_at = time.monotonic() + left_ms / 1000

    async def publish(self, said: str, interrupts: InterruptWatcher, *, streaming: bool) -> None:
        """Publish the answer in pieces until it is complete or interrupted.

        `said` is the part that another worker already published. Without `streaming`, the pieces
        are collected instead. Raises EngineError if the engine fails.
        """
        generate = await self._continue_or_generate(said)
        await self._publish(generate, interrupts, streaming=streaming)

    async def publish_made(
        self,
        make: Callable[[], Iterator[Delta]],
        said: str,
        interrupts: InterruptWatcher,
        *,
        streaming: bool,
    ) -> None:
        """Publish what no model writes: a transcript, or the speech of a text without the part `said`."""
        self._continue(said)
        await self._publish(make, interrupts, streaming=streaming)

    async def publish_greeting(
        self,
        greet: Callable[[str], Iterator[Delta]],
        said: str,
        interrupts: InterruptWatcher,
    ) -> None:
        """Publish what the model says first. No user waited for it, so it is not a latency."""
        self._is_answer = False
        self._continue(said)
        await self._publish(partial(greet, said), interrupts, streaming=True)

    async def _publish(
        self,
        generate: Callable[[], Iterator[Delta]],
        interrupts: InterruptWatcher,
        *,
        streaming: bool,
    ) -> None:
        async with aclosing(self._context.engine.stream(generate)) as pieces:
            async for delta in pieces:
                interrupts.resend()
                async with self._publishing:
                    if interrupts.stopped or interrupts.taken.is_set():
                        return
                    await self._publish_piece(delta, streaming=streaming)

    async def _publish_piece(self, delta: Delta, *, streaming: bool) -> None:
        self._count(delta)
        if not streaming:
            self._unsent.append(delta.audio)
        elif delta.text or len(delta.audio):
            audio = float_bytes(delta.audio)
            first = self.take_first_audio() if audio else None
            out = DeltaOut(text_delta=delta.text, audio=audio, first_audio=first)
            await self._session.publish(out)

    async def cut(self, input_n: int, turn_index: int) -> PlayedPart:
        """The user interrupts the answer in this input: what was played is all of it."""
        async with self._publishing:
            part = self._played()
            self.text, self.played_at = part.text, time.monotonic()
            await self._session.publish(
                InterruptedOut(
                    input_n=input_n, turn_index=turn_index, played_ms=part.ms, text=part.text
                )
            )
        return part

    async def _continue_or_generate(self, said: str) -> Callable[[], Iterator[Delta]]:
        if said:
            self._asked_at = None  # the client has had the first audio
            rest = await self._context.engine.call(self._view.resume, said)
            if rest is not None:
                self._continue(said)
                return lambda: rest
        self._said_ms = 0.0
        return self._view.generate

    def _continue(self, said: str) -> None:
        self.text, self._pieces = said, [(said, self._said_ms)]

    def _count(self, delta: Delta) -> None:
        is_first = self._is_answer and not (self.text or self.tokens)
        if is_first and (delta.text or delta.n_tokens or len(delta.audio)):
            waited_s = self.elapsed_s
            kind = self._session.claim.kind
            self._context.metrics.first_piece.labels(kind).observe(waited_s)
            self._session.record_latency(waited_s * 1000)
        self.text += delta.text
        self.tokens += delta.n_tokens
        self.tool_calls += delta.tool_calls
        if delta.segment is not None:
            self.segments.append(delta.segment)
        self._pieces.append((delta.text, len(delta.audio) * 1000 / OUTPUT_RATE))
        self.played_at = max(self.played_at, time.monotonic()) + len(delta.audio) / OUTPUT_RATE

    def _played(self) -> PlayedPart:
        """What a client that plays the answer as it arrives has played by now."""
        sent_ms = sum(ms for _, ms in self._pieces)
        left_ms = max(0.0, sent_ms - max(0.0, self.played_at - time.monotonic()) * 1000)
        own_ms = max(0, round(left_ms - self._said_ms))
        played_ms, text = round(left_ms), ""
        for piece, ms in self._pieces:
            text += piece if left_ms >= ms else whole_words(piece, round(len(piece) * left_ms / ms))
            left_ms = max(0.0, left_ms - ms)
        return PlayedPart(played_ms, own_ms, text)

    def take_first_audio(self) -> FirstAudio | None:
        """For the entry with the first audio of the answer; None for every other."""
        asked_at, self._asked_at = self._asked_at, None
        return self._context.first_audio(self._session.claim.kind, asked_at)

    @property
    def elapsed_s(self) -> float:
        return time.perf_counter() - self._began

    @property
    def unsent_audio(self) -> bytes:
        """The audio that was collected because the client does not stream."""
        return float_bytes(np.concatenate([SILENCE, *self._unsent]))

    def record_trace(self, took_s: float) -> None:
        if self._context.tracer:
            self._context.tracer.record_answer(self.trace, took_s, self.tokens)
