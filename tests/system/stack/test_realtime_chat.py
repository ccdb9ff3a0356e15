"""`/v1/realtime?mode=chat` through every process: several requests, errors, and how it ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pybase64
import pytest

from antiphon.client.realtime import connect_realtime_chat
from antiphon.shared_schemas.audio import INPUT_RATE
from antiphon.shared_schemas.ids import is_recording_id
from antiphon.shared_schemas.messages.chat import ChatGeneration, ChatTts
from support.edge_harness import base64_audio, picture
from support.raw_client import Wire, open_path
from support.realtime_schema import CLIENT_V2, SERVER_V2
from support.redis_server import RedisServer
from support.stack import Stack
from support.video_files import video

PATH = "/v1/realtime?mode=chat"
QUESTION = {"role": "user", "content": "Hello."}
VOICE = base64_audio(8000)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("chat")
    with RedisServer(folder / "redis") as redis:
        running = Stack(folder, redis)
        try:
            running.edge(max_message_bytes=1024 * 1024)
            running.worker(slots=2, engine_options='{"speak_ms": 5}')
            yield running
        finally:
            running.close()
    assert running.tracebacks() == []


class ChatClient:
    """Knows only the documented events."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.sid = ""

    async def event(self) -> dict[str, Any]:
        event = await self.wire.next()
        SERVER_V2.validate(event)
        return event

    async def expect(self, kind: str) -> dict[str, Any]:
        event = await self.event()
        assert event["type"] == kind, event
        return event

    async def send(self, **event: Any) -> None:
        CLIENT_V2.validate(event)
        await self.wire.send(**event)

    async def ask(self, **request: Any) -> None:
        await self.send(type="input.append", input={"messages": [QUESTION], **request})

    async def answer(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """The deltas of an answer, and its end."""
        deltas = []
        while (event := await self.event())["type"] == "response.output.delta":
            deltas.append(event)
        assert event["type"] == "response.done", event
        ids = {(each["response_id"], each["session_id"]) for each in (*deltas, event)}
        assert ids == {(event["response_id"], self.sid)}
        return deltas, event

    async def expect_end(self, reason: str, code: int) -> None:
        assert (await self.expect("session.closed"))["reason"] == reason
        assert await self.wire.closed() == code


@asynccontextmanager
async def _created(stack: Stack, path: str = PATH) -> AsyncIterator[ChatClient]:
    async with open_path(stack.ws_url, path) as wire:
        client = ChatClient(wire)
        await client.expect("session.queue_done")
        await client.send(type="session.init", payload={"mode": "turn_based"})
        client.sid = (await client.expect("session.created"))["session_id"]
        yield client


def _joined(deltas: list[dict[str, Any]], kind: str) -> str:
    return "".join(delta[kind] for delta in deltas if delta["kind"] == kind)


async def test_several_requests_are_answered_in_turn(stack: Stack) -> None:
    image = {"type": "image", "data": pybase64.b64encode_as_string(picture())}
    parts = [image, {"type": "audio", "data": VOICE}, {"type": "text", "text": "What is it?"}]
    async with _created(stack) as client:
        await client.ask(streaming=True, generation={"max_new_tokens": 64, "length_penalty": 1.1})
        deltas, first = await client.answer()
        assert {delta["kind"] for delta in deltas} == {"text"}
        assert _joined(deltas, "text") == first["text"] != ""
        assert (first["reason"], first.get("audio")) == ("turn_end", None)

        await client.ask(streaming=False)
        deltas, second = await client.answer()
        assert (deltas, bool(second["text"])) == ([], True)
        assert second["response_id"] != first["response_id"]

        spoken = {"enabled": True, "ref_audio_data": VOICE}
        await client.ask(messages=[{"role": "user", "content": parts}], tts=spoken)
        deltas, done = await client.answer()
        assert _joined(deltas, "text") == done["text"]
        assert any(delta["kind"] == "audio" for delta in deltas)

        await client.ask(streaming=False, tts=spoken)
        assert (await client.answer())[1]["audio"]
        await client.send(type="session.close", reason="user_stop")
        await client.expect_end("client_closed", 1000)


async def test_a_video_is_answered(stack: Stack) -> None:
    tone = 0.1 * np.sin(2 * np.pi * 300 * np.arange(INPUT_RATE) / INPUT_RATE)
    data = pybase64.b64encode_as_string(video(seconds=1.0, sound=tone.astype(np.float32)))
    parts = [{"type": "video", "data": data}, {"type": "text", "text": "What happens?"}]
    async with _created(stack) as client:
        await client.ask(messages=[{"role": "user", "content": parts}])
        deltas, done = await client.answer()
        assert _joined(deltas, "text") == done["text"] != ""


async def test_the_client_library(stack: Stack) -> None:
    async with connect_realtime_chat(stack.ws_url) as chat:
        pieces = [piece async for piece in chat.ask("Hello.", tts=ChatTts(enabled=True))]
        first = chat.done
        assert "".join(piece.text for piece in pieces) == first.text != ""
        assert any(piece.audio.size for piece in pieces)
        done = await chat.whole([QUESTION], generation=ChatGeneration(max_new_tokens=2))
        assert (done.reason, done.session_id) == ("turn_end", chat.created.session_id)
        recordings = {first.recording_session_id, done.recording_session_id}
        assert [is_recording_id(str(each)) for each in recordings] == [True, True]


async def test_the_next_request_may_come_at_once(stack: Stack) -> None:
    """Right after `response.done`, many times: none is lost between two requests."""
    async with _created(stack) as client:
        for _ in range(40):
            await client.ask(streaming=False, generation={"max_new_tokens": 1})
            await client.answer()


async def test_a_request_may_be_as_long_as_in_a_chat(stack: Stack) -> None:
    long = {"type": "audio", "data": base64_audio(16_000 * 60)}
    async with _created(stack) as client:
        await client.ask(messages=[{"role": "user", "content": [long] * 5}], streaming=False)
        await client.answer()


async def test_a_close_stops_the_answer(stack: Stack) -> None:
    async with _created(stack) as client:
        await client.ask(generation={"max_new_tokens": 4096})
        await client.send(type="session.close")
        while (event := await client.event())["type"] == "response.output.delta":
            pass
        assert (event["type"], event["reason"]) in [
            ("session.closed", "client_closed"),
            ("response.done", "turn_end"),  # the answer was faster
        ]


@pytest.mark.parametrize(
    ("events", "code"),
    [
        ([{"type": "session.init"}], "not_ready"),
        ([{"type": "input.append", "input": {"messages": []}}], "invalid_payload"),
        ([{"type": "input.append", "input": {}}], "missing_field"),
        ([{"type": "session.update", "session": {}}], "unknown_event"),
        ([{"type": "input.append", "input": {"messages": [QUESTION]}}] * 2, "not_ready"),
    ],
)
async def test_every_error_ends_the_connection(
    stack: Stack, events: list[dict[str, Any]], code: str
) -> None:
    async with _created(stack) as client:
        for event in events:
            await client.wire.send(**event)
        while (event := await client.event())["type"] == "response.output.delta":
            pass
        if event["type"] == "response.done":  # the second request came after the first answer
            return
        assert event["error"]["code"] == code
        await client.expect_end("error", 1008)


async def test_an_input_before_the_init_is_refused(stack: Stack) -> None:
    async with open_path(stack.ws_url, PATH) as wire:
        client = ChatClient(wire)
        await client.expect("session.queue_done")
        await client.ask()
        assert (await client.expect("error"))["error"]["code"] == "not_ready"
        await client.expect_end("error", 1008)


@pytest.mark.parametrize("early", [True, False])
async def test_an_init_may_ask_for_chat_on_a_url_without_mode(stack: Stack, early: bool) -> None:
    async with open_path(stack.ws_url, "/v1/realtime") as wire:
        client = ChatClient(wire)
        if not early:
            await client.expect("session.queue_done")
        await client.send(type="session.init", payload={"mode": "turn_based", "use_tts": False})
        event = await client.event()
        while event["type"] in ("session.queue_done", "session.queued", "session.queue_update"):
            event = await client.event()
        client.sid = event["session_id"]
        assert client.sid.startswith("chat_")
        for _ in range(2):
            await client.ask()
            await client.answer()
        await client.send(type="session.init")
        assert (await client.expect("error"))["error"]["code"] == "not_ready"
        await client.expect_end("error", 1008)


async def test_no_json_closes_with_1003(stack: Stack) -> None:
    async with _created(stack) as client:
        await client.wire.socket.send("{")
        await client.expect("error")
        await client.expect_end("error", 1003)


async def test_a_client_that_leaves_frees_the_worker(stack: Stack) -> None:
    for _ in range(4):  # more than the worker has slots
        async with _created(stack) as client:
            await client.ask(generation={"max_new_tokens": 4096})
            client.wire.socket.transport.abort()
            await client.wire.closed()
    async with _created(stack) as client:
        await client.ask(streaming=False)
        await client.answer()
