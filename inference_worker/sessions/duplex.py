"""Runs one full-duplex session."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import ClassVar

import structlog

from antiphon.inference_worker.engines.common.barge_in import BargeInGuard, UserVoice
from antiphon.inference_worker.engines.processor import DuplexView
from antiphon.inference_worker.engines.types import (
    ContextFull,
    EngineError,
    PastUnit,
    UnsupportedContent,
)
from antiphon.inference_worker.sessions.claimed_session import ClaimedSession
from antiphon.inference_worker.sessions.conversation_past import (
    ConversationPast,
    FinishedStep,
    past_unit,
)
from antiphon.inference_worker.sessions.mailbox import QueuedInput, SessionMailbox
from antiphon.inference_worker.sessions.model_speech import ModelSpeech, ResponseTimer, VoiceLevel
from antiphon.inference_worker.sessions.recovery import RecoveredDuplex, recover_duplex
from antiphon.inference_worker.sessions.runner import SessionRunner, publish_error, reference_voice
from antiphon.inference_worker.sessions.unit_sequence import UnitSequence
from antiphon.inference_worker.sessions.worker_context import WorkerContext
from antiphon.shared_schemas.audio import INPUT_RATE, Samples, samples_from_bytes
from antiphon.shared_schemas.config import USUAL_CHUNK_MS, DuplexConfig
from antiphon.shared_schemas.entries import (
    ChunkIn,
    PausedOut,
    PauseIn,
    PlaybackIn,
    PrepareIn,
    ResultOut,
    ResumedOut,
    ResumeIn,
    StopIn,
    TextAddedOut,
    TextIn,
    TextKind,
)
from antiphon.shared_schemas.states import EndReason, SessionState
from antiphon.shared_schemas.unit_result import UnitResult

log = structlog.get_logger()

_REPLAYED_MS = 30_000
"""The newest input stays in the stream: engines process the audio of an open utterance again."""

_LONGEST_PAUSE_S = 0.5
"""What the model says in a longer unit does not wait for a voice that may be a cough."""

_BATCH = 10
"""Units that are stored together for recovery."""


class DuplexRunner(SessionRunner[RecoveredDuplex, PrepareIn, DuplexView]):
    """Runs one unit per chunk. The finalize step of a unit may overlap with the client's next chunk."""

    ACCEPTS: ClassVar = {
        SessionState.ASSIGNED: frozenset({PrepareIn, StopIn}),
        SessionState.ACTIVE: frozenset({ChunkIn, PauseIn, PlaybackIn, TextIn, StopIn}),
        SessionState.PAUSED: frozenset({ResumeIn, PlaybackIn, StopIn}),
    }

    def __init__(self, context: WorkerContext, session: ClaimedSession, view: DuplexView) -> None:
        past = ConversationPast[PastUnit](context, session, lag=_REPLAYED_MS, batch=_BATCH)
        backlog = context.settings.backlog_chunks
        super().__init__(context, session, recover_duplex, past, view, backlog)
        self._config = DuplexConfig()
        self._deferred = True
        self._finalizing: asyncio.Task[None] | None = None
        self._paused_until_s = 0.0
        self._current_time = 0
        self._played_ms: float | None = None
        self._sequence = UnitSequence(context.processor.info.context_tokens)
        self._guard: BargeInGuard | None = None
        self._speech = ModelSpeech()
        self._voice, self._response = VoiceLevel(), ResponseTimer()
        self._transcript = context.transcriber.listen() if context.transcriber else None

    async def _load(self, entry: PrepareIn) -> int:
        self._config = entry.config
        self._deferred = entry.deferred_finalize
        if self._transcript:
            self._transcript.interim = entry.config.interim_transcripts
        if entry.config.barge_in and not self._view.detects_barge_in:
            transcriber = self._context.transcriber
            self._guard = BargeInGuard(transcriber.words_in if transcriber else None)
        voices = reference_voice(entry.ref_audio), reference_voice(entry.tts_ref_audio)
        call, view, prompt = self._context.engine.call, self._view, entry.system_prompt
        history = [(TextKind(kind), text) for kind, text in entry.history]
        if history and not self._context.processor.info.takes_texts:
            prompt, history = f"{prompt}\n\n{written_history(history)}", []
        length = await call(view.prepare, prompt, entry.config, *voices)
        if history:
            await call(view.add_history, history)
        return length

    async def _restore(self, state: RecoveredDuplex) -> None:
        await self._context.engine.call(self._view.replay, state.units)
        if state.played_ms is not None:
            await self._report_playback(state.played_ms)
        await self._session.move(SessionState.ACTIVE)
        self._current_time = state.current_time
        self._sequence.restore(state.results)
        self._total_usage = state.usage
        if state.units:
            self._speech.resume(state.units[-1], state.current_time)
        self._transcribe_again(state.units)
        if state.paused_until is not None:
            left_ms = state.paused_until - self._context.broker.clock.now_ms()
            self._paused_until_s = time.monotonic() + left_ms / 1000
            await self._session.move(SessionState.PAUSED)
        count, now = len(state.units), self._session.state
        log.info("session_recovered", units=count, shortened=state.shortened, state=now)

    def _silence_left_s(self) -> float:
        if self._session.state is SessionState.PAUSED:
            return self._paused_until_s - time.monotonic()
        return self._last_input_at + self._context.settings.silence_timeout_s - time.monotonic()

    def _silence_reason(self) -> str:
        if self._session.state is SessionState.PAUSED:
            return "the pause lasted too long"
        return f"nothing was received for {self._context.settings.silence_timeout_s:g} s"

    async def _handle(self, item: QueuedInput, mailbox: SessionMailbox) -> EndReason | None:  # noqa: ARG002
        match item.entry:
            case ChunkIn() as entry:
                return await self._run_unit(item, entry)
            case PrepareIn() as entry:
                await self._prepare(item.position.n, entry)
            case PlaybackIn(played_ms=played_ms):
                await self._report_playback(played_ms)
            case TextIn() as entry:
                await self._add_text(item.position.n, entry)
            case PauseIn(timeout_s=timeout_s):
                self._paused_until_s = time.monotonic() + timeout_s
                self._response.reset()
                await self._session.publish(PausedOut(input_n=item.position.n, timeout_s=timeout_s))
                await self._session.move(SessionState.PAUSED)
            case ResumeIn():
                await self._session.publish(ResumedOut(input_n=item.position.n))
                await self._session.move(SessionState.ACTIVE)
            case StopIn():
                return await self._stop()
        return None

    async def _report_playback(self, played_ms: float) -> None:
        self._played_ms = played_ms
        await self._wait_for_engine()
        await self._context.engine.call(self._view.played, played_ms)

    async def _add_text(self, n: int, entry: TextIn) -> None:
        context = self._context
        info = context.processor.info
        await self._wait_for_engine()
        try:
            if not info.takes_texts:
                text = f"the engine {info.name!r} takes no texts during a session"
                raise UnsupportedContent(text, "type")
            await context.engine.call(self._view.add_text, entry.kind, entry.text)
        except EngineError as error:
            await publish_error(context, self._session, n, error)
        else:
            await self._session.publish(TextAddedOut(text_n=n))

    async def _run_unit(self, item: QueuedInput, chunk: ChunkIn) -> EndReason | None:
        context = self._context
        await self._wait_for_engine()
        samples = samples_from_bytes(chunk.audio, chunk.pcm)
        duration_ms = round(len(samples) * 1000 / INPUT_RATE)
        self._current_time += duration_ms * (1 + len(item.skipped))
        if self._transcript:
            self._transcript.feed(samples)
        try:
            result, prefill_ms = await context.engine.call(self._step, chunk, samples)
        except ContextFull as error:
            return await self._fail(item.position.n, error)
        except EngineError as error:
            await publish_error(
                context, self._session, item.position.n, error, skipped=item.skipped
            )
            return None
        if self._transcript:
            result = replace(result, interim_user_text=self._transcript.said_so_far)
            if text := self._transcript.take():
                result = replace(result, memo={**result.memo, "user": text})
        silence_ms = self._view.silence_ms
        if silence_ms is None:
            silence_ms = self._voice.feed(samples)
        asked_at = self._response.add(result, chunk.at, silence_ms, duration_ms)
        if self._deferred:
            await self._publish_unit(item, chunk, result, prefill_ms, asked_at, duration_ms)
            self._finalizing = asyncio.create_task(self._finalize())
        else:
            await self._finalize()
            await self._publish_unit(item, chunk, result, prefill_ms, asked_at, duration_ms)
        return None

    def _transcribe_again(self, units: Sequence[PastUnit]) -> None:
        """The utterance that the last worker was transcribing."""
        open_units = takewhile(lambda unit: not unit.memo.get("user"), reversed(units))
        for unit in reversed(list(open_units)):
            if self._transcript and unit.audio is not None:
                self._transcript.feed(unit.audio)

    def _step(self, chunk: ChunkIn, samples: Samples) -> tuple[UnitResult, float]:
        """Prefill and generate on an engine thread. `cost_all_ms` is the sum of both."""
        started = time.perf_counter()
        slices = chunk.max_slice_nums or self._config.max_slice_nums
        voice, speech = UserVoice.NONE, self._speech
        if self._guard is not None:
            voice = self._guard.feed(samples, model_speaks=speech.is_playing)
        prefilled = self._view.prefill(samples, chunk.frames, slices)
        forced = chunk.force_listen or (voice is UserVoice.SPEECH and speech.is_playing)
        result = self._view.generate(forced)
        holds = voice is UserVoice.MAYBE and len(samples) <= _LONGEST_PAUSE_S * INPUT_RATE
        result = speech.add(result, self._current_time, forced=forced, holds=holds)
        cost_ms = (time.perf_counter() - started) * 1000
        return replace(
            result,
            current_time=self._current_time,
            cost_all_ms=round(cost_ms, 3),
            vision_slices=prefilled.vision_slices,
            vision_tokens=prefilled.vision_tokens,
        ), prefilled.cost_ms

    async def _publish_unit(
        self,
        item: QueuedInput,
        chunk: ChunkIn,
        result: UnitResult,
        prefill_ms: float,
        asked_at: float | None,
        length_ms: float,
    ) -> None:
        context, metrics, counters = self._context, self._context.metrics, self._context.counters
        now_ms = context.broker.clock.now_ms()
        wall_clock_ms = (time.monotonic() - item.read_s) * 1000
        usage = self._take_usage()
        out = ResultOut.of(
            result,
            input_n=item.position.n,
            skipped=item.skipped,
            interrupted=self._speech.interrupted,
            trace=chunk.trace,
            received_at=chunk.at,
            read_at=round(now_ms - wall_clock_ms, 3),
            prefill_ms=round(prefill_ms, 3),
            wall_clock_ms=round(wall_clock_ms, 3),
            usage=usage,
            total_usage=self._total_usage,
            **self._sequence.next(result),
            first_audio=context.first_audio(self._session.claim.kind, asked_at),
        )
        position = await self._session.publish(out)
        counters.units += 1
        counters.units_speaking += not out.is_listen
        counters.chunks_skipped += len(out.skipped)
        counters.deadline_misses += out.wall_clock_ms > allowed_ms(
            length_ms, speaks=not out.is_listen
        )
        counters.unit_ms_total += out.wall_clock_ms
        metrics.stream_wait.observe(max(0.0, out.read_at - out.received_at) / 1000)
        metrics.unit.observe(out.wall_clock_ms / 1000)
        for name, stage in metrics.stages.items():
            stage.observe(getattr(out, name) / 1000)
        self._session.record_latency(out.read_at - out.received_at + out.wall_clock_ms)
        if context.tracer:
            context.tracer.record_unit(out, now_ms)
        unit = past_unit(out, chunk if self._past.keeps_audio else None, self._played_ms)
        self._played_ms = None
        await self._past.add(FinishedStep(unit, item.position, position, self._current_time))

    async def _finalize(self) -> None:
        with self._context.metrics.finalize.time():
            await self._context.engine.call(self._view.finalize)

    async def _wait_for_engine(self) -> None:
        """The finalize step of a unit must end before the next prefill."""
        if self._finalizing is not None:
            finalizing, self._finalizing = self._finalizing, None
            await finalizing


_SPEAKERS = {TextKind.USER: "User", TextKind.ASSISTANT: "You"}


def written_history(history: Sequence[tuple[TextKind, str]]) -> str:
    """What was said before the session, for a model that takes a system prompt only."""
    lines = [f"{_SPEAKERS[kind]}: {text}" if kind in _SPEAKERS else text for kind, text in history]
    return "\n".join(["The conversation so far:", *lines])


def allowed_ms(length_ms: float, *, speaks: bool) -> float:
    """The time after which the unit of a chunk is late.

    Speech plays with a gap when it takes longer than its chunk. Results without speech have no deadline.
    """
    return length_ms if speaks else max(length_ms, USUAL_CHUNK_MS)
