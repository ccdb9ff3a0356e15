"""Generates the answers of a session and the transcripts of its items, one after another."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from antiphon.inference_worker.engines.processor import ChatView, SessionView, UnifiedProcessor
from antiphon.inference_worker.engines.types import (
    ContextFull,
    Delta,
    EngineError,
    UnsupportedContent,
    no_progress,
)
from antiphon.inference_worker.sessions.answer import AnswerStream
from antiphon.inference_worker.sessions.claimed_session import ClaimedSession
from antiphon.inference_worker.sessions.mailbox import InterruptWatcher
from antiphon.inference_worker.sessions.runner import publish_error, reference_voice
from antiphon.inference_worker.sessions.transcripts import UserTranscriber
from antiphon.inference_worker.sessions.turns.conversation import (
    MOST_SOUND_S,
    Item,
    TurnsConversation,
    WantedResponse,
    shortened,
    without_tools,
)
from antiphon.inference_worker.sessions.turns.listening import MOST_BUFFERED_S
from antiphon.inference_worker.sessions.worker_context import WorkerContext
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, SILENCE, Samples, float_bytes
from antiphon.shared_schemas.config import ChatOptions, TurnsConfig
from antiphon.shared_schemas.content import ConversationMessage, Role, ToolCall
from antiphon.shared_schemas.entries import (
    GeneratingOut,
    OutEntry,
    StreamPosition,
    TranscriptOut,
    TurnDoneOut,
)
from antiphon.shared_schemas.entries.turns import new_item_id
from antiphon.shared_schemas.unit_result import TokenUsage

_TRANSCRIPT_PATIENCE_S = 0.3
"""How long an answer waits for its question's transcript. Clients keep their history in order of arrival."""

_MESSAGE = re.compile(r"messages\.(\d+)(.*)", re.DOTALL)
"""What an engine calls a part of its input."""

_OLD_SOUND = f"the item is older than the {MOST_SOUND_S} s of sound that are kept"
_NO_TRANSCRIPTS = "the engine {} makes no transcripts; set ANTIPHON_TRANSCRIBE on the worker"


class ChatViews(SessionView):
    """The engine's view of the answer that is being generated: a chat for each."""

    def __init__(self, processor: UnifiedProcessor) -> None:
        self._processor = processor
        self._stopped = False
        self.current: ChatView | None = None

    def open(self) -> ChatView:
        """Blocks. Frees the view before."""
        self.close()
        self.current = self._processor.set_chat_mode()
        if self._stopped:
            self.current.stop()
        return self.current

    def close(self) -> None:
        current, self.current = self.current, None
        if current is not None:
            current.stop()
            current.cleanup()

    def stop(self) -> None:
        self._stopped = True
        if self.current is not None:
            self.current.stop()

    def cleanup(self) -> None:
        self.close()


class _SpokenAnswer(AnswerStream):
    """Counts the sound of an answer. `before_first` runs before its first piece is published."""

    samples = 0
    before_first: Callable[[], Awaitable[None]] | None = None

    async def _publish_piece(self, delta: Delta, *, streaming: bool) -> None:
        before, self.before_first = self.before_first, None
        if before is not None:
            await before()
        await super()._publish_piece(delta, streaming=streaming)

    def _count(self, delta: Delta) -> None:
        super()._count(delta)
        self.samples += len(delta.audio)


class Responder:
    """`run` serves the answers that are due, and transcribes the user's items between them.

    `handled`: the number of the last input that has been handled completely.
    """

    def __init__(
        self,
        context: WorkerContext,
        session: ClaimedSession,
        views: ChatViews,
        conversation: TurnsConversation,
        untranscribed: Sequence[str] = (),
    ) -> None:
        self.conversation = conversation
        self.handled = 0
        self._context = context
        self._session = session
        self._views = views
        self._untranscribed = deque(untranscribed)
        self._recognised: dict[str, asyncio.Task[_Transcript]] = {}
        """By the recogniser beside the engine, for some of them."""
        self._wake = asyncio.Event()
        self._wake.set()
        self._busy = False
        self._answering: tuple[WantedResponse, InterruptWatcher] | None = None
        self._asked: Samples = SILENCE
        """The user's sound since the last answer, for recordings: the newest MOST_BUFFERED_S of it."""
        self._spoken: AnswerStream | None = None
        self._begun: _Attempt | None = None
        """The last answer, unless the client has dropped its sound."""

    @property
    def idle(self) -> bool:
        return not (
            self._busy or self._wake.is_set() or self._untranscribed or self.conversation.wanted
        )

    @property
    def is_playing(self) -> bool:
        """An answer of the conversation is made, or a client plays it that plays it as it arrives."""
        if any(each.in_conversation and not each.cancelled for each in self.conversation.wanted):
            return True
        return self._spoken is not None and time.monotonic() < self._spoken.played_at

    def silence(self) -> None:
        """The client drops the sound of the answer."""
        self._spoken = None

    def add_sound(self, item_id: str, audio: Samples) -> None:
        """The user's item needs a transcript."""
        if self.conversation.config.record:
            newest = np.concatenate([self._asked, audio])[-MOST_BUFFERED_S * INPUT_RATE :]
            self._asked = newest
        self._untranscribed.append(item_id)
        context = self._context
        if context.transcriber and not context.processor.info.transcribes:
            recognised = _recognise(context.transcriber, audio)
            self._recognised[item_id] = asyncio.create_task(recognised)
        self.wake()

    def wake(self) -> None:
        """An answer is due, or the one that is being generated must end."""
        self._wake.set()
        if self._answering and self._answering[0].cancelled:
            self._answering[1].stopped = True
            self._answering[1].resend()

    async def run(self) -> None:
        """Until it is cancelled. Raises what `ClaimedSession.publish` raises, and EngineLost."""
        try:
            while True:
                await self._wake.wait()
                self._busy = True
                self._wake.clear()
                while self.conversation.wanted or self._untranscribed:
                    if self.conversation.wanted:
                        await self._respond(self.conversation.wanted[0])
                    elif await self._is_recognised(self._untranscribed[0]):
                        await self._transcribe(self._untranscribed[0])
                self._busy = False
        finally:
            for recognised in self._recognised.values():
                recognised.cancel()

    async def _is_recognised(self, item_id: str) -> bool:
        """False if something else is due before the recogniser beside the engine is ready."""
        recognised = self._recognised.get(item_id)
        if recognised is None:
            return True
        self._wake.clear()
        woken = asyncio.create_task(self._wake.wait())
        try:
            await asyncio.wait((recognised, woken), return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()
        return recognised.done()

    async def publish(self, entry: OutEntry) -> StreamPosition:
        """Publish what changes the conversation, and change it."""
        position = await self._session.publish(entry)
        self.conversation.apply_output(entry)
        return position

    async def _respond(self, wanted: WantedResponse) -> None:
        info = self._context.processor.info
        if info.transcribes:
            for item_id in list(self._untranscribed)[:-1]:
                await self._transcribe(item_id)
        if wanted.begun is None:
            await self.publish(self._begin(wanted))
        if wanted.cancelled:
            return await self._finish(wanted, None)
        messages = self.conversation.question(wanted)
        if not info.calls_tools:
            messages = without_tools(messages)
        attempt: _Attempt | None
        self._begun = None
        try:
            attempt = await self._answer(wanted, messages)
        except EngineError as error:
            attempt = self._begun  # what it has said stays said
            if not wanted.cancelled:
                await publish_error(self._context, self._session, self.handled, error)
                return await self._finish(wanted, attempt, failed=True)
        finally:
            self._answering = None
            await self._context.engine.call(self._views.close)
        return await self._finish(wanted, attempt)

    def _begin(self, wanted: WantedResponse) -> GeneratingOut:
        """With the user's sound, for recordings."""
        audio, self._asked = self._asked, SILENCE
        return GeneratingOut(
            input_n=self.handled,
            turn_index=self.conversation.turns,
            speech_duration_ms=len(audio) * 1000 // INPUT_RATE,
            response_id=wanted.id,
            item_id=new_item_id(),
            audio=float_bytes(audio),
        )

    async def _answer(
        self, wanted: WantedResponse, messages: list[ConversationMessage]
    ) -> _Attempt:
        """Generate, without the oldest messages if the model has no room for all. Raises EngineError."""
        config = wanted.config or self.conversation.config
        while True:
            try:
                return await self._attempt(wanted, config, messages)
            except UnsupportedContent as error:
                raise self._named(error, wanted, messages) from error
            except ContextFull:
                fewer = shortened(messages) if config.shortens else None
                if fewer is None:
                    raise
                messages = fewer

    def _named(
        self, error: UnsupportedContent, wanted: WantedResponse, messages: list[ConversationMessage]
    ) -> UnsupportedContent:
        """With the name of the item: a client does not know the messages of the model."""
        found = _MESSAGE.match(error.field)
        if found is None:
            return error
        name = self.conversation.name_of(messages[int(found[1])], wanted)
        field = f"{name}{found[2]}"
        text = str(error).removeprefix(f"{error.field}: ")
        return UnsupportedContent(f"{field}: {text}; delete the item or send another", field)

    async def _attempt(
        self, wanted: WantedResponse, config: TurnsConfig, messages: list[ConversationMessage]
    ) -> _Attempt:
        engine, ref_audio = self._context.engine, wanted.ref_audio or self.conversation.ref_audio
        info = self._context.processor.info
        if config.tts.enabled:
            info.check_voice(config.tts.voice, "session.audio.output.voice")
        if not info.calls_tools:
            config = config.model_copy(update={"tools": []})
        view = await engine.call(self._views.open)
        answer = _SpokenAnswer(self._context, self._session, view, asked_at=wanted.asked_at)
        answer.before_first = self._publish_recognised
        self._spoken = answer if wanted.in_conversation else self._spoken
        self._begun = begun = _Attempt(answer, 0, None, config.generation.max_new_tokens)
        interrupts = InterruptWatcher(self._session.last_output, view.stop, view)
        interrupts.stopped = wanted.cancelled is not None
        self._answering = wanted, interrupts
        voice = reference_voice(ref_audio)
        read = await engine.call(view.prefill, messages, _options(config), voice, no_progress)
        await self._publish_engine_transcript(view, messages)
        if not interrupts.stopped:
            await answer.publish(wanted.said, interrupts, streaming=True)
        usage = view.take_usage() if view.take_usage else None
        return replace(begun, input_tokens=read, usage=usage)

    async def _publish_engine_transcript(
        self, view: ChatView, messages: list[ConversationMessage]
    ) -> None:
        """The engine has transcribed the last message in order to answer it."""
        items = self.conversation.items
        if view.transcript is None or not items or items[-1].message is not messages[-1]:
            return
        if items[-1].id in self._untranscribed:
            await self._publish_transcript(items[-1], view.transcript)

    async def _publish_recognised(self) -> None:
        """Of what the user said before the answer."""
        due = [
            self._recognised[item_id]
            for item_id in self._untranscribed
            if item_id in self._recognised
        ]
        if due:
            await asyncio.wait(due, timeout=_TRANSCRIPT_PATIENCE_S)
        for item_id in list(self._untranscribed):
            recognised = self._recognised.get(item_id)
            if recognised is None or not recognised.done():
                return
            await self._transcribe(item_id)

    async def _finish(
        self, wanted: WantedResponse, attempt: _Attempt | None, *, failed: bool = False
    ) -> None:
        answer, memo = attempt.answer if attempt else None, self._asked_text()
        audio_ms = wanted.audio_ms + (answer.samples * 1000 // OUTPUT_RATE if answer else 0)
        if attempt and attempt.usage:
            self._context.metrics.count_tokens(attempt.usage)
        self._context.counters.turns += 1
        calls = answer.tool_calls if answer and not wanted.cancelled else []
        await self.publish(
            TurnDoneOut(
                input_n=self.handled,
                turn_index=wanted.begun.turn_index if wanted.begun else self.conversation.turns,
                text=(answer.text if answer else "") or wanted.said,
                stopped=wanted.cancelled is not None,
                failed=failed,
                n_tokens=answer.tokens if answer else 0,
                cost_all_ms=round(answer.elapsed_s * 1000, 3) if answer else 0.0,
                memo={**memo, "audio_ms": audio_ms},
                usage=attempt.usage if attempt else None,
                response_id=wanted.id,
                reason=wanted.cancelled or (attempt.cut if attempt else None),
                input_tokens=attempt.input_tokens if attempt else 0,
                tool_calls=[
                    ToolCall(_new_call_id(), call.name, call.arguments).wire() for call in calls
                ],
            )
        )

    def _asked_text(self) -> dict[str, Any]:
        """The user's words, for recordings."""
        items = (item for item in reversed(self.conversation.items))
        asked = next((item for item in items if item.message.role is Role.USER), None)
        return {"user": asked.as_text.text} if asked and asked.as_text.text else {}

    async def _transcribe(self, item_id: str) -> None:
        """By the engine, or by the recogniser beside it."""
        item = self.conversation.find(item_id)
        recognised = self._recognised.pop(item_id, None)
        if item is None:
            self._untranscribed.remove(item_id)
            return
        context, info = self._context, self._context.processor.info
        if recognised is not None:
            found = await recognised
        elif not (info.transcribes or context.transcriber):
            found = _Transcript(None, _NO_TRANSCRIPTS.format(info.name))
        elif item.sound is None:
            found = _Transcript(None, _OLD_SOUND)
        elif info.transcribes:
            try:
                text = await context.engine.call(self._transcript, item.sound.samples())
                found = _Transcript(text)
            except EngineError as error:
                found = _Transcript(None, str(error))
        else:
            assert context.transcriber is not None
            found = await _recognise(context.transcriber, item.sound.samples())
        await self._publish_transcript(item, found.text, found.problem)

    def _transcript(self, sound: Samples) -> str:
        """Blocks."""
        try:
            return "".join(delta.text for delta in self._views.open().transcribe(sound)).strip()
        finally:
            self._views.close()

    async def _publish_transcript(self, item: Item, text: str | None, problem: str = "") -> None:
        self._untranscribed.remove(item.id)
        await self.publish(
            TranscriptOut(
                input_n=self.handled,
                item_id=item.id,
                text=text,
                seconds=item.audio_ms / 1000,
                problem=problem,
            )
        )


@dataclass(frozen=True, slots=True)
class _Transcript:
    """None: there is none, because of the problem."""

    text: str | None
    problem: str = ""


async def _recognise(transcriber: UserTranscriber, audio: Samples) -> _Transcript:
    try:
        text = await asyncio.wrap_future(transcriber.transcribe(audio))
    except EngineError as error:
        return _Transcript(None, str(error))
    except Exception:  # noqa: BLE001 - the transcriber logs it, and the session does not need it
        return _Transcript(None, "the recogniser failed")
    return _Transcript(text)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """What a view made."""

    answer: _SpokenAnswer
    input_tokens: int
    usage: TokenUsage | None
    most_tokens: int

    @property
    def cut(self) -> str | None:
        return "max_output_tokens" if self.answer.tokens >= self.most_tokens else None


def _new_call_id() -> str:
    """Unique in a conversation, and no longer than OpenAI's."""
    return f"call_{secrets.token_hex(12)}"


def _options(config: TurnsConfig) -> ChatOptions:
    return ChatOptions(
        generation=config.generation,
        tts=config.tts,
        use_tts_template=config.tts.enabled,
        tools=config.tools,
        record=config.record,
    )
