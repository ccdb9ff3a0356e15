"""Chat through every process, on the socket and over HTTP."""

from __future__ import annotations

import base64
from typing import Any

import httpx
import numpy as np
import pytest

from antiphon.shared_schemas.audio import INPUT_RATE
from support.raw_client import Wire, open_path
from support.speech import say, share_voiced, words
from support.stack import Stack

HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello"}]}
QUICK = '{"slots": 1, "answer_pieces": 5, "speak_ms": 10, "prefill_ms": 10, "prepare_ms": 10}'
SLOW = '{"slots": 1, "answer_pieces": 500}'


async def _done(wire: Wire) -> tuple[str, dict[str, Any]]:
    await wire.until("prefill_done")
    text = ""
    while (message := await wire.next())["type"] == "chunk":
        text += message.get("text_delta", "")
    assert message["type"] == "done", message
    return text, message


async def test_streaming_and_non_streaming_answers(stack: Stack) -> None:
    stack.edge()
    stack.worker(engine_options=QUICK, slots=1)
    async with open_path(stack.ws_url, "/ws/chat") as wire:
        await wire.send(**HELLO, tts={"enabled": True})
        text, done = await _done(wire)
        assert (done["text"], done["generated_tokens"]) == (text, 5)
        assert "audio_data" not in done
        assert await wire.closed() == 1000
    async with open_path(stack.ws_url, "/ws/chat") as wire:  # the worker is free at once
        await wire.send(**HELLO, streaming=False)
        text, done = await _done(wire)
        assert (text, done["audio_data"]) == ("", None)
    async with httpx.AsyncClient(base_url=stack.http_url, timeout=20) as http:
        answer = (await http.post("/api/chat", json={**HELLO, "tts": {"enabled": True}})).json()
    assert answer["success"] is True
    assert answer["token_stats"]["generated_tokens"] == 5
    assert base64.b64decode(answer["audio_data"])


async def test_the_next_chat_waits_until_a_client_leaves_or_stops(stack: Stack) -> None:
    stack.edge()
    stack.worker(engine_options=SLOW, slots=1)
    async with open_path(stack.ws_url, "/ws/chat") as first:
        await first.send(**HELLO)
        await first.until("chunk")
        async with open_path(stack.ws_url, "/ws/chat") as second:
            await second.send(**HELLO)
            assert (await second.expect("queued"))["position"] == 1
            await first.socket.close()
            await second.until("queue_done")
            await second.until("chunk")
            await second.send(type="stop")
            assert (await second.until("done"))["stopped"] is True
            assert await second.closed() == 1000


@pytest.mark.speech
async def test_a_text_question_and_a_spoken_question(local_stack: Stack) -> None:
    calm = {"temperature": 0.0, "max_new_tokens": 64}
    async with open_path(local_stack.ws_url, "/ws/chat") as wire:
        question = {"role": "user", "content": "What is the capital of France?"}
        await wire.send(messages=[question], generation=calm)
        text, done = await _done(wire)
        assert done["text"] == text
        assert "paris" in words(text)
        assert done["input_tokens"] > 0
    spoken = np.concatenate([say("What is the capital of Italy?"), np.zeros(INPUT_RATE // 2)])
    data = base64.b64encode(spoken.astype("<f4").tobytes()).decode()
    async with httpx.AsyncClient(base_url=local_stack.http_url, timeout=60) as http:
        answer = await http.post(
            "/api/chat",
            json={
                "messages": [{"role": "user", "content": [{"type": "audio", "data": data}]}],
                "generation": calm,
                "tts": {"enabled": True, "mode": "default"},
            },
        )
        body = answer.json()
        assert "rome" in words(body["text"])
        sound = np.frombuffer(base64.b64decode(body["audio_data"]), "<f4")
        assert share_voiced(body["text"], sound) >= 0.7
