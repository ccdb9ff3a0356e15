"""Chat through every process, on the socket and over HTTP."""

import asyncio
import base64
from typing import Any

import httpx
import numpy as np
import pytest

from antiphon.shared_schemas.audio import INPUT_RATE
from support.raw_client import Wire, open_path
from support.speech import say, share_voiced, words
from support.stack import Stack


async def _done(wire: Wire) -> tuple[str, dict[str, Any]]:
    await wire.until("prefill_done")
    text = ""
    while (message := await wire.message())["type"] == "chunk":
        text += message.get("text_delta", "")
    assert message["type"] == "done", message
    return text, message


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
        assert await asyncio.to_thread(share_voiced, body["text"], sound) >= 0.7
