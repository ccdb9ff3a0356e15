"""Runs one half-duplex session: greets, detects an utterance, answers it, listens again."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, ClassVar

import structlog
from msgspec import structs

from antiphon.inference_worker.engines.common.barge_in import is_question
from antiphon.inference_worker.engines.common.endpointing import (
    Endpoint,
    SpeechEnded,
    SpeechStarted,
    StreamingVAD,
)
from antiphon.inference_worker.engines.processor import HalfDuplexView
from antiphon.inference_worker.engines.types import ContextFull, EngineError, PastTurn
from antiphon.inference_worker.sessions.answer import AnswerStream, PlayedPart
from antiphon.inference_worker.sessions.claimed_session import ClaimedSession
from antiphon.inference_worker.sessions.conversation_past import ConversationPast, FinishedStep
from antiphon.inference_worker.sessions.mailbox import (
    SPEECH_BACKLOG_CHUNKS,
    InterruptWatcher,
    QueuedInput,
    SessionMailbox,
)
from antiphon.inference_worker.sessions.recovery import (
    IGNORED_AFTER_PREPARE,
    CutTurn,
    PendingTurn,
    RecoveredHalfDuplex,
    recover_half_duplex,
)
from antiphon.inference_worker.sessions.runner import SessionRunner, publish_error, reference_voice
from antiphon.inference_worker.sessions.transcripts import utterance_text
from antiphon.inference_worker.sessions.turn_listener import TurnListener
from antiphon.inference_worker.sessions.worker_context import (
    TraceContext,
    WorkerContext,
    finish_despite_cancel,
)
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


class HalfDuplexRunner(SessionRunner[RecoveredHalfDuplex, HalfDuplexPrepareIn, HalfDuplexView]):
    """Feeds audio to the speech detector and streams one answer per utterance."""

    ACCEPTS: ClassVar = {
        SessionState.ASSIGNED: frozenset({HalfDuplexPrepareIn, StopIn}),
        SessionState.ACTIVE: frozenset({ChunkIn, StopIn}),
    }

    def __init__(
        self, context: WorkerContext, session: ClaimedSession, view: HalfDuplexView
    ) -> None:
        past = ConversationPast[PastTurn](context, session, lag=1, batch=1)
        super().__init__(context, session, recover_half_duplex, past, view, SPEECH_BACKLOG_CHUNKS)
        self._config = HalfDuplexConfig()
        self._vad = StreamingVAD(self._config.vad)
        self._patience: tuple[Endpoint, float] | None = None
        self._ignored_samples = 0
        self._speaking = False
        self._words_so_far: Callable[[int, Samples], str] | None = None
        self._said = ""
        self._next_index = 0
        self._listener: TurnListener | None = None
        """Hears the user during answers, if the session asks for that."""
        self._cut_in = 0
        """The input in which the user interrupted an answer of another worker."""
        self._played: AnswerStream | None = None
        """The last answer, until it was interrupted."""
        self._trace = TraceContext()

    async def _load(self, entry: HalfDuplexPrepareIn) -> int:
        self._config = entry.config
        self._vad = StreamingVAD(entry.config.vad, longest=self._view.longest_patience)
        self._words_so_far = self._find_recogniser()
        self._listener = self._find_listener()
        voice = reference_voice(entry.ref_audio)
        prepare = self._view.prepare
        return await self._context.engine.call(prepare, entry.system(), entry.config, voice)

    def _prepared(self) -> None:
        self._ignored_samples = IGNORED_AFTER_PREPARE

    async def _restore(self, state: RecoveredHalfDuplex) -> None:
        await self._context.engine.call(self._view.replay, state.turns)
        await self._session.move(SessionState.ACTIVE)
        self._ignored_samples, self._speaking = state.ignored_samples, state.speaking
        self._next_index = state.next_index
        if state.cut and self._listener:
            self._listener.open(state.cut.question)
            self._cut_in = state.cut.at.n
        log.info(
            "session_recovered",
            turns=len(state.turns),
            shortened=state.shortened,
            in_answer=state.open_turn is not None,
        )

    async def _complete_open_turn(
        self, state: RecoveredHalfDuplex, mailbox: SessionMailbox
    ) -> EndReason | None:
        if state.open_turn and state.cut:
            await self._end_cut(state.open_turn, state.cut)
            return None
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
        ignored = min(self._ignored_samples, len(samples))
        self._ignored_samples -= ignored
        call = self._context.engine.call
        samples = samples[ignored:]
        if self._listener is not None and self._listener.is_open:
            taken = await asyncio.to_thread(self._listener.feed, samples)
            if taken and self._played is not None:
                await self._cut_played(position.n, self._played)
            elif not taken and (self._listener.is_playing or position.n < self._cut_in):
                return None
            samples = self._listener.said()
        events = await call(self._vad.feed, samples)
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

    def _find_listener(self) -> TurnListener | None:
        if not self._config.barge_in:
            return None
        transcriber = self._context.transcriber
        return TurnListener(transcriber.words_in if transcriber else self._view.words_in)

    async def _cut_played(self, input_n: int, answer: AnswerStream) -> None:
        """The user interrupts an answer that is complete and still played."""
        self._played = None
        part = await answer.cut(input_n, self._next_index - 1)
        self._past.amend(lambda turn: replace(turn, text=part.text, cut=True))
        self._answer_played_at = answer.played_at
        await self._context.engine.call(self._view.interrupted, part.own_ms)

    async def _cut_made(
        self, interrupts: InterruptWatcher, answer: AnswerStream, turn_index: int
    ) -> PlayedPart:
        """The user interrupts an answer that is made."""
        await interrupts.taken.wait()
        return await answer.cut(interrupts.last.n, turn_index)

    async def _takes_turn(self, chunk: ChunkIn) -> bool:
        """Whether the user takes the turn in this audio. The engine's threads are busy with the answer.

        Audio that was taken from the mailbox is always processed, also at the end of the answer.
        """
        assert self._listener is not None
        samples = samples_from_bytes(chunk.audio, chunk.pcm)
        hearing = asyncio.ensure_future(asyncio.to_thread(self._listener.feed, samples))
        return await finish_despite_cancel(hearing)

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
        self._ignored_samples = 0
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
        """Speak one turn: an answer or the greeting.

        Audio that arrives until it ends is discarded, unless the user takes the turn in it.
        """
        context, listener = self._context, self._listener
        self._played, takes_turn = None, None
        if listener is not None:
            takes_turn = self._takes_turn
            listener.open(turn.utterance)
        interrupts = InterruptWatcher(turn.last_input, self._view.set_break, self._view, takes_turn)
        answer = AnswerStream(context, self._session, self._view, self._trace, turn.asked_at)
        if turn.said_ms:
            answer.follow(turn.said_ms, turn.played_at)
        words = self._transcribe(turn.utterance)
        cutting = asyncio.create_task(self._cut_made(interrupts, answer, turn.index))
        try:
            async with stopped(cutting, unless=interrupts.taken), interrupts.watch(mailbox):
                failed = not await self._speak(turn, answer, interrupts)
        except ContextFull as error:
            return await self._fail(turn.last_input.n, error)
        self._answer_played_at = answer.played_at
        if interrupts.stopped:
            return await self._stop()
        if interrupts.taken.is_set():
            await context.engine.call(self._view.interrupted, cutting.result().own_ms)
        elif listener is not None:
            self._played = answer
            listener.answer_ends_at(answer.played_at, asks=is_question(answer.text))
        memo = {} if failed else await context.engine.call(self._view.memo)
        took_s = answer.elapsed_s
        end = TurnDoneOut(
            trace=answer.trace.trace,
            input_n=interrupts.last.n,
            turn_index=turn.index,
            text=answer.text,
            stopped=interrupts.broken,
            failed=failed,
            n_tokens=answer.tokens,
            cost_all_ms=round(took_s * 1000, 3),
            memo={**memo, **await self._user_text(words)},
        )
        await self._end_turn(turn, end, interrupts.last, cut=interrupts.taken.is_set())
        answer.record_trace(took_s)
        self._listen_again()
        return None

    def _listen_again(self) -> None:
        self._vad.reset()
        self._words_so_far = self._find_recogniser()
        self._patience = None

    async def _end_cut(self, turn: PendingTurn, cut: CutTurn) -> None:
        """Another worker published that the user interrupted this answer, but not its end."""
        end = TurnDoneOut(
            input_n=cut.at.n,
            turn_index=turn.index,
            text=cut.text,
            stopped=True,
            memo=await self._user_text(self._transcribe(turn.utterance)),
        )
        await self._end_turn(turn, end, cut.at, cut=True)

    async def _speak(
        self, turn: PendingTurn, answer: AnswerStream, interrupts: InterruptWatcher
    ) -> bool:
        """Publish the answer. False if the engine fails. Raises ContextFull."""
        call, view = self._context.engine.call, self._view
        try:
            if turn.utterance is None:
                await answer.publish_greeting(view.greet, turn.said, interrupts)
            else:
                await call(view.prefill, turn.utterance)
                if not interrupts.stopped:
                    await answer.publish(turn.said, interrupts, streaming=True)
        except ContextFull:
            raise
        except EngineError as error:
            if not interrupts.stopped:
                await call(view.rollback)
                await publish_error(self._context, self._session, turn.last_input.n, error)
                return False
        return True

    def _transcribe(self, utterance: Samples | None) -> Future[str] | None:
        """Begin to recognise what the user said, if the worker does beside the engine."""
        transcriber = self._context.transcriber
        if transcriber is None or utterance is None:
            return None
        return transcriber.transcribe(utterance)

    async def _user_text(self, words: Future[str] | None) -> dict[str, str]:
        """What a result's memo says of it."""
        text = await utterance_text(words) if words is not None else None
        return {"user": text} if text else {}

    async def _end_turn(
        self, turn: PendingTurn, end: TurnDoneOut, last_input: StreamPosition, *, cut: bool
    ) -> None:
        self._context.counters.turns += 1
        length, usage = self._view.kv_cache_length, self._take_usage()
        last_output = await self._session.publish(
            structs.replace(end, kv_cache_length=length, usage=usage)
        )
        past = None
        if not end.failed:
            past = PastTurn(audio=turn.utterance, text=end.text, memo=end.memo, cut=cut)
        await self._past.add(FinishedStep(past, last_input, last_output, self._next_index))


@asynccontextmanager
async def stopped(task: asyncio.Task[Any], *, unless: asyncio.Event) -> AsyncIterator[None]:
    """At the end, `task` is complete if the event is set, and cancelled otherwise."""
    try:
        yield
    finally:
        if not unless.is_set():
            task.cancel()
        await asyncio.gather(task, return_exceptions=not unless.is_set())
