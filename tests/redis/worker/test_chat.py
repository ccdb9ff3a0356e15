"""Chat requests over real streams, with a scripted engine."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.inference_worker.engines.types import (
    ContextFull,
    Delta,
    EngineError,
    UnsupportedContent,
)
from antiphon.shared_schemas.audio import float_bytes
from antiphon.shared_schemas.config import ChatOptions
from antiphon.shared_schemas.content import AudioPart, ConversationMessage, Role, TextPart, flatten
from antiphon.shared_schemas.entries import (
    BreakIn,
    ChatDoneOut,
    ChatIn,
    DeltaOut,
    ErrorOut,
    InEntry,
    PrefillDoneOut,
    ProgressOut,
    StopIn,
)
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.states import EndReason, SessionKind, WorkerState
from support.scripted_engine import ScriptedTalk, piece, says_its_number
from support.worker_harness import SID, Caller, calling, working

CHAT = SessionKind.CHAT
HISTORY = (
    ConversationMessage(Role.SYSTEM, (TextPart("be brief"),)),
    ConversationMessage(Role.USER, (TextPart("hear this"), AudioPart(b"\0" * 16))),
)


def request(*, streaming: bool = True) -> ChatIn:
    content, blobs = flatten(HISTORY)
    return ChatIn(content=content, blobs=blobs, options=ChatOptions(streaming=streaming))


async def read(caller: Caller) -> PrefillDoneOut:
    entry = await caller.hear()
    assert isinstance(entry, PrefillDoneOut), entry
    return entry


async def done(caller: Caller) -> ChatDoneOut:
    entry = await caller.hear()
    assert isinstance(entry, ChatDoneOut), entry
    return entry


class Held:
    """An answer that blocks after its first piece until the test or the client releases it."""

    def __init__(self) -> None:
        self.release = threading.Event()

    def __call__(self, talk: ScriptedTalk) -> Iterator[Delta]:
        if not talk.said:
            yield piece("well")
        while not (self.release.is_set() or talk.quiet.is_set()):
            self.release.wait(0.005)
        if not talk.quiet.is_set():
            yield piece(" then")


async def test_a_streamed_answer(broker: Broker, settings: BrokerSettings) -> None:
    held = Held()
    async with working(broker, settings, answer=held) as worker, calling(broker, CHAT) as caller:
        await caller.say(request())
        assert (await read(caller)).input_tokens == len("be briefhear this")
        first = await caller.hear()
        assert first == DeltaOut(text_delta="well", audio=float_bytes(piece("").audio), at=first.at)
        assert worker.pool.state() is WorkerState.BUSY_CHAT
        held.release.set()
        second = await caller.hear()
        assert isinstance(second, DeltaOut)
        assert second.text_delta == " then"
        last = await done(caller)
        assert (last.text, last.audio, last.stopped) == ("well then", b"", False)
        assert (last.generated_tokens, last.input_tokens) == (2, 17)
        assert last.duration_ms > 0
        assert (await caller.ended()).reason is EndReason.STOPPED
        await worker.idle()
        assert tuple(worker.talk.messages) == HISTORY
        assert worker.talk.calls == ["prefill", "generate", "stop", "cleanup"]
        assert worker.context.counters.chats == 1
        assert (await broker.queue.snapshot()).workers[0].used == 0


async def test_progress_of_a_long_prefill_is_published_on_request(
    broker: Broker, settings: BrokerSettings
) -> None:
    async with working(broker, settings) as worker, calling(broker, CHAT) as caller:
        async with asyncio.timeout(10):
            while not worker.processor.talks:
                await asyncio.sleep(0.01)
        worker.talk.may_read.clear()
        await caller.say(replace(request(), progress=True))
        told = await caller.hear()
        assert told == ProgressOut(done=0.5, at=told.at)
        worker.talk.may_read.set()
        await read(caller)  # and nothing is published twice


async def test_a_non_streaming_answer(broker: Broker, settings: BrokerSettings) -> None:
    async with working(broker, settings), calling(broker, CHAT) as caller:
        await caller.say(request(streaming=False))
        await read(caller)
        last = await done(caller)
        assert last.text == "answer 1"
        assert last.audio == 2 * float_bytes(piece("").audio)


@pytest.mark.parametrize("entry", [StopIn(), BreakIn()], ids=["stop", "break"])
@pytest.mark.parametrize("streaming", [True, False])
async def test_an_answer_to_a_disconnected_client_is_stopped(
    broker: Broker, settings: BrokerSettings, entry: InEntry, *, streaming: bool
) -> None:
    async with working(broker, settings, answer=Held()) as worker, calling(broker, CHAT) as caller:
        await caller.say(request(streaming=streaming))
        await read(caller)
        if streaming:
            assert isinstance(await caller.hear(), DeltaOut)
        await caller.say(entry)
        last = await done(caller)
        assert last.stopped
        assert last.text in ("", "well")
        assert (await caller.ended()).reason is EndReason.STOPPED
        await worker.idle()


async def test_a_request_that_is_stopped_before_it_is_sent(
    broker: Broker, settings: BrokerSettings
) -> None:
    async with working(broker, settings), calling(broker, CHAT) as caller:
        await caller.say(StopIn())
        assert (await done(caller)).stopped
        assert (await caller.ended()).reason is EndReason.STOPPED


async def test_a_client_without_a_request_frees_the_worker(
    broker: Broker, settings: BrokerSettings
) -> None:
    async with working(broker, settings, prepare_timeout_s=0.2), calling(broker, CHAT) as caller:
        error = await caller.hear()
        assert isinstance(error, ErrorOut)
        assert (error.code, error.fatal) == (ErrorCode.NOT_READY, True)
        assert (await caller.ended()).reason is EndReason.ERROR


@pytest.mark.parametrize(
    ("failure", "code", "field", "reason"),
    [
        (
            UnsupportedContent("blind", "messages.1.content.0"),
            ErrorCode.INVALID_FIELD,
            "messages.1.content.0",
            EndReason.ERROR,
        ),
        (ContextFull("full"), ErrorCode.CONTEXT_FULL, None, EndReason.CONTEXT_FULL),
        (EngineError("hiccup"), ErrorCode.INFERENCE_ERROR, None, EndReason.ERROR),
        (RuntimeError("bug"), ErrorCode.INFERENCE_ERROR, None, EndReason.ERROR),
    ],
)
async def test_an_unanswerable_request_is_refused_and_the_session_ends(
    broker: Broker,
    settings: BrokerSettings,
    failure: Exception,
    code: ErrorCode,
    field: str | None,
    reason: EndReason,
) -> None:
    def fails(talk: ScriptedTalk) -> Iterator[Delta]:
        raise failure
        yield

    async with working(broker, settings, answer=fails) as worker, calling(broker, CHAT) as caller:
        await caller.say(request())
        await read(caller)
        error = await caller.hear()
        assert isinstance(error, ErrorOut)
        assert (error.code, error.field, error.fatal) == (code, field, True)
        assert (await caller.ended()).reason is reason
        await worker.idle()


async def test_a_client_that_disconnects_frees_the_slot(
    broker: Broker, settings: BrokerSettings
) -> None:
    async with working(broker, settings, answer=Held()) as worker, calling(broker, CHAT) as caller:
        await caller.say(request())
        await read(caller)
        await broker.sessions.end(SID, EndReason.CLIENT_GONE, ticket=caller.ticket)
        await worker.idle()
        assert worker.talk.calls[-1] == "cleanup"


@pytest.mark.parametrize(("resumes", "rest"), [(True, [" then"]), (False, ["well", " then"])])
async def test_the_next_worker_finishes_the_answer(
    broker: Broker, settings: BrokerSettings, *, resumes: bool, rest: list[str]
) -> None:
    """The client gets one `prefill_done`, and the rest of the answer if the engine can continue it."""
    async with calling(broker, CHAT) as caller:
        async with working(broker, settings, answer=Held()):
            await caller.say(request())
            await read(caller)
            assert isinstance(await caller.hear(), DeltaOut)
        await broker.registry.worker_gone("w1")
        held = Held()
        held.release.set()
        async with working(broker, settings, worker_id="w2", answer=held, resumes=resumes):
            before, last = await caller.hear_until(ChatDoneOut)
            assert [e.text_delta for e in before if isinstance(e, DeltaOut)] == rest
            assert len(before) == len(rest)
            assert last.text == "well then"


async def test_an_answered_request_frees_its_slot_for_the_next(
    broker: Broker, settings: BrokerSettings
) -> None:
    async with working(broker, settings, slots=1, answer=says_its_number) as worker:
        for _ in range(3):
            async with calling(broker, CHAT) as caller:
                await caller.say(request())
                _, last = await caller.hear_until(ChatDoneOut)
                assert last.text == "answer 1"
                await caller.ended()
        assert len(worker.processor.talks) == 3
