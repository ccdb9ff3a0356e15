"""The life of a conversation on this worker. Full-duplex and half-duplex runners share it."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

import structlog
from msgspec.structs import replace

from antiphon.inference_worker.engines.processor import SessionView
from antiphon.inference_worker.engines.types import (
    ContextFull,
    EngineError,
    InputRefused,
    TooManyRequests,
    UnsupportedContent,
)
from antiphon.inference_worker.sessions.claimed_session import ClaimedSession
from antiphon.inference_worker.sessions.conversation_past import ConversationPast
from antiphon.inference_worker.sessions.mailbox import QueuedInput, SessionMailbox, open_mailbox
from antiphon.inference_worker.sessions.recovery import (
    PrepareT,
    RecoveredSession,
    StreamHistory,
    read_history,
)
from antiphon.inference_worker.sessions.worker_context import WorkerContext
from antiphon.shared_schemas.audio import PcmFormat, Samples, samples_from_bytes
from antiphon.shared_schemas.entries import (
    ChunkIn,
    ErrorOut,
    HalfDuplexPrepareIn,
    InEntry,
    PreparedOut,
    PrepareIn,
    StoppedOut,
    StreamPosition,
    TimeoutOut,
)
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.states import EndReason, SessionState
from antiphon.shared_schemas.unit_result import TokenUsage

log = structlog.get_logger()

_QUEUE_CHECK_S = 1.0
"""How often a session without input looks whether others wait."""

StateT = TypeVar("StateT", bound=RecoveredSession[Any])
ViewT = TypeVar("ViewT", bound=SessionView)


class SessionRunner(ABC, Generic[StateT, PrepareT, ViewT]):
    """Recovers the conversation, waits for `prepare`, then handles one input after another."""

    ACCEPTS: ClassVar[Mapping[SessionState, frozenset[type[InEntry]]]]
    """Inputs that a state accepts. The edge rejects others; those that arrive anyway are ignored."""

    def __init__(
        self,
        context: WorkerContext,
        session: ClaimedSession,
        recover: Callable[[StreamHistory], StateT],
        past: ConversationPast[Any],
        view: ViewT,
        backlog_chunks: int,
    ) -> None:
        """If more than `backlog_chunks` unread chunks wait, the oldest is dropped."""
        self._context = context
        self._session = session
        self._recover = recover
        self._past = past
        self._view = view
        self._backlog_chunks = backlog_chunks
        self._total_usage: TokenUsage | None = None
        self._prepare_by = 0.0
        self._last_input_at = self._last_audio_at = 0.0
        self._answer_played_at = 0.0
        """A client that plays an answer may send no audio until then."""

    async def run(self) -> EndReason:
        """Serve until the conversation ends; returns the reason.

        Raises StaleFence if another worker has the session, Unrecoverable if recovery fails.
        """
        context, claim = self._context, self._session.claim
        state = await self._read_past()
        if state.prepare is None:
            self._start_prepare_timeout()
        else:
            await self._session.move(SessionState.PREPARING)
            self._past.recorded = state.prepare.config.record
            self._past.restore(state.covered, state.recent, state.stored)
            await self._load(state.prepare)
            await self._restore(state)
            if self._view.take_usage:
                self._view.take_usage()  # of tokens that the earlier worker has already counted
            context.counters.recovered += 1
        after = state.position or StreamPosition.before(claim.ticket)
        try:
            async with open_mailbox(context, claim.sid, after, self._backlog_chunks) as mailbox:
                reason = await self._complete_open_turn(state, mailbox)
                del state  # its sound would stay in memory until the session ends
                return await self._serve(mailbox, reason)
        finally:
            await self._wait_for_engine()

    async def _read_past(self) -> StateT:
        if self._session.claim.epoch > 1:
            await self._past.open()
        history = await read_history(self._context.broker, self._session.claim)
        return await asyncio.to_thread(self._recover, history)  # decodes all of its sound

    async def _serve(self, mailbox: SessionMailbox, reason: EndReason | None) -> EndReason:
        self._last_input_at = time.monotonic()
        self._last_audio_at = max(self._last_input_at, self._answer_played_at)
        while reason is None:
            item = await mailbox.next(min(self._time_left_s(), _QUEUE_CHECK_S))
            if item is None:
                if not self._time_left_s():
                    return await self._time_out()
            elif type(item.entry) in self.ACCEPTS[self._session.state]:
                reason = await self._handle(item, mailbox)
                self._last_input_at = time.monotonic()
                if isinstance(item.entry, ChunkIn | PrepareIn | HalfDuplexPrepareIn):
                    self._last_audio_at = max(self._last_input_at, self._answer_played_at)
        return reason

    def _time_left_s(self) -> float:
        if self._session.state is SessionState.ASSIGNED:
            return max(0.0, self._prepare_by - time.monotonic())
        left_s = self._silence_left_s()
        if self._context.contended.is_set():
            silent_s = time.monotonic() - self._last_audio_at
            limit_s = self._context.settings.contended_silence_timeout_s
            left_s = min(left_s, limit_s - silent_s)
        return max(0.0, left_s)

    def _start_prepare_timeout(self) -> None:
        """Other input does not extend it."""
        self._prepare_by = time.monotonic() + self._context.settings.prepare_timeout_s

    async def _time_out(self) -> EndReason:
        if self._session.state is SessionState.ASSIGNED:
            limit_s = self._context.settings.prepare_timeout_s
            text = (
                f"nothing was prepared within {limit_s:g} s: send `prepare` "
                "(on /v1/realtime `session.update` or `session.init`)"
            )
            error = ErrorOut(code=ErrorCode.NOT_READY, message=text, fatal=True)
            await self._session.publish(error)
            return EndReason.ERROR
        reason = self._silence_reason()
        if self._silence_left_s() > 0:
            limit_s = self._context.settings.contended_silence_timeout_s
            reason = f"no audio for {limit_s:g} s while other sessions wait"
        elapsed_s = round(time.monotonic() - self._last_audio_at, 3)
        await self._session.publish(TimeoutOut(reason=reason, elapsed_s=elapsed_s))
        return EndReason.PAUSE_TIMEOUT

    async def _prepare(self, n: int, entry: PrepareT) -> None:
        prompt = entry.system_prompt if isinstance(entry, PrepareIn) else entry.system().text
        summary = {"system_prompt": prompt[:200], **entry.config.model_dump()}
        await self._session.move(SessionState.PREPARING, summary)
        try:
            self._check_abilities(entry)
            length = await self._load(entry)
        except EngineError as error:
            # CONTEXT_FULL ends a conversation. None has begun, so a shorter prompt may follow.
            code = ErrorCode.INVALID_FIELD if isinstance(error, ContextFull) else None
            await publish_error(self._context, self._session, n, error, code=code)
            await self._session.move(SessionState.ASSIGNED)
            self._start_prepare_timeout()
            return
        self._past.recorded = entry.config.record
        # Before all steps: trimming would remove it from the input.
        await self._past.append(replace(entry, input_n=n))
        prepared = PreparedOut(
            input_n=n,
            prompt_length=length,
            chunk_ms=self._context.processor.info.chunk_ms,
            usage=self._take_usage(),
        )
        await self._session.publish(prepared)
        await self._session.move(SessionState.ACTIVE)
        self._prepared()

    def _check_abilities(self, entry: PrepareT) -> None:
        info = self._context.processor.info
        if entry.config.greeting and not info.greets:
            text = f"the engine {info.name!r} does not greet: send no `greeting`"
            raise UnsupportedContent(text, "config.greeting")
        if isinstance(entry, PrepareIn):
            info.check_voice(entry.config.voice, "config.voice")
        else:
            info.check_voice(entry.config.tts.voice, "config.tts.voice")

    def _take_usage(self) -> TokenUsage | None:
        usage = self._view.take_usage() if self._view.take_usage else None
        if usage is not None:
            self._context.metrics.count_tokens(usage)
            self._total_usage = self._total_usage + usage if self._total_usage else usage
        return usage

    async def _stop(self) -> EndReason:
        await self._session.publish(StoppedOut())
        return EndReason.STOPPED

    async def _fail(self, n: int, error: ContextFull) -> EndReason:
        await publish_error(self._context, self._session, n, error, fatal=True)
        return EndReason.CONTEXT_FULL

    @abstractmethod
    async def _load(self, entry: PrepareT) -> int:
        """Prepare the engine; returns the prompt's length in tokens."""

    @abstractmethod
    async def _restore(self, state: StateT) -> None:
        """Replay the conversation on the prepared engine and enter its state."""

    @abstractmethod
    async def _handle(self, item: QueuedInput, mailbox: SessionMailbox) -> EndReason | None:
        """Handle one accepted input; returns a reason if it ends the session."""

    @abstractmethod
    def _silence_left_s(self) -> float:
        """How long the client may still send nothing, if no other session waits."""

    @abstractmethod
    def _silence_reason(self) -> str:
        """Why the session ends when that time is over."""

    async def _complete_open_turn(
        self,
        state: StateT,  # noqa: ARG002
        mailbox: SessionMailbox,  # noqa: ARG002
    ) -> EndReason | None:
        """Complete the answer that the last worker began, if the kind has turns."""
        return None

    def _prepared(self) -> None:
        """Called after `prepare` was accepted."""

    async def _wait_for_engine(self) -> None:
        """Called at the end, before the engine view is freed."""


async def publish_error(
    context: WorkerContext,
    session: ClaimedSession,
    input_n: int,
    error: EngineError,
    *,
    code: ErrorCode | None = None,
    fatal: bool = False,
    skipped: tuple[int, ...] = (),
) -> None:
    """Count, log and publish an error of the engine, or its refusal of a client's input.

    `code`: by default that of the error's class.
    """
    if isinstance(error, InputRefused):
        context.metrics.refused.labels(error.reason).inc()
        log.info("input_refused", input_n=input_n, reason=error.reason, error=str(error))
    else:
        context.counters.engine_errors += 1
        log.warning("engine_error", input_n=input_n, error=str(error), fatal=fatal)
    entry = ErrorOut(
        input_n=input_n,
        skipped=skipped,
        code=code or _code_of(error),
        message=str(error),
        field=error.field if isinstance(error, UnsupportedContent) else None,
        fatal=fatal,
    )
    await session.publish(entry)


def _code_of(error: EngineError) -> ErrorCode:
    match error:
        case ContextFull():
            return ErrorCode.CONTEXT_FULL
        case InputRefused():
            return ErrorCode.INVALID_FIELD
        case TooManyRequests():
            return ErrorCode.RATE_LIMITED
    return ErrorCode.INFERENCE_ERROR


def reference_voice(data: bytes) -> Samples | None:
    """A reference voice as float32 samples; None if the client sent none."""
    return samples_from_bytes(data, PcmFormat.F32) if data else None
