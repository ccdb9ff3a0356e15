"""Runs one full-duplex session, from its claim to its end or to its next worker."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import structlog

from antiphon.broker.retry import retry_until_available
from antiphon.inference_worker.bench import Bench
from antiphon.inference_worker.engines.processor import DuplexView
from antiphon.inference_worker.engines.types import ContextFull, EngineError
from antiphon.inference_worker.held_session import HeldSession
from antiphon.inference_worker.mailbox import Mailbox, open_mailbox
from antiphon.inference_worker.runner_parts import read_streams, reference_voice, report
from antiphon.inference_worker.session.backlog import Unread
from antiphon.inference_worker.session.duplex import Action, decide
from antiphon.inference_worker.session.replay import Past, duration_ms, recall
from antiphon.shared_schemas.audio import Samples
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.entries import (
    ChunkIn,
    ErrorOut,
    PausedOut,
    PauseIn,
    PlaybackIn,
    PreparedOut,
    PrepareIn,
    ResultOut,
    ResumedOut,
    StoppedOut,
    TimeoutOut,
)
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.states import EndReason, SessionState
from antiphon.shared_schemas.stream_position import StreamPosition
from antiphon.shared_schemas.unit_result import UnitResult

log = structlog.get_logger()


class DuplexRunner:
    """One conversation: its view of the engine, its state, its clock."""

    def __init__(self, bench: Bench, session: HeldSession, view: DuplexView) -> None:
        self._bench = bench
        self._session = session
        self._view = view
        self._config = DuplexConfig()
        self._deferred = True
        self._finalizing: asyncio.Task[None] | None = None
        self._paused_until = 0.0
        self._prepare_by = 0.0
        self._current_time = 0

    async def run(self) -> EndReason:
        """Serve until the conversation ends; returns why.

        Raises StaleFence when it is ours no more, PastLost when nobody can go on with it.
        """
        past = await retry_until_available(self._recall, "read a session's past")
        await self._take_up(past)
        claim = self._session.claim
        after = past.position or StreamPosition.before(claim.ticket)
        limit = self._bench.settings.backlog_chunks
        try:
            async with open_mailbox(self._bench.broker, claim.sid, after, limit) as mailbox:
                return await self._serve(mailbox)
        finally:
            await self._finalized()

    async def _recall(self) -> Past:
        return recall(*await read_streams(self._bench.broker, self._session.claim))

    async def _take_up(self, past: Past) -> None:
        """Go on where another worker stopped; the client hears nothing of it."""
        if past.prepare is None:
            self._await_prepare()
            return
        await self._session.move(SessionState.PREPARING)
        await self._load(past.prepare)
        await self._bench.engine.call(self._view.replay, past.units)
        if past.played_ms is not None:
            await self._played(past.played_ms)
        await self._session.move(SessionState.ACTIVE)
        self._current_time = past.current_time
        if past.paused_until is not None:
            self._paused_until = past.paused_until
            await self._session.move(SessionState.PAUSED)
        self._bench.counters.recovered += 1
        count, state = len(past.units), self._session.state
        log.info("session_recovered", units=count, shortened=past.shortened, state=state)

    def _await_prepare(self) -> None:
        """From now on, whatever else the client sends meanwhile."""
        self._prepare_by = time.monotonic() + self._bench.settings.prepare_timeout_s

    async def _serve(self, mailbox: Mailbox) -> EndReason:
        while True:
            item = await mailbox.next(self._patience_s())
            if item is None:
                return await self._time_out()
            reason = await self._answer(item)
            if reason is not None:
                return reason

    def _patience_s(self) -> float:
        """How long the client may be silent where it stands now."""
        if self._session.state is SessionState.ASSIGNED:
            return max(0.0, self._prepare_by - time.monotonic())
        if self._session.state is SessionState.PAUSED:
            return max(0.0, self._paused_until - self._bench.broker.clock.now_ms()) / 1000
        return self._bench.settings.silence_timeout_s

    async def _time_out(self) -> EndReason:
        settings, state = self._bench.settings, self._session.state
        if state is SessionState.ASSIGNED:
            text = f"no `prepare` within {settings.prepare_timeout_s:g} s"
            entry = ErrorOut(code=ErrorCode.NOT_READY, message=text, fatal=True)
            await self._session.publish(entry)
            return EndReason.ERROR
        silent = f"nothing was received for {settings.silence_timeout_s:g} s"
        text = "the pause lasted too long" if state is SessionState.PAUSED else silent
        await self._session.publish(TimeoutOut(reason=text))
        return EndReason.PAUSE_TIMEOUT

    async def _answer(self, item: Unread) -> EndReason | None:
        match decide(self._session.state, item.entry), item.entry:
            case Action.PREPARE, PrepareIn() as entry:
                await self._prepare(item.n, entry)
            case Action.RUN_UNIT, ChunkIn() as entry:
                return await self._run_unit(item, entry)
            case Action.PAUSE, PauseIn() as entry:
                await self._pause(item.n, entry)
            case Action.RESUME, _:
                await self._session.publish(ResumedOut(input_n=item.n))
                await self._session.move(SessionState.ACTIVE)
            case Action.PLAYED, PlaybackIn(played_ms=played_ms):
                await self._played(played_ms)
            case Action.STOP, _:
                await self._session.publish(StoppedOut())
                return EndReason.STOPPED
        return None

    async def _prepare(self, n: int, entry: PrepareIn) -> None:
        summary = {"system_prompt": entry.system_prompt[:200], **entry.config.model_dump()}
        await self._session.move(SessionState.PREPARING, summary)
        try:
            length = await self._load(entry)
        except EngineError as error:
            await report(self._bench, self._session, n, error)
            await self._session.move(SessionState.ASSIGNED)
            self._await_prepare()
            return
        await self._session.save_prepare(n, entry)
        await self._session.publish(PreparedOut(input_n=n, prompt_length=length))
        await self._session.move(SessionState.ACTIVE)

    async def _load(self, entry: PrepareIn) -> int:
        self._config = entry.config
        self._deferred = entry.deferred_finalize
        voices = reference_voice(entry.ref_audio), reference_voice(entry.tts_ref_audio)
        prepare = self._view.prepare
        return await self._bench.engine.call(prepare, entry.system_prompt, entry.config, *voices)

    async def _pause(self, n: int, entry: PauseIn) -> None:
        self._paused_until = self._bench.broker.clock.now_ms() + entry.timeout_s * 1000
        await self._session.publish(PausedOut(input_n=n, timeout_s=entry.timeout_s))
        await self._session.move(SessionState.PAUSED)

    async def _played(self, played_ms: float) -> None:
        await self._finalized()
        await self._bench.engine.call(self._view.played, played_ms)

    async def _run_unit(self, item: Unread, chunk: ChunkIn) -> EndReason | None:
        await self._finalized()
        samples = chunk.samples()
        self._current_time += duration_ms(len(samples)) * (1 + len(item.skipped))
        try:
            result, prefill_ms = await self._bench.engine.call(self._step, chunk, samples)
        except ContextFull as error:
            await report(
                self._bench, self._session, item.n, error, code=ErrorCode.CONTEXT_FULL, fatal=True
            )
            return EndReason.CONTEXT_FULL
        except EngineError as error:
            await report(self._bench, self._session, item.n, error, skipped=item.skipped)
            return None
        if self._deferred:
            await self._publish_unit(item, chunk, result, prefill_ms)
            self._finalizing = asyncio.create_task(self._finalize())
        else:
            await self._finalize()
            await self._publish_unit(item, chunk, result, prefill_ms)
        return None

    def _step(self, chunk: ChunkIn, samples: Samples) -> tuple[UnitResult, float]:
        """Prefill and generate, on an engine thread; cost_all_ms is what both took."""
        started = time.perf_counter()
        slices = chunk.max_slice_nums or self._config.max_slice_nums
        prefilled = self._view.prefill(samples, chunk.frames, slices)
        result = self._view.generate(chunk.force_listen)
        cost_ms = (time.perf_counter() - started) * 1000
        return replace(
            result,
            current_time=self._current_time,
            cost_all_ms=round(cost_ms, 3),
            vision_slices=prefilled.vision_slices,
            vision_tokens=prefilled.vision_tokens,
        ), prefilled.cost_ms

    async def _publish_unit(
        self, item: Unread, chunk: ChunkIn, result: UnitResult, prefill_ms: float
    ) -> None:
        wall_clock_ms = self._bench.broker.clock.now_ms() - item.read_at
        self._bench.counters.count_unit(
            is_listen=result.is_listen,
            skipped=len(item.skipped),
            wall_clock_ms=wall_clock_ms,
            deadline_ms=self._config.chunk_ms,
        )
        out = ResultOut.of(
            result,
            input_n=item.n,
            skipped=item.skipped,
            trace=chunk.trace,
            received_at=chunk.at,
            read_at=round(item.read_at, 3),
            prefill_ms=round(prefill_ms, 3),
            wall_clock_ms=round(wall_clock_ms, 3),
        )
        self._bench.metrics.observe_unit(out)
        self._session.answered(out.read_at - out.received_at + out.wall_clock_ms)
        await self._session.publish(out)
        if self._bench.trace:
            self._bench.trace.unit(out, item.read_at + wall_clock_ms)

    async def _finalize(self) -> None:
        with self._bench.metrics.finalize.time():
            await self._bench.engine.call(self._view.finalize)

    async def _finalized(self) -> None:
        """The barrier: a unit's finalize ends before the next prefill begins."""
        if self._finalizing is not None:
            finalizing, self._finalizing = self._finalizing, None
            await finalizing
