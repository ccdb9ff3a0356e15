"""`/v1/realtime` through every process."""

import asyncio
import base64
from typing import Any

import numpy as np
import pytest

from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples
from support.raw_client import Wire, open_path
from support.realtime_schema import SERVER
from support.speech import say, seconds, share_voiced, words
from support.stack import Stack

SECOND = np.zeros(INPUT_RATE, np.float32)


class Realtime:
    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def receive(self) -> dict[str, Any]:
        event = await self._wire.message()
        SERVER.validate(event)
        return event

    async def expect(self, kind: str) -> dict[str, Any]:
        while (event := await self.receive())["type"] in ("session.queued", "session.queue_update"):
            pass
        assert event["type"] == kind, event
        return event

    async def begin(self, instructions: str) -> str:
        await self.expect("session.queue_done")
        await self._wire.send(type="session.update", session={"instructions": instructions})
        return str((await self.expect("session.created"))["session_id"])

    async def second(self, samples: Samples, **fields: Any) -> dict[str, Any]:
        audio = base64.b64encode(samples.astype("<f4").tobytes()).decode()
        await self._wire.send(type="input_audio_buffer.append", audio=audio, **fields)
        return await self.receive()

    async def close(self) -> None:
        await self._wire.send(type="session.close", reason="user_stop")
        while (event := await self.receive())["type"] != "session.closed":
            pass
        assert event["reason"] == "stopped"
        assert await self._wire.close_code_after_all() == 1000


@pytest.mark.speech
async def test_a_spoken_question_is_answered(local_stack: Stack) -> None:
    async with open_path(local_stack.ws_url, "/v1/realtime?mode=audio") as wire:
        client = Realtime(wire)
        await client.begin("You are a helpful assistant.")
        # the first three units always listen (force_listen_count)
        events = [
            await client.second(s) for s in seconds(1.3, say("What is the capital of France?"))
        ]
        while not events[-1].get("end_of_turn"):
            assert len(events) < 30
            events.append(await client.second(SECOND))
        await client.close()
    spoken = [event for event in events if event["type"] == "response.output_audio.delta"]
    text = "".join(event["text"] for event in spoken)
    sound = np.concatenate([np.frombuffer(base64.b64decode(e["audio"]), "<f4") for e in spoken])
    assert "paris" in words(text)
    assert await asyncio.to_thread(share_voiced, text, sound) >= 0.7
    assert all(len(base64.b64decode(event["audio"])) <= 4 * OUTPUT_RATE for event in spoken)
