"""Chat through a real edge and a real Redis, on the socket and over HTTP; the test plays the worker."""

import asyncio
import json
from typing import Any

import httpx
import pybase64
import pytest

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.audio import float_bytes
from antiphon.shared_schemas.content import ImagePart
from antiphon.shared_schemas.entries import (
    BreakIn,
    ChatDoneOut,
    ChatIn,
    DeltaOut,
    ErrorOut,
    PrefillDoneOut,
    ProgressOut,
    StopIn,
)
from antiphon.shared_schemas.states import EndReason, SessionKind, SessionState
from support.edge_harness import (
    SPEECH,
    WITHIN_S,
    PlayedSession,
    PlayedWorker,
    RunningEdge,
    ended,
    picture,
    running_edge,
)
from support.raw_client import Wire

HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello"}]}
SOUND = float_bytes(SPEECH)


async def _ask(client: Wire, request: object) -> None:
    await client.socket.send(json.dumps(request))


async def _answer(session: PlayedSession, **done: Any) -> ChatIn:
    request: ChatIn = await session.expect(ChatIn)
    await session.move(SessionState.PREPARING)
    await session.publish(PrefillDoneOut(input_tokens=9))
    await session.move(SessionState.ACTIVE)
    if request.options.streaming:
        await session.publish(DeltaOut(text_delta="Hi "))
        await session.publish(DeltaOut(text_delta="you.", audio=SOUND))
    values = {"text": "Hi you.", "generated_tokens": 3, "input_tokens": 9, "duration_ms": 12.0}
    streaming = request.options.streaming
    await session.publish(ChatDoneOut(**{**values, "streaming": streaming, **done}))
    await session.end(EndReason.STOPPED)
    return request


async def test_a_streamed_answer(edge: RunningEdge, worker: PlayedWorker, broker: Broker) -> None:
    async with edge.open("/ws/chat") as client:
        await _ask(client, HELLO)
        session = await worker.claim()
        assert session.claim.kind is SessionKind.CHAT
        request = await _answer(session)
        assert request.messages()[0].text == "Hello"
        assert await client.message() == {"type": "prefill_done", "input_tokens": 9}
        assert await client.message() == {"type": "chunk", "text_delta": "Hi "}
        chunk = await client.message()
        assert pybase64.b64decode(chunk["audio_data"]) == SOUND
        assert await client.message() == {
            "type": "done",
            "text": "Hi you.",
            "generated_tokens": 3,
            "input_tokens": 9,
            "recording_session_id": session.claim.recording,
        }
        assert await client.close_code() == 1000
        assert (await ended(broker, session.claim.sid)).reason is EndReason.STOPPED


async def test_a_non_streaming_answer(edge: RunningEdge, worker: PlayedWorker) -> None:
    for sound in (SOUND, b""):
        async with edge.open("/ws/chat") as client:
            await _ask(client, {**HELLO, "streaming": False})
            await _answer(await worker.claim(), audio=sound)
            await client.expect("prefill_done", skip=("queued", "queue_update", "queue_done"))
            data = (await client.expect("done"))["audio_data"]
            assert (pybase64.b64decode(data) if data else b"") == sound
            assert (data is None) is (not sound)


async def test_a_request_of_twenty_megabytes(edge: RunningEdge, worker: PlayedWorker) -> None:
    jpeg = picture() + bytes(15 * 1024 * 1024)
    part = {"type": "image", "data": pybase64.b64encode_as_string(jpeg)}
    async with edge.open("/ws/chat") as client:
        await _ask(client, {"messages": [{"role": "user", "content": [part]}]})
        request = await _answer(await worker.claim())
        assert request.messages()[0].parts == (ImagePart(jpeg),)
        await client.expect("done", skip=("prefill_done", "chunk"))


async def test_a_bad_request_is_refused_and_never_queued(edge: RunningEdge, broker: Broker) -> None:
    content = [{"type": "image", "data": "aGVsbG8="}]
    bad = {"messages": [*HELLO["messages"], {"role": "user", "content": content}]}
    async with edge.open("/ws/chat") as client:
        await _ask(client, bad)
        await client.expect_error("invalid_field", "messages.1.content.0.data")
        assert await client.close_code() == 1008
    async with edge.open("/ws/chat") as client:
        await client.socket.send("{")
        await client.expect_error("invalid_json")
        assert await client.close_code() == 1003
    assert not (await broker.queue.snapshot()).waiting


async def test_a_stop_cuts_the_answer_short(edge: RunningEdge, worker: PlayedWorker) -> None:
    async with edge.open("/ws/chat") as client:
        await _ask(client, HELLO)
        session = await worker.claim()
        await session.expect(ChatIn)
        await client.send("hurry")
        await client.expect_error("unknown_type", "type")
        await client.send("stop")
        await session.expect(StopIn)
        await session.publish(
            ChatDoneOut(text="", generated_tokens=0, input_tokens=0, duration_ms=1, stopped=True)
        )
        assert (await client.expect("done"))["stopped"] is True
        assert await client.close_code() == 1000


async def test_a_page_stops_its_browsers_last_chat_without_an_id(
    settings: BrokerSettings, edge: RunningEdge, worker: PlayedWorker
) -> None:
    """The button of the upstream's page posts to `/api/streaming/stop` with an empty body."""
    async with running_edge(settings) as other, edge.open("/ws/chat") as client:
        assert client.socket.response is not None
        cookie = client.socket.response.headers["Set-Cookie"].partition(";")[0]
        assert await _stop(other, cookie) is False  # there is no request yet
        await _ask(client, HELLO)
        session = await worker.claim()
        assert cookie == f"antiphon_chat={session.claim.sid}"
        assert await _stop(other, None) is False
        assert await _stop(other, "antiphon_chat=chat_0123456789abcdef") is False
        assert await _stop(other, cookie) is True  # during the prefill, through any edge
        await session.expect(ChatIn)
        await session.expect(BreakIn)
        done = {"generated_tokens": 0, "input_tokens": 9, "duration_ms": 1.0}
        await session.publish(ChatDoneOut(text="", stopped=True, **done))
        assert (await client.expect("done"))["stopped"] is True


async def _stop(edge: RunningEdge, cookie: str | None) -> bool:
    headers = {"Cookie": cookie} if cookie else {}
    async with edge.http() as http:
        answer = await http.post("/api/streaming/stop", headers=headers)
    assert answer.status_code == 200
    return bool(answer.json()["success"])


async def test_progress_is_sent_on_request(edge: RunningEdge, worker: PlayedWorker) -> None:
    for query, wanted in (("", False), ("?progress=1", True)):
        async with edge.open(f"/ws/chat{query}") as client:
            await _ask(client, HELLO)
            session = await worker.claim()
            assert (await session.expect(ChatIn)).progress is wanted
            if wanted:
                for done in (0.25, 0.75):
                    await session.publish(ProgressOut(done=done))
                assert [await client.message() for _ in range(2)] == [
                    {"type": "progress", "done": 0.25},
                    {"type": "progress", "done": 0.75},
                ]
            await session.publish(PrefillDoneOut(input_tokens=9))
            await client.expect("prefill_done")
            await session.end(EndReason.STOPPED)


@pytest.mark.edge(chat_request_s=0.1)
async def test_a_client_without_a_request_times_out(edge: RunningEdge) -> None:
    async with edge.open("/ws/chat") as client:
        await client.expect_error("not_ready")
        assert await client.close_code() == 1008


async def test_over_http(edge: RunningEdge, worker: PlayedWorker) -> None:
    async with edge.http() as http:
        pending = asyncio.create_task(http.post("/api/chat", json=HELLO))
        session = await worker.claim()
        request = await _answer(session, audio=SOUND)
        assert not request.options.streaming
        answer = await pending
    assert answer.status_code == 200
    body = answer.json()
    assert (body["success"], body["text"], body["error"]) == (True, "Hi you.", None)
    assert pybase64.b64decode(body["audio_data"]) == SOUND
    assert (body["tokens_generated"], body["audio_sample_rate"]) == (3, 24_000)
    assert body["token_stats"]["total_tokens"] == 12
    assert body["recording_session_id"] == session.claim.recording
    assert body["queue_wait_ms"] >= 0
    assert body["estimated_queue_wait_s"] == 0


@pytest.mark.edge(max_chat_bytes=1024)
async def test_bad_bodies_over_http(http: httpx.AsyncClient) -> None:
    for body, status, code in (
        (b"{", 400, "invalid_json"),
        (b"[]", 422, "invalid_field"),
        (b"{}", 422, "missing_field"),
        (b" " * 2048, 413, "message_too_large"),
    ):
        answer = await http.post("/api/chat", content=body)
        problem = answer.json()
        assert (answer.status_code, problem["code"], problem["success"]) == (status, code, False)
        assert problem["error"] == problem["detail"]


async def test_errors_of_the_engine_over_http(
    http: httpx.AsyncClient, worker: PlayedWorker
) -> None:
    for code, status in (("inference_error", 500), ("invalid_field", 422), ("context_full", 422)):
        pending = asyncio.create_task(http.post("/api/chat", json=HELLO))
        session = await worker.claim()
        await session.publish(ErrorOut(code=code, message="bad", fatal=True))
        answer = await pending
        assert (answer.status_code, answer.json()["code"]) == (status, code)


async def test_an_http_client_that_disconnects_frees_the_worker(
    http: httpx.AsyncClient, worker: PlayedWorker, broker: Broker
) -> None:
    pending = asyncio.create_task(http.post("/api/chat", json=HELLO))
    session = await worker.claim()
    pending.cancel()
    assert (await ended(broker, session.claim.sid)).reason is EndReason.CLIENT_GONE


async def test_sounds_are_not_decoded_for_a_client_that_left(
    edge: RunningEdge, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, left = asyncio.Event(), asyncio.Event()

    async def read(_file: bytes, _field: str, _longest_s: float) -> bytes:
        began.set()
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            left.set()

    monkeypatch.setattr(edge.edge.sound_decoders, "read", read)
    data = pybase64.b64encode_as_string(SOUND)
    content = [{"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}]
    body = {"model": "m", "messages": [{"role": "user", "content": content}]}
    pending = asyncio.create_task(http.post("/v1/chat/completions", json=body))
    async with asyncio.timeout(WITHIN_S):
        await began.wait()
        pending.cancel()
        await left.wait()
