"""Runs one half-duplex session: greets, detects an utterance, answers it, listens again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, ClassVar

import structlog

from antiphon.inference_worker.engines.common.endpointing import (
    Endpoint,
    SpeechEnded,
    SpeechStarted,
    StreamingVAD,
)
from antiphon.inference_worker.engines.processor import HalfDuplexView
from antiphon.inference_worker.engines.types import ContextFull, EngineError, PastTurn
from antiphon.inference_worker.sessions.answer import AnswerStream
from antiphon.inference_worker.sessions.claimed_session import ClaimedSession
from antiphon.inference_worker.sessions.context import TraceContext, WorkerContext
from antiphon.inference_worker.sessions.conversation_past import ConversationPast, FinishedStep
from antiphon.inference_worker.sessions.mailbox import InterruptWatcher, QueuedInput, SessionMailbox
from antiphon.inference_worker.sessions.recovery import (
    GUARD_SAMPLES,
    PendingTurn,
    RecoveredHalfDuplex,
    recover_half_duplex,
)
from antiphon.inference_worker.sessions.runner import SessionRunner, publish_error, reference_voice
from antiphon.inference_worker.sessions.transcripts import utterance_text
from antiphon.shared_schemas.audio import Samples, float_bytes, samples_from_bytes
from antiphon.shared_schemas.config import HalfDuplexConfig
from antiphon.shared_schemas.entries import (
    ChunkIn,
    GeneratingOut,
    HalfDuplexPrepareIn,
    StopIn,
    StreamPosition,
    TurnDoneOut,
    VadOut,
)
from antiphon.shared_schemas.states import EndReason, SessionState

log = structlog.get_logger()

_BACKLOG_CHUNKS = 1000
"""Speech is never skipped to catch up: the detector is a hundred times faster than speech."""


class HalfDuplexRunner(SessionRunner[RecoveredHalfDuplex, HalfDuplexPrepareIn, HalfDuplexView]):
    """Feeds audio to the speech detector and streams one answer per utterance."""

    ACCEPTS: ClassVar = {
        SessionState.ASSIGNED: frozenset({HalfDuplexPrepareIn, StopIn}),
        SessionState.ACTIVE: frozenset({ChunkIn, StopIn}),
    }

    def __init__(
        self, context: WorkerContext, session: ClaimedSession, view: HalfDuplexView
    ) -> None:
        past = ConversationPast[PastTurn](context, session, lag=0, batch=1)
        super().__init__(context, session, recover_half_duplex, past, view, _BACKLOG_CHUNKS)
        self._config = HalfDuplexConfig()
        self._vad = StreamingVAD(self._config.vad)
        self._patience: tuple[Endpoint, float] | None = None
        self._guard = 0
        self._speaking = False
        self._words_so_far: Callable[[int, Samples], str] | None = None
        self._said = ""
        self._next_index = 0
        self._trace = TraceContext()

    async def _load(self, entry: HalfDuplexPrepareIn) -> int:
        self._config = entry.config
        self._vad = StreamingVAD(entry.config.vad, longest=self._view.longest_patience)
        self._words_so_far = self._find_recogniser()
        voice = reference_voice(entry.ref_audio)
        prepare = self._view.prepare
        return await self._context.engine.call(prepare, entry.system(), entry.config, voice)

    def _prepared(self) -> None:
        self._guard = GUARD_SAMPLES

    async def _restore(self, state: RecoveredHalfDuplex) -> None:
        await self._context.engine.call(self._view.replay, state.turns)
        await self._session.move(SessionState.ACTIVE)
        self._guard, self._speaking = state.guard, state.speaking
        self._next_index = state.next_index
        log.info(
            "session_recovered",
            turns=len(state.turns),
            shortened=state.shortened,
            in_answer=state.open_turn is not None,
        )

    async def _complete_open_turn(
        self, state: RecoveredHalfDuplex, mailbox: SessionMailbox
    ) -> EndReason | None:
        if state.open_turn:
            return await self._answer(state.open_turn, mailbox)
        return await self._greet(state.prepared_at, mailbox) if state.prepared_at else None

    def _silence_left_s(self) -> float:
        return self._last_audio_at + self._config.session.timeout_s - time.monotonic()

    def _silence_reason(self) -> str:
        return f"no audio for {self._config.session.timeout_s:g} s"

    async def _handle(self, item: QueuedInput, mailbox: SessionMailbox) -> EndReason | None:
        match item.entry:
            case ChunkIn() as entry:
                return await self._detect_speech(item.position, entry, mailbox)
            case HalfDuplexPrepareIn() as entry:
                await self._prepare(item.position.n, entry)
                if self._session.state is SessionState.ACTIVE:
                    return await self._greet(item.position, mailbox)
            case StopIn():
                return await self._stop()
        return None

    async def _detect_speech(
        self, position: StreamPosition, chunk: ChunkIn, mailbox: SessionMailbox
    ) -> EndReason | None:
        self._trace = TraceContext(chunk.trace, chunk.at)
        samples = samples_from_bytes(chunk.audio, chunk.pcm)
        ignored = min(self._guard, len(samples))
        self._guard -= ignored
        call = self._context.engine.call
        events = await call(self._vad.feed, samples[ignored:])
        if self._view.longest_patience > 1.0 and (ended := await call(self._end_early)):
            events.append(ended)
        for event in events:
            speaking = isinstance(event, SpeechStarted)
            if speaking != self._speaking:  # after a recovery the client may already know
                self._speaking = speaking
                self._said = ""
                await self._session.publish(VadOut(input_n=position.n, speaking=speaking))
            if isinstance(event, SpeechEnded):
                asked_at = chunk.at - event.silence_ms
                turn = PendingTurn(self._next_index, position, event.audio, asked_at=asked_at)
                await self._begin_turn(turn, event.speech_ms)
                return await self._answer(turn, mailbox)
        if not self._speaking:
            await self._past.advance(position)
        elif self._words_so_far is not None:
            await self._publish_words(position, self._words_so_far)
        return None

    def _find_recogniser(self) -> Callable[[int, Samples], str] | None:
        """What transcribes an utterance that continues; None unless the session asks for it."""
        context = self._context
        if not (self._config.interim_transcripts and context.interim_transcripts):
            return None
        return (
            context.transcriber.interim().read if context.transcriber else self._view.words_so_far
        )

    async def _publish_words(
        self, position: StreamPosition, words_so_far: Callable[[int, Samples], str]
    ) -> None:
        """Tell the client what the user has said so far, if that has changed."""
        words = await self._context.engine.call(words_so_far, *self._vad.speech_so_far())
        if words and words != self._said:
            self._said = words
            out = VadOut(input_n=position.n, speaking=True, interim_user_text=words)
            await self._session.publish(out)

    def _end_early(self) -> SpeechEnded | None:
        """Ask the engine how long to wait in the silence at the end of the audio. Runs on its thread."""
        if (paused := self._vad.paused()) is None:
            return None
        endpoint, speech = paused
        if self._patience is None or self._patience[0] != endpoint:
            self._patience = (endpoint, self._view.patience(speech))
        return self._vad.end_early(self._patience[1])

    async def _greet(
        self, prepared_at: StreamPosition, mailbox: SessionMailbox
    ) -> EndReason | None:
        """Speak the greeting, if the session has one and no turn has begun.

        The microphone noise after `prepared` arrives during the greeting, so nothing is ignored after it.
        """
        if self._next_index or not self._config.greeting.strip():
            return None
        self._guard = 0
        greeting = PendingTurn(0, prepared_at, None)
        await self._begin_turn(greeting, speech_ms=0)
        return await self._answer(greeting, mailbox)

    async def _begin_turn(self, turn: PendingTurn, speech_ms: int) -> None:
        self._next_index = turn.index + 1
        await self._session.publish(
            GeneratingOut(
                input_n=turn.last_input.n,
                turn_index=turn.index,
                speech_duration_ms=speech_ms,
                audio=b"" if turn.utterance is None else float_bytes(turn.utterance),
            )
        )

    async def _answer(self, turn: PendingTurn, mailbox: SessionMailbox) -> EndReason | None:
        """Speak one turn: an answer or the greeting. Audio that arrives until it ends is discarded."""
        context, session = self._context, self._session
        interrupts = InterruptWatcher(turn.last_input, self._view.set_break, self._view)
        answer = AnswerStream(context, session, self._view, self._trace, turn.asked_at)
        transcriber, utterance, failed, words = context.transcriber, turn.utterance, False, None
        if transcriber and utterance is not None:
            words = transcriber.transcribe(utterance)
        async with interrupts.watch(mailbox):
            try:
                if utterance is None:
                    await answer.publish_greeting(self._view.greet, turn.said, interrupts)
                else:
                    await context.engine.call(self._view.prefill, utterance)
                    if not interrupts.stopped:
                        await answer.publish(turn.said, interrupts, streaming=True)
            except ContextFull as error:
                return await self._fail(turn.last_input.n, error)
            except EngineError as error:
                failed = not interrupts.stopped
                if failed:
                    await context.engine.call(self._view.rollback)
                    await publish_error(context, session, turn.last_input.n, error)
        self._answer_played_at = answer.played_at
        if interrupts.stopped:
            return await self._stop()
        memo = {} if failed else await context.engine.call(self._view.memo)
        if words is not None and (text := await utterance_text(words)):
            memo = {**memo, "user": text}
        await self._publish_turn_done(turn, answer, interrupts, memo, failed=failed)
        self._vad.reset()
        self._words_so_far = self._find_recogniser()
        self._patience = None
        return None

    async def _publish_turn_done(
        self,
        turn: PendingTurn,
        answer: AnswerStream,
        interrupts: InterruptWatcher,
        memo: dict[str, Any],
        *,
        failed: bool,
    ) -> None:
        self._context.counters.turns += 1
        took_s = answer.elapsed_s
        last_output = await self._session.publish(
            TurnDoneOut(
                trace=answer.trace.trace,
                input_n=interrupts.last.n,
                turn_index=turn.index,
                text=answer.text,
                stopped=interrupts.broken,
                failed=failed,
                n_tokens=answer.tokens,
                cost_all_ms=round(took_s * 1000, 3),
                kv_cache_length=self._view.kv_cache_length,
                memo=memo,
                usage=self._take_usage(),
            )
        )
        answer.record_trace(took_s)
        past = None if failed else PastTurn(audio=turn.utterance, text=answer.text, memo=memo)
        await self._past.add(FinishedStep(past, interrupts.last, last_output, self._next_index))
