"""Edge, Redis, recorder and workers in front of a server that speaks vLLM-Omni's protocol."""

import base64
import io
import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from PIL import Image

from antiphon.inference_worker.engines.backend.server import ServerAccess
from antiphon.inference_worker.engines.backend.vllm_omni.messages import session_update
from antiphon.inference_worker.engines.backend.vllm_omni.session import OmniSession
from support.raw_client import Wire, open_path, open_wire
from support.speech import say
from support.stack import Service, Stack, until
from support.synthetic_speech import silence
from support.vllm_omni_server import (
    MODEL,
    Message,
    OmniScriptedSession,
    ScriptedVllmOmni,
    begins,
    ends,
    listens,
    says,
)

LISTEN_AT_ONCE = {"force_listen_count": 0}


def picture() -> str:
    file = io.BytesIO()
    Image.new("RGB", (32, 32), "red").save(file, "JPEG")
    return base64.b64encode(file.getvalue()).decode()


@pytest.fixture
def omni() -> Iterator[ScriptedVllmOmni]:
    with ScriptedVllmOmni(limit=2).running() as server:
        yield server


def start_worker(stack: Stack, *servers: ScriptedVllmOmni, **more: object) -> Service:
    options = {"addresses": [server.address for server in servers], **more}
    return stack.worker("backend", slots=8, engine_options=json.dumps(options))


async def shown(stack: Stack, path: str) -> Any:
    async with httpx.AsyncClient(base_url=stack.http_url) as http:
        return (await http.get(path)).json()


async def slots(stack: Stack, count: int) -> None:
    async def reached() -> bool:
        return sum(row["slots"] for row in (await shown(stack, "/workers"))["workers"]) == count

    await until(reached, within_s=60)


async def detail(stack: Stack, words: str) -> None:
    """Waits until `antiphon workers` shows these words about the only worker."""

    async def reached() -> bool:
        [row] = (await shown(stack, "/workers"))["workers"]
        return words in row["detail"]

    await until(reached, within_s=60)


async def say_something(wire: Wire) -> tuple[str, float]:
    """Sends seconds until the model has answered once; its words, and the seconds of its sound."""
    text, samples = "", 0
    for _ in range(30):
        await wire.send_second()
        result = await wire.until("result")
        text += result["text"]
        audio = result.get("audio_data") or result.get("audio") or ""
        samples += len(base64.b64decode(audio)) // 4
        if result["end_of_turn"]:
            break
    return text, samples / 24_000


async def test_a_conversation_of_each_kind(stack: Stack, omni: ScriptedVllmOmni) -> None:
    stack.edge()
    start_worker(stack, omni)
    await slots(stack, 2)
    capabilities = await shown(stack, "/api/capabilities")
    assert {"audio_duplex", "omni_duplex", "half_duplex_audio", "chat", "turns"} == set(
        capabilities["kinds"]
    )

    async with open_wire(stack.ws_url, "adx_one") as wire:
        await wire.begin(system_prompt="Be kind.", config=LISTEN_AT_ONCE)
        assert await say_something(wire) == ("word end.", 1.0)
        await wire.send(type="playback_ack", played_ms=500)
        await wire.send(type="stop")
        await wire.until("stopped")

    async with open_wire(stack.ws_url, "omni_one") as wire:
        await wire.begin(config=LISTEN_AT_ONCE)
        await wire.send_second(frame_base64_list=[picture()])
        assert (await wire.until("result"))["is_listen"]
        await wire.send(type="stop")
        await wire.until("stopped")

    async with open_path(stack.ws_url, "/ws/half_duplex/hdx_one") as wire:
        await wire.until("queue_done")
        await wire.send(type="prepare", config={"vad": {"threshold": 0.6}})
        await wire.until("prepared")
        for sound in (silence(0.7), say("What is the capital of France?"), silence(1.6)):
            audio = base64.b64encode(sound.astype("<f4").tobytes()).decode()
            await wire.send(type="audio_chunk", audio_base64=audio)
        assert (await wire.until("turn_done"))["text"] == "Well, yes."
        await wire.send(type="stop")
        await wire.until("stopped")

    async with httpx.AsyncClient(base_url=stack.http_url, timeout=90) as http:
        question = {"messages": [{"role": "user", "content": "Well?"}], "tts": {"enabled": True}}
        answer = (await http.post("/api/chat", json=question)).json()
    assert (answer["text"], answer["success"]) == ("Well, yes.", True)
    assert base64.b64decode(answer["audio_data"])

    spoken, seen = omni.sessions
    assert spoken.settings["instructions"] == "Be kind."
    assert seen.inputs[0]["video_frames"]
    assert [request["modalities"] for request in omni.requests] == [["text", "audio"]] * 2
    await until(lambda: omni.active == 0)
    assert omni.faults == []


@pytest.mark.extended
async def test_a_server_that_another_program_fills_returns_the_session_to_the_queue(
    stack: Stack, omni: ScriptedVllmOmni
) -> None:
    """The worker cannot know before it asks. The user hears nothing of it."""
    stack.edge()
    worker = start_worker(stack, omni)
    await slots(stack, 2)
    with ExitStack() as others:
        for _ in range(2):
            other = OmniSession(ServerAccess(omni.address), lambda: False)
            others.callback(other.close)
            other.open(session_update(MODEL, ""), 20)
        async with open_wire(stack.ws_url, "adx_patient") as wire:
            await wire.until("queue_done")
            await wire.send(type="prepare", config=LISTEN_AT_ONCE)
            await until(lambda: "session_returned" in worker.log)
            await slots(stack, 0)
            await detail(stack, "other programs use 2 of its 2 sessions")
            others.close()
            assert (await wire.until("prepared"))["type"] == "prepared"
            assert (await say_something(wire))[0] == "word end."


@pytest.mark.extended
async def test_a_server_that_is_started_again_costs_a_pause(stack: Stack) -> None:
    """The conversation continues on the other server, which is told what was said."""
    first, second = ScriptedVllmOmni(limit=1), ScriptedVllmOmni(limit=1)

    def speaks_at_once(_: OmniScriptedSession, unit: int) -> list[Message]:
        return [*begins("a"), *says("a", "Once."), *ends("a")] if unit == 1 else listens()

    first.script = second.script = speaks_at_once
    with ExitStack() as running:
        for server in (first, second):
            running.enter_context(server.running())
        stack.edge()
        worker = start_worker(stack, first, second)
        await slots(stack, 2)
        async with open_wire(stack.ws_url, "adx_moved") as wire:
            await wire.begin(system_prompt="Be kind.", config=LISTEN_AT_ONCE)
            assert (await say_something(wire))[0] == "Once."
            hers = first if first.sessions else second
            other = second if hers is first else first
            hers.forget()
            hers.status = 503
            await wire.send_second()
            await wire.until("result")
            await slots(stack, 1)
            assert "session_returned" in worker.log
            await detail(stack, f"GET {hers.address}/health answered 503")
        [session] = other.sessions
        prompt = session.settings["instructions"]
        assert prompt == "Be kind.\nEarlier in this conversation you said:\nOnce."
        hers.status = 200
        await slots(stack, 2)
