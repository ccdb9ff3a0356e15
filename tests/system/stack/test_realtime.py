"""`/v1/realtime` through every process."""

from __future__ import annotations

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
        event = await self._wire.next()
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
        assert await self._wire.closed() == 1000


@pytest.mark.parametrize("mode", ["video", "audio"])
async def test_listening_and_speaking(stack: Stack, mode: str) -> None:
    stack.edge()
    stack.worker(engine_options='{"cycle_units": 6, "speak_ms": 10, "listen_ms": 10}')
    async with open_path(stack.ws_url, f"/v1/realtime?mode={mode}") as wire:
        client = Realtime(wire)
        assert (await client.begin("Be brief.")).startswith("rt_")
        kinds = [(await client.second(SECOND))["type"] for _ in range(6)]
        assert kinds == ["response.listen"] * 3 + ["response.output_audio.delta"] * 3
        await client.close()


async def test_the_session_ends_at_the_time_limit(stack: Stack) -> None:
    """In any state: a busy machine has not prepared the session by then."""
    stack.edge(realtime_video_s=2.0)
    stack.worker()
    async with open_path(stack.ws_url, "/v1/realtime?mode=video") as wire:
        await wire.send(type="session.update", session={"instructions": "Be brief."})
        client, kinds = Realtime(wire), []
        while (event := await client.receive())["type"] != "session.closed":
            kinds.append(event["type"])
        assert event["reason"] == "timeout"
        waited = ("session.queued", "session.queue_update")
        states = [kind for kind in kinds if kind not in waited]
        assert states == ["session.queue_done", "session.created"][: len(states)]
        assert await wire.closed() == 1000
    async with open_path(stack.ws_url, "/v1/realtime?mode=audio") as wire:
        await Realtime(wire).begin("The worker is free again.")


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
    assert share_voiced(text, sound) >= 0.7
    assert all(len(base64.b64decode(event["audio"])) <= 4 * OUTPUT_RATE for event in spoken)
