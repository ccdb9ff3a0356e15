"""Runs one session of items and answers: hears while it answers, and is interrupted by speech."""

import asyncio
import time
from collections.abc import Iterable
from functools import partial
from typing import Any

import structlog

from antiphon.broker.retry import retry_until_available
from antiphon.inference_worker.sessions.claimed_session import ClaimedSession
from antiphon.inference_worker.sessions.conversation_past import ConversationPast, TrimBounds
from antiphon.inference_worker.sessions.mailbox import (
    SPEECH_BACKLOG_CHUNKS,
    QueuedInput,
    SessionMailbox,
    open_mailbox,
)
from antiphon.inference_worker.sessions.turns.listening import (
    LEAST_COMMITTED_S,
    MOST_BUFFERED_S,
    SpeechEdge,
)
from antiphon.inference_worker.sessions.turns.recovery import (
    RecoveredTurns,
    read_turns,
    recover_turns,
)
from antiphon.inference_worker.sessions.turns.responding import ChatViews, Responder
from antiphon.inference_worker.sessions.worker_context import WorkerContext
from antiphon.shared_schemas.audio import Samples, pcm16_bytes, samples_from_bytes
from antiphon.shared_schemas.config import TurnsConfig
from antiphon.shared_schemas.entries import (
    BreakIn,
    CancelIn,
    ChunkIn,
    ClearIn,
    CommitIn,
    DeleteItemIn,
    ItemIn,
    ItemOut,
    PastItems,
    RefusedOut,
    RespondIn,
    SettingsIn,
    StopIn,
    StoppedOut,
    StreamPosition,
    TimeoutOut,
    TruncateItemIn,
    VadOut,
)
from antiphon.shared_schemas.entries.turns import new_item_id, new_response_id
from antiphon.shared_schemas.states import EndReason, SessionState

log = structlog.get_logger()

_LOOK_S = 1.0
_STORED_BYTES_PER_S = 64 * 1024
"""A state with pictures or sound is stored less often."""
_CONTENDED_IDLE_S = 300.0
"""How long a client may neither speak nor ask while other sessions wait. Push-to-talk has long pauses."""


class ItemsPast(ConversationPast[Any]):
    """Stores the whole state at once, so that the entries before can be trimmed."""

    def __init__(self, context: WorkerContext, session: ClaimedSession) -> None:
        super().__init__(context, session, lag=0, batch=1)
        self._max_stored = 1

    async def store(self, state: PastItems, covered: TrimBounds) -> None:
        self._stored.append(await self.append(state))
        self._points.add(time.monotonic(), covered)
        await self._delete_oldest()
        await self._trim()


class TurnsRunner:
    """Handles one input after another, while a second task answers."""

    def __init__(self, context: WorkerContext, session: ClaimedSession, views: ChatViews) -> None:
        self._context = context
        self._session = session
        self._views = views
        self._past = ItemsPast(context, session)
        self._state = RecoveredTurns()
        self._responder = Responder(context, session, views, self._state.conversation)
        self._handled = StreamPosition.before(session.claim.ticket)
        self._active_at = self._stored_at = time.monotonic()
        self._store_after_s = context.settings.stream_kept_s / 4
        self._changed = self._told_full = False

    async def run(self) -> EndReason:
        """Serve until the session ends; returns the reason.

        Raises StaleFence if another worker has the session, Unrecoverable if recovery fails.
        """
        context, claim = self._context, self._session.claim
        if claim.epoch > 1:
            await self._past.open()
        history = await retry_until_available(
            lambda: read_turns(context.broker, claim), "read a session"
        )
        state = self._state = await asyncio.to_thread(recover_turns, history)
        if state.position is not None:
            self._handled = state.position
            self._past.restore(state.covered, (), history.stored)
            context.counters.recovered += 1
            log.info("session_recovered", items=len(state.conversation.items))
        self._responder = Responder(
            context, self._session, self._views, state.conversation, state.untranscribed
        )
        self._responder.handled = self._handled.n
        transcriber = context.transcriber
        state.listener.guard(transcriber.words_in if transcriber else None)
        if state.position is not None:
            await self._begin(state.conversation.config)
        limit = SPEECH_BACKLOG_CHUNKS
        async with open_mailbox(context, claim.sid, self._handled, limit) as mailbox:
            return await self._serve(mailbox)

    async def _serve(self, mailbox: SessionMailbox) -> EndReason:
        reading = asyncio.create_task(self._read(mailbox), name="turns-input")
        answering = asyncio.create_task(self._responder.run(), name="turns-answers")
        try:
            await asyncio.wait((reading, answering), return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                answering.result()
            return await reading
        finally:
            self._views.stop()  # a cancelled task waits for its engine call
            for task in (reading, answering):
                task.cancel()
            await asyncio.gather(reading, answering, return_exceptions=True)

    async def _read(self, mailbox: SessionMailbox) -> EndReason:
        while True:
            item = await mailbox.next(_LOOK_S)
            if item is not None:
                if reason := await self._handle(item):
                    return reason
                self._handled = item.position
                self._responder.handled = item.position.n
            await self._store()
            if self._is_idle_too_long():
                text = f"idle for {_CONTENDED_IDLE_S:g} s while other sessions wait"
                await self._session.publish(TimeoutOut(reason=text))
                return EndReason.PAUSE_TIMEOUT

    def _is_idle_too_long(self) -> bool:
        if not self._responder.idle or self._state.listener.speaking:
            self._active_at = time.monotonic()
        idle_s = time.monotonic() - self._active_at
        return self._context.contended.is_set() and idle_s >= _CONTENDED_IDLE_S

    async def _handle(self, item: QueuedInput) -> EndReason | None:
        n, entry, conversation = item.position.n, item.entry, self._state.conversation
        self._changed = True
        if not isinstance(entry, ChunkIn):
            self._active_at = time.monotonic()
        match entry:
            case ChunkIn():
                await self._hear(n, entry)
            case SettingsIn():
                conversation.apply_input(entry)
                configure = partial(self._state.listener.configure, entry.config.vad)
                edges = await asyncio.to_thread(configure)
                await self._begin(entry.config)
                await self._tell(n, edges, entry.at)
            case ItemIn() | DeleteItemIn() | TruncateItemIn():
                conversation.apply_input(entry)
            case CancelIn() | BreakIn():
                cancelled = entry.response_id if isinstance(entry, CancelIn) else None
                conversation.cancel("client_cancelled", cancelled)
                self._responder.silence()
                self._responder.wake()
            case CommitIn():
                await self._commit(n, entry)
            case ClearIn():
                self._state.listener.clear()
            case RespondIn():
                await self._ask(n, entry)
            case StopIn():
                await self._session.publish(StoppedOut())
                return EndReason.STOPPED
        return None

    async def _begin(self, config: TurnsConfig) -> None:
        """The client's first settings have come, or another worker had them."""
        self._past.recorded = config.record
        if self._session.state is SessionState.ASSIGNED:
            summary = config.model_dump(exclude={"tools", "instructions"})
            summary["system_prompt"] = config.instructions[:200]
            await self._session.move(SessionState.PREPARING, summary)
            await self._session.move(SessionState.ACTIVE)

    async def _hear(self, n: int, chunk: ChunkIn) -> None:
        samples = samples_from_bytes(chunk.audio, chunk.pcm)
        if self._state.listener.full and not self._told_full:
            text = f"the buffer has {MOST_BUFFERED_S} s of sound: commit or clear it"
            code = "input_audio_buffer_full"
            await self._session.publish(RefusedOut(input_n=n, code=code, message=text))
        self._told_full = self._state.listener.full
        # Not on the engine's threads: they are busy while an answer is generated.
        in_answer = self._state.conversation.config.interruptible and self._responder.is_playing
        hear = partial(self._state.listener.hear, samples, in_answer=in_answer)
        await self._tell(n, await asyncio.to_thread(hear), chunk.at)

    async def _tell(self, n: int, edges: Iterable[SpeechEdge], at: float) -> None:
        """`at`: when the input with the number `n` came."""
        for spoken in edges:
            if spoken.audio is None:
                await self._begin_speech(n, spoken)
            else:
                await self._end_speech(n, spoken, spoken.audio, at)

    async def _begin_speech(self, n: int, spoken: SpeechEdge) -> None:
        item_id = self._state.speech_id = new_item_id()
        began = VadOut(input_n=n, speaking=True, item_id=item_id, at_ms=spoken.at_ms)
        await self._responder.publish(began)
        if self._state.conversation.config.interruptible:
            self._responder.silence()
        self._responder.wake()

    async def _end_speech(self, n: int, spoken: SpeechEdge, audio: Samples, at: float) -> None:
        """The sound is an item. It is answered, unless an answer is due that will include it."""
        conversation = self._state.conversation
        due = any(wanted.in_conversation and not wanted.begun for wanted in conversation.wanted)
        answers = conversation.config.responds and not due
        await self._add_item(n, audio, spoken.at_ms, new_response_id() if answers else None)
        if answers:
            conversation.wanted[-1].asked_at = at - spoken.silence_ms
        self._responder.wake()

    async def _add_item(
        self, n: int, audio: Samples, stopped_ms: int | None = None, response_id: str | None = None
    ) -> None:
        item_id = self._state.speech_id or new_item_id()
        self._state.speech_id = ""
        pcm = pcm16_bytes(audio)
        added = ItemOut(
            input_n=n, item_id=item_id, audio=pcm, stopped_ms=stopped_ms, response_id=response_id
        )
        await self._responder.publish(added)
        self._responder.add_sound(item_id, audio)

    async def _commit(self, n: int, entry: CommitIn) -> None:
        audio = self._state.listener.commit()
        if audio is None:
            text = (
                "Error committing input audio buffer: buffer too small. Expected at least "
                f"{LEAST_COMMITTED_S * 1000:g}ms of audio"
            )
            code = "input_audio_buffer_commit_empty"
            refused = RefusedOut(input_n=n, code=code, message=text, event_id=entry.event_id)
            await self._session.publish(refused)
        else:
            await self._add_item(n, audio)

    async def _ask(self, n: int, entry: RespondIn) -> None:
        conversation = self._state.conversation
        active = [each for each in conversation.wanted if each.in_conversation]
        if entry.in_conversation and any(not each.cancelled for each in active):
            text = f"Conversation already has an active response in progress: {active[0].id}"
            refused = RefusedOut(
                input_n=n,
                code="conversation_already_has_active_response",
                message=text,
                event_id=entry.event_id,
                response_id=entry.response_id,
            )
            await self._session.publish(refused)
            return
        conversation.apply_input(entry)
        self._responder.wake()

    async def _store(self) -> None:
        """Store the state from time to time, whenever nothing is under way."""
        now_s, listener = time.monotonic(), self._state.listener
        due = now_s - self._stored_at >= self._store_after_s
        if not (due and self._changed and listener.idle and self._responder.idle):
            return
        self._stored_at, self._changed = now_s, False
        covered = TrimBounds(self._handled, self._session.last_output)
        ids = covered.inputs.id(), covered.outputs.id()
        state = self._state.conversation.snapshot(*ids, listener.samples)
        least_s = self._context.settings.stream_kept_s / 4
        self._store_after_s = max(least_s, sum(map(len, state.blobs)) / _STORED_BYTES_PER_S)
        await self._past.store(state, covered)
