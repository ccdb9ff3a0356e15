"""`/v1/realtime?mode=chat` through every process: several requests, errors, and how it ends."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pybase64
import pytest

from antiphon.client.realtime import connect_realtime_chat
from antiphon.shared_schemas.ids import is_recording_id
from antiphon.shared_schemas.messages.chat import ChatGeneration, ChatTts
from support.edge_harness import base64_audio, picture
from support.raw_client import Wire, open_path
from support.realtime_schema import CLIENT_V2, SERVER_V2
from support.stack import Stack, new_stack

PATH = "/v1/realtime?mode=chat"
QUESTION = {"role": "user", "content": "Hello."}
VOICE = base64_audio(8000)
DOCUMENTED: dict[str, Any] = {
    "streaming": True,
    "generation": {"max_new_tokens": 64, "length_penalty": 1.1},
    "image": {"max_slice_nums": 1},
    "omni_mode": False,
    "tts": {"enabled": False},
    "use_tts_template": False,
    "enable_thinking": False,
}
"""Every field of a request that the documentation of the public demo shows, besides the messages."""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with new_stack(tmp_path_factory.mktemp("chat")) as running:
        running.edge(max_message_bytes=1024 * 1024)
        running.worker(slots=2, engine_options='{"speak_ms": 5}')
        yield running


class ChatClient:
    """Knows only the documented events."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.sid = ""

    async def event(self) -> dict[str, Any]:
        event = await self.wire.message()
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
        assert await self.wire.close_code_after_all() == code


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
        await client.ask(**DOCUMENTED)
        deltas, first = await client.answer()
        assert {delta["kind"] for delta in deltas} == {"text"}
        assert _joined(deltas, "text") == first["text"] != ""
        assert (first["reason"], first.get("audio")) == ("turn_end", None)

        await client.ask(streaming=False)
        deltas, second = await client.answer()
        assert (deltas, bool(second["text"])) == ([], True)
        assert second["response_id"] != first["response_id"]

        spoken = {"enabled": True, "ref_audio_data": VOICE}
        asked = {"messages": [{"role": "user", "content": parts}], "tts": spoken}
        await client.ask(**DOCUMENTED | asked | {"use_tts_template": True})
        deltas, done = await client.answer()
        assert _joined(deltas, "text") == done["text"]
        assert any(delta["kind"] == "audio" for delta in deltas)

        await client.ask(streaming=False, tts=spoken)
        deltas, done = await client.answer()
        assert (deltas, bool(done["text"]), bool(done["audio"])) == ([], True, True)
        await client.send(type="session.close", reason="user_stop")
        await client.expect_end("client_closed", 1000)


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
