"""Runs one half-duplex session: listens for an utterance, has it answered, listens again."""

from __future__ import annotations

import asyncio

import structlog

from antiphon.broker.retry import retry_until_available
from antiphon.inference_worker.attention import Attention, attending
from antiphon.inference_worker.bench import Bench
from antiphon.inference_worker.engines.common.endpointing import (
    SpeechEnded,
    SpeechStarted,
    StreamingVAD,
    VadEvent,
)
from antiphon.inference_worker.engines.processor import HalfDuplexView
from antiphon.inference_worker.engines.types import ContextFull, EngineError, UnsupportedContent
from antiphon.inference_worker.held_session import HeldSession
from antiphon.inference_worker.mailbox import Mailbox, open_mailbox
from antiphon.inference_worker.runner_parts import read_streams, reference_voice, report
from antiphon.inference_worker.session.backlog import Unread
from antiphon.inference_worker.session.half_duplex import (
    GUARD_SAMPLES,
    Action,
    Past,
    Turn,
    decide,
    recall,
)
from antiphon.inference_worker.spoken_turn import SpokenTurn
from antiphon.inference_worker.work_trace import Question
from antiphon.shared_schemas.audio import float_bytes
from antiphon.shared_schemas.config import HalfDuplexConfig
from antiphon.shared_schemas.entries import (
    ChunkIn,
    ErrorOut,
    GeneratingOut,
    HalfDuplexPrepareIn,
    PreparedOut,
    StoppedOut,
    TimeoutOut,
    VadOut,
)
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.states import EndReason, SessionState
from antiphon.shared_schemas.stream_position import StreamPosition

log = structlog.get_logger()

_BACKLOG_CHUNKS = 1000
"""Speech is not skipped to catch up: the detector is a hundred times faster than speech."""


class HalfDuplexRunner:
    """One conversation: its view of the engine, its detector, its clock."""

    def __init__(self, bench: Bench, session: HeldSession, view: HalfDuplexView) -> None:
        self._bench = bench
        self._session = session
        self._view = view
        self._config = HalfDuplexConfig()
        self._vad = StreamingVAD(self._config.vad)
        self._guard = 0
        self._speaking = False
        self._next_index = 0
        self._heard_at = 0.0
        self._prepare_by = 0.0
        self._question = Question()

    async def run(self) -> EndReason:
        """Serve until the conversation ends; returns why.

        Raises StaleFence when it is ours no more, PastLost when nobody can go on with it.
        """
        claim = self._session.claim
        past = await retry_until_available(self._recall, "read a session's past")
        await self._take_up(past)
        after = past.position or StreamPosition.before(claim.ticket)
        async with open_mailbox(self._bench.broker, claim.sid, after, _BACKLOG_CHUNKS) as mailbox:
            reason = None
            if past.open_turn is not None:
                reason = await self._answer(past.open_turn, mailbox)
            return reason or await self._serve(mailbox)

    async def _recall(self) -> Past:
        return recall(*await read_streams(self._bench.broker, self._session.claim))

    async def _take_up(self, past: Past) -> None:
        """Go on where another worker stopped."""
        if past.prepare is None:
            self._await_prepare()
            return
        await self._session.move(SessionState.PREPARING)
        await self._load(past.prepare)
        await self._bench.engine.call(self._view.replay, past.turns)
        await self._session.move(SessionState.ACTIVE)
        self._guard, self._speaking = past.guard, past.speaking
        self._next_index = past.next_index
        self._bench.counters.recovered += 1
        log.info(
            "session_recovered",
            turns=len(past.turns),
            shortened=past.shortened,
            in_answer=past.open_turn is not None,
        )

    def _await_prepare(self) -> None:
        """From now on, whatever else the client sends meanwhile."""
        self._prepare_by = _now() + self._bench.settings.prepare_timeout_s

    async def _serve(self, mailbox: Mailbox) -> EndReason:
        while True:
            item = await mailbox.next(self._patience_s())
            reason = await (self._time_out() if item is None else self._take(item, mailbox))
            if reason is not None:
                return reason

    def _patience_s(self) -> float:
        """How long the client may be silent where it stands now."""
        if self._session.state is SessionState.ASSIGNED:
            return max(0.0, self._prepare_by - _now())
        return max(0.0, self._heard_at + self._config.session.timeout_s - _now())

    async def _time_out(self) -> EndReason:
        if self._session.state is SessionState.ACTIVE:
            elapsed_s = round(_now() - self._heard_at, 3)
            text = f"no audio for {self._config.session.timeout_s:g} s"
            await self._session.publish(TimeoutOut(reason=text, elapsed_s=elapsed_s))
            return EndReason.PAUSE_TIMEOUT
        text = f"no `prepare` within {self._bench.settings.prepare_timeout_s:g} s"
        await self._session.publish(ErrorOut(code=ErrorCode.NOT_READY, message=text, fatal=True))
        return EndReason.ERROR

    async def _take(self, item: Unread, mailbox: Mailbox) -> EndReason | None:
        match decide(self._session.state, item.entry), item.entry:
            case Action.PREPARE, HalfDuplexPrepareIn() as entry:
                await self._prepare(item.n, entry)
            case Action.HEAR, ChunkIn() as entry:
                return await self._hear(item.n, entry, mailbox)
            case Action.STOP, _:
                return await self._stop()
        return None

    async def _stop(self) -> EndReason:
        await self._session.publish(StoppedOut())
        return EndReason.STOPPED

    async def _prepare(self, n: int, entry: HalfDuplexPrepareIn) -> None:
        summary = {"system_prompt": entry.system().text[:200], **entry.config.model_dump()}
        await self._session.move(SessionState.PREPARING, summary)
        try:
            length = await self._load(entry)
        except EngineError as error:
            named = error.field if isinstance(error, UnsupportedContent) else None
            await report(self._bench, self._session, n, error, field=named)
            await self._session.move(SessionState.ASSIGNED)
            self._await_prepare()
            return
        await self._session.save_prepare(n, entry)
        await self._session.publish(PreparedOut(input_n=n, prompt_length=length))
        await self._session.move(SessionState.ACTIVE)
        self._guard = GUARD_SAMPLES
        self._heard_at = _now()

    async def _load(self, entry: HalfDuplexPrepareIn) -> int:
        self._config = entry.config
        self._vad = StreamingVAD(entry.config.vad)
        self._heard_at = _now()
        voice = reference_voice(entry.ref_audio)
        return await self._bench.engine.call(
            self._view.prepare, entry.system(), entry.config, voice
        )

    async def _hear(self, n: int, chunk: ChunkIn, mailbox: Mailbox) -> EndReason | None:
        self._heard_at = _now()
        self._question = Question(chunk.trace, chunk.at)
        samples = chunk.samples()
        ignored = min(self._guard, len(samples))
        self._guard -= ignored
        for event in await self._bench.engine.call(self._vad.feed, samples[ignored:]):
            await self._tell(n, event)
            if isinstance(event, SpeechEnded):
                return await self._begin_turn(n, event, mailbox)
        return None

    async def _tell(self, n: int, event: VadEvent) -> None:
        speaking = isinstance(event, SpeechStarted)
        if speaking != self._speaking:  # a successor hears again what the client was told before
            self._speaking = speaking
            await self._session.publish(VadOut(input_n=n, speaking=speaking))

    async def _begin_turn(self, n: int, speech: SpeechEnded, mailbox: Mailbox) -> EndReason | None:
        turn = Turn(self._next_index, n, speech.audio)
        self._next_index += 1
        await self._session.publish(
            GeneratingOut(
                input_n=n,
                turn_index=turn.index,
                speech_duration_ms=speech.speech_ms,
                audio=float_bytes(speech.audio),
            )
        )
        return await self._answer(turn, mailbox)

    async def _answer(self, turn: Turn, mailbox: Mailbox) -> EndReason | None:
        """Have one utterance answered; audio that comes meanwhile is not for the assistant."""
        client = Attention(turn.input_n, self._view.set_break, self._view)
        spoken = SpokenTurn(self._bench, self._session, self._view, client, self._question)
        failed = False
        async with attending(mailbox, client):
            try:
                await spoken.run(turn)
            except ContextFull as error:
                code = ErrorCode.CONTEXT_FULL
                await report(self._bench, self._session, turn.input_n, error, code=code, fatal=True)
                return EndReason.CONTEXT_FULL
            except EngineError as error:
                failed = not client.stopped
                if failed:
                    await self._roll_back(turn, error)
        if client.stopped:
            return await self._stop()
        await spoken.finish(turn, failed=failed)
        self._vad.reset()
        self._heard_at = _now()
        return None

    async def _roll_back(self, turn: Turn, error: EngineError) -> None:
        await self._bench.engine.call(self._view.rollback)
        await report(self._bench, self._session, turn.input_n, error)


def _now() -> float:
    return asyncio.get_running_loop().time()
