"""Runs one chat request: prefills the history, publishes the answer, ends."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from functools import partial

from antiphon.inference_worker.engines.processor import ChatView
from antiphon.inference_worker.engines.types import (
    ContextFull,
    Delta,
    EngineError,
    EngineInfo,
    UnsupportedContent,
    no_progress,
)
from antiphon.inference_worker.sessions.answer import AnswerStream
from antiphon.inference_worker.sessions.claimed_session import ClaimedSession
from antiphon.inference_worker.sessions.mailbox import (
    InterruptWatcher,
    QueuedInput,
    SessionMailbox,
    open_mailbox,
)
from antiphon.inference_worker.sessions.recovery import RecoveredChat, read_history, recover_chat
from antiphon.inference_worker.sessions.runner import publish_error, reference_voice
from antiphon.inference_worker.sessions.turns.conversation import without_tools
from antiphon.inference_worker.sessions.worker_context import TraceContext, WorkerContext
from antiphon.shared_schemas.content import AudioPart, ConversationMessage, TextPart
from antiphon.shared_schemas.entries import (
    BreakIn,
    ChatDoneOut,
    ChatIn,
    ErrorOut,
    PrefillDoneOut,
    ProgressOut,
    StopIn,
    StreamPosition,
)
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.states import EndReason, SessionState

_PROGRESS_INTERVAL_S = 1.0
"""A shorter prefill publishes no progress."""


class ProgressPublisher:
    """Publishes the progress of a long prefill at an interval. Published values only increase.

    `published`: what an earlier worker has published.
    """

    def __init__(self, published: float = 0.0, interval_s: float = _PROGRESS_INTERVAL_S) -> None:
        self._interval_s = interval_s
        self._published = published
        self._done = 0.0

    def __call__(self, done: float) -> None:
        """Set the share that is done, between 0 and 1. Safe to call from any thread."""
        self._done = max(self._done, min(done, 1.0))

    @asynccontextmanager
    async def publish_to(self, session: ClaimedSession) -> AsyncIterator[None]:
        """Publish until the context exits. Raises the errors of `ClaimedSession.publish`."""
        over = asyncio.Event()
        publishing = asyncio.create_task(self._publish(session, over), name="progress")
        try:
            yield
        except asyncio.CancelledError:
            publishing.cancel()  # it may be retrying because Redis is unavailable
            raise
        finally:
            over.set()
            await asyncio.gather(publishing, return_exceptions=True)
        publishing.result()

    async def _publish(self, session: ClaimedSession, over: asyncio.Event) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval_s):
                    await over.wait()
            if over.is_set():
                return
            done = round(self._done, 3)
            if done > self._published:
                self._published = done
                await session.publish(ProgressOut(done=done))


class ChatRunner:
    """One request and its answer."""

    def __init__(self, context: WorkerContext, session: ClaimedSession, view: ChatView) -> None:
        self._context = context
        self._session = session
        self._view = view
        self._recovered = RecoveredChat()
        self._answer = AnswerStream(context, session, view)
        self._input_tokens = 0
        self._streaming = True

    async def run(self) -> EndReason:
        """Serve the request; returns the reason of the end.

        Raises StaleFence if another worker has the session, Unrecoverable if recovery fails.
        """
        context, claim = self._context, self._session.claim
        self._recovered = recover_chat(await read_history(context.broker, claim))
        after, limit = StreamPosition.before(claim.ticket), context.settings.backlog_chunks
        timeout_s = context.settings.prepare_timeout_s
        async with open_mailbox(context, claim.sid, after, limit) as mailbox:
            while (item := await mailbox.next(timeout_s)) is not None:
                match item.entry:
                    case ChatIn() as request:
                        return await self._serve(item, request, mailbox)
                    case StopIn() | BreakIn():
                        return await self._publish_done(stopped=True)
        text = f"no request within {timeout_s:g} s"
        await self._session.publish(ErrorOut(code=ErrorCode.NOT_READY, message=text, fatal=True))
        return EndReason.ERROR

    async def _serve(
        self, item: QueuedInput, request: ChatIn, mailbox: SessionMailbox
    ) -> EndReason:
        self._streaming = request.options.streaming
        trace = TraceContext(request.trace, request.at)
        self._answer = AnswerStream(
            self._context, self._session, self._view, trace, asked_at=request.at
        )
        summary = request.options.model_dump(exclude={"tools"})
        await self._session.move(SessionState.PREPARING, summary)
        interrupts = InterruptWatcher(item.position, self._view.stop, self._view)
        async with interrupts.watch(mailbox):
            try:
                await self._publish_answer(request, interrupts)
            except EngineError as error:
                if not interrupts.interrupted:
                    return await self._fail(item.position.n, error)
        return await self._publish_done(stopped=interrupts.interrupted)

    async def _fail(self, n: int, error: EngineError) -> EndReason:
        await publish_error(self._context, self._session, n, error, fatal=True)
        return EndReason.CONTEXT_FULL if isinstance(error, ContextFull) else EndReason.ERROR

    async def _publish_answer(self, request: ChatIn, interrupts: InterruptWatcher) -> None:
        if request.options.task != "answer":
            await self._publish_made(request, interrupts)
            return
        self._input_tokens = await self._prefill(request)
        if not self._recovered.prefill_done:
            await self._session.publish(PrefillDoneOut(input_tokens=self._input_tokens))
        await self._session.move(SessionState.ACTIVE)
        if not interrupts.interrupted:
            streaming = request.options.streaming
            await self._answer.publish(self._recovered.said, interrupts, streaming=streaming)

    async def _publish_made(self, request: ChatIn, interrupts: InterruptWatcher) -> None:
        """A transcript, or the speech of a text."""
        info, view, options = self._context.processor.info, self._view, request.options
        said = self._recovered.said
        [part] = request.messages()[-1].parts
        make: Callable[[], Iterator[Delta]]
        if isinstance(part, AudioPart):
            make = partial(view.transcribe, part.samples())
            _check(info, info.transcribes, "file", "does not transcribe")
            if options.language and info.hears and options.language not in info.hears:
                text = f"language: the engine {info.name} hears {', '.join(info.hears)} only"
                raise UnsupportedContent(text, "language")
        else:
            assert isinstance(part, TextPart)
            make = partial(view.read_aloud, part.text, options.tts, said)
            _check(
                info,
                info.reads_aloud,
                "input",
                "cannot read a text aloud; it speaks only its own answers",
            )
            info.check_voice(options.tts.voice, "voice")
        await self._session.move(SessionState.ACTIVE)
        await self._answer.publish_made(make, said, interrupts, streaming=options.streaming)

    async def _prefill(self, request: ChatIn) -> int:
        call, prefill = self._context.engine.call, self._view.prefill
        options = request.options
        messages: Sequence[ConversationMessage] = request.messages()
        field = _field_of_tools(request)
        info = self._context.processor.info
        if field and not info.calls_tools:
            if options.needs_tools:
                who = f"the model {info.model} of the engine {info.name}"
                text = (
                    f"{field}: {who} does not know tools; leave them out, or use a model that does"
                )
                raise UnsupportedContent(text, field)
            messages = without_tools(messages)
            options = options.model_copy(update={"tools": []})
        arguments = messages, options, reference_voice(request.ref_audio)
        if options.must_call:
            _check(info, info.forces_calls, "tool_choice", "cannot make its model call a tool")
        info.check_voice(request.options.tts.voice, "tts.voice")
        if not request.progress or self._recovered.prefill_done:
            return await call(prefill, *arguments, no_progress)
        progress = ProgressPublisher(self._recovered.progress)
        async with progress.publish_to(self._session):
            return await call(prefill, *arguments, progress)

    async def _publish_done(self, *, stopped: bool) -> EndReason:
        answer, took_s = self._answer, self._answer.elapsed_s
        self._context.counters.chats += 1
        usage = self._view.take_usage() if self._view.take_usage else None
        if usage is not None:
            self._context.metrics.count_tokens(usage)
        audio = answer.unsent_audio
        await self._session.publish(
            ChatDoneOut(
                trace=answer.trace.trace,
                text=answer.text,
                audio=audio,
                generated_tokens=answer.tokens,
                input_tokens=self._input_tokens,
                duration_ms=round(took_s * 1000, 3),
                streaming=self._streaming,
                stopped=stopped,
                tool_calls=[] if stopped else [call.wire() for call in answer.tool_calls],
                segments=[asdict(segment) for segment in answer.segments],
                usage=usage,
                first_audio=answer.take_first_audio() if audio else None,
            )
        )
        answer.record_trace(took_s)
        return EndReason.STOPPED


def _check(info: EngineInfo, able: bool, field: str, what: str) -> None:
    """Raises UnsupportedContent."""
    if not able:
        raise UnsupportedContent(f"{field}: the engine {info.name} {what}", field)


def _field_of_tools(request: ChatIn) -> str | None:
    """The first field of a request that only a model with tools understands."""
    if request.options.tools:
        return "tools"
    for number, message in enumerate(request.content):
        if message.get("tool_calls"):
            return f"messages.{number}.tool_calls"
    return None
