"""Chat requests over real streams, with a scripted engine."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

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
    OutEntry,
    PrefillDoneOut,
    ProgressOut,
    StopIn,
)
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.states import EndReason, SessionKind, WorkerState
from antiphon.shared_schemas.unit_result import TokenUsage
from support.scripted_engine import HeldAnswer, ScriptedConversation, piece
from support.stack import until
from support.tools import WEATHER, asks_weather, calls_weather, weather_result
from support.worker_harness import OpenSession, running_worker, stream_client

KIND = SessionKind.CHAT
HISTORY = (
    ConversationMessage(Role.SYSTEM, (TextPart("be brief"),)),
    ConversationMessage(Role.USER, (TextPart("hear this"), AudioPart(b"\0" * 16))),
)


def request(*, streaming: bool = True) -> ChatIn:
    content, blobs = flatten(HISTORY)
    return ChatIn(content=content, blobs=blobs, options=ChatOptions(streaming=streaming))


def unstamped(entry: OutEntry) -> OutEntry:
    """The entry without its times, which depend on when Redis' clock was read."""
    marked = {"first_audio": None} if isinstance(entry, DeltaOut) else {}
    return replace(entry, at=0.0, host_at=0.0, **marked)


async def test_a_streamed_answer(open_session: OpenSession, broker: Broker) -> None:
    held = HeldAnswer(" then")
    async with open_session(answer=held) as (worker, client):
        await client.send(request())
        assert (await client.expect(PrefillDoneOut)).input_tokens == len("be briefhear this")
        first = await client.receive()
        assert unstamped(first) == DeltaOut(text_delta="well", audio=float_bytes(piece("").audio))
        assert isinstance(first, DeltaOut)
        assert first.first_audio is not None
        assert first.first_audio.asked_at <= first.at
        assert (first.first_audio.kind, first.first_audio.engine) == (KIND, "scripted")
        assert worker.pool.state() is WorkerState.BUSY_CHAT
        held.release.set()
        second = await client.expect(DeltaOut)
        assert (second.text_delta, second.first_audio) == (" then", None)
        last = await client.expect(ChatDoneOut)
        assert (last.text, last.audio, last.stopped) == ("well then", b"", False)
        assert (last.generated_tokens, last.input_tokens) == (2, 17)
        assert last.usage == TokenUsage(input_text=len(HISTORY))
        assert last.duration_ms > 0
        assert (await client.ended()).reason is EndReason.STOPPED
        await worker.idle()
        assert tuple(worker.conversation.messages) == HISTORY
        assert worker.conversation.calls == ["prefill", "generate", "stop", "cleanup"]
        assert worker.context.counters.chats == 1
        assert (await broker.queue.snapshot()).workers[0].used == 0


async def test_progress_of_a_long_prefill_is_published_on_request(
    open_session: OpenSession,
) -> None:
    async with open_session() as (worker, client):
        await until(lambda: worker.processor.conversations)
        worker.conversation.may_read.clear()
        await client.send(replace(request(), progress=True))
        published = await client.receive()
        assert unstamped(published) == ProgressOut(done=0.5)
        worker.conversation.may_read.set()
        await client.expect(PrefillDoneOut)  # and nothing is published twice


async def test_a_non_streaming_answer(open_session: OpenSession) -> None:
    async with open_session() as (_, client):
        await client.send(request(streaming=False))
        await client.expect(PrefillDoneOut)
        last = await client.expect(ChatDoneOut)
        assert (last.text, last.streaming) == ("answer 1", False)
        assert last.audio == 2 * float_bytes(piece("").audio)
        assert last.first_audio is not None


def calls_a_tool(_conversation: ScriptedConversation) -> Iterator[Delta]:
    yield Delta(text="Let me see.", n_tokens=3)
    yield Delta(tool_calls=calls_weather("Rome").tool_calls, n_tokens=9)


def request_with_tools(*messages: ConversationMessage) -> ChatIn:
    content, blobs = flatten(messages or [asks_weather("Rome")])
    return ChatIn(content=content, blobs=blobs, options=ChatOptions(tools=[WEATHER]))


async def test_an_engine_that_cannot_force_a_call_refuses_it(open_session: OpenSession) -> None:
    async with open_session(answer=calls_a_tool, calls_tools=True) as (_, client):
        request = request_with_tools()
        options = request.options.model_copy(update={"must_call": True})
        await client.send(replace(request, options=options))
        refused = await client.expect(ErrorOut)
        assert (refused.field, refused.code) == ("tool_choice", ErrorCode.INVALID_FIELD)


async def test_calls_of_tools(open_session: OpenSession) -> None:
    async with open_session(answer=calls_a_tool, calls_tools=True) as (worker, client):
        history = (asks_weather("Rome"), calls_weather("Rome"), weather_result("Rome"))
        await client.send(request_with_tools(*history))
        await client.expect(PrefillDoneOut)
        assert (await client.expect(DeltaOut)).text_delta == "Let me see."
        last = await client.expect(ChatDoneOut)
        assert (last.text, last.generated_tokens) == ("Let me see.", 12)
        assert last.tool_calls == [call.wire() for call in calls_weather("Rome").tool_calls]
        assert tuple(worker.conversation.messages) == history
        row = await client.ended()
        assert "tools" not in row.config


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        (request_with_tools(), "tools"),
        (
            replace(
                request_with_tools(
                    asks_weather("Rome"), calls_weather("Rome"), weather_result("Rome")
                ),
                options=ChatOptions(),
            ),
            "messages.1.tool_calls",
        ),
    ],
)
async def test_an_engine_without_tools_refuses_them_by_name(
    open_session: OpenSession, asked: ChatIn, field: str
) -> None:
    async with open_session() as (worker, client):
        await client.send(asked)
        error = await client.expect(ErrorOut)
        assert (error.code, error.field, error.fatal) == (ErrorCode.INVALID_FIELD, field, True)
        assert "engine scripted does not know tools; leave them out" in error.message
        assert (await client.ended()).reason is EndReason.ERROR
        await worker.idle()
        assert "prefill" not in worker.conversation.calls


async def test_tools_that_are_only_offered_are_left_out_for_an_engine_without(
    open_session: OpenSession,
) -> None:
    asked = request_with_tools(
        asks_weather("Rome"), calls_weather("Rome"), weather_result("Rome"), asks_weather("Oslo")
    )
    options = asked.options.model_copy(update={"needs_tools": False})
    async with open_session() as (worker, client):
        await client.send(replace(asked, options=options))
        await client.expect(PrefillDoneOut)
        assert worker.conversation.messages == [asks_weather("Rome"), asks_weather("Oslo")]
        assert worker.conversation.offered == []


@pytest.mark.parametrize(("entry", "streaming"), [(StopIn(), True), (BreakIn(), False)])
async def test_an_answer_to_a_disconnected_client_is_stopped(
    open_session: OpenSession, entry: InEntry, *, streaming: bool
) -> None:
    async with open_session(answer=HeldAnswer(" then")) as (worker, client):
        await client.send(request(streaming=streaming))
        await client.expect(PrefillDoneOut)
        if streaming:
            await client.expect(DeltaOut)
        await client.send(entry)
        last = await client.expect(ChatDoneOut)
        assert last.stopped
        assert last.text in ("", "well")
        assert (await client.ended()).reason is EndReason.STOPPED
        await worker.idle()


async def test_a_request_that_is_stopped_before_it_is_sent(open_session: OpenSession) -> None:
    async with open_session() as (_, client):
        await client.send(StopIn())
        assert (await client.expect(ChatDoneOut)).stopped
        assert (await client.ended()).reason is EndReason.STOPPED


async def test_a_client_without_a_request_frees_the_worker(open_session: OpenSession) -> None:
    async with open_session(prepare_timeout_s=0.2) as (_, client):
        error = await client.expect(ErrorOut)
        assert (error.code, error.fatal) == (ErrorCode.NOT_READY, True)
        assert (await client.ended()).reason is EndReason.ERROR


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
    ],
)
async def test_an_unanswerable_request_is_refused_and_the_session_ends(
    open_session: OpenSession,
    failure: Exception,
    code: ErrorCode,
    field: str | None,
    reason: EndReason,
) -> None:
    def fails(conversation: ScriptedConversation) -> Iterator[Delta]:
        raise failure
        yield

    async with open_session(answer=fails) as (worker, client):
        await client.send(request())
        await client.expect(PrefillDoneOut)
        error = await client.expect(ErrorOut)
        assert (error.code, error.field, error.fatal) == (code, field, True)
        assert (await client.ended()).reason is reason
        await worker.idle()


@pytest.mark.parametrize(("resumes", "rest"), [(True, [" then"]), (False, ["well", " then"])])
async def test_the_next_worker_finishes_the_answer(
    broker: Broker, settings: BrokerSettings, *, resumes: bool, rest: list[str]
) -> None:
    """The client gets one `prefill_done`, and the rest of the answer if the engine can continue it."""
    async with stream_client(broker, KIND) as client:
        async with running_worker(broker, settings, answer=HeldAnswer(" then")):
            await client.send(request())
            await client.expect(PrefillDoneOut)
            await client.expect(DeltaOut)
        await broker.registry.worker_gone("w1")
        held = HeldAnswer(" then")
        held.release.set()
        async with running_worker(broker, settings, worker_id="w2", answer=held, resumes=resumes):
            before, last = await client.receive_until(ChatDoneOut)
            assert [e.text_delta for e in before if isinstance(e, DeltaOut)] == rest
            assert len(before) == len(rest)
            assert last.text == "well then"
