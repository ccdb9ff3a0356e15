"""Half-duplex conversations through every process."""

from __future__ import annotations

import asyncio
import base64
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile as sf
from redis_server import free_port
from speech import say, share_heard, transcribe, words
from spoken import silence, units_of
from stack import Stack
from wire import Wire, open_path

from shared_schemas.audio import INPUT_RATE, Samples

pytestmark = [pytest.mark.speech, pytest.mark.timeout(180)]

HALF_A_SECOND = INPUT_RATE // 2
CALM = {"generation": {"temperature": 0.0}, "vad": {"threshold": 0.6}}


async def _begin(wire: Wire, **prepare: Any) -> dict[str, Any]:
    await wire.until("queue_done")
    await wire.send(type="prepare", **prepare)
    return await wire.expect("prepared")


async def _speak(wire: Wire, *parts: Samples) -> None:
    """Faster than a microphone would; the server is as fast as that."""
    for chunk in units_of(np.concatenate([silence(0.7), *parts, silence(1.6)]), HALF_A_SECOND):
        audio = base64.b64encode(chunk.astype("<f4").tobytes()).decode()
        await wire.send(type="audio_chunk", audio_base64=audio)


async def _hear(wire: Wire) -> tuple[dict[str, Any], Samples]:
    """A whole turn: its last message, and its sound."""
    assert (await wire.expect("vad_state"))["speaking"] is True
    assert (await wire.expect("vad_state"))["speaking"] is False
    assert (await wire.expect("generating"))["speech_duration_ms"] > 300
    text, sound = "", [np.zeros(0, np.float32)]
    while (message := await wire.next())["type"] == "chunk":
        text += message["text_delta"]
        sound.append(np.frombuffer(base64.b64decode(message["audio_data"]), "<f4"))
    assert message["type"] == "turn_done", message
    assert message["text"].strip() == text.strip()
    return message, np.concatenate(sound)


async def test_two_spoken_turns_with_the_local_engine(stack: Stack) -> None:
    stack.edge()
    stack.worker("local", slots=1)
    async with open_path(stack.ws_url, "/ws/half_duplex/hdx_talk") as wire:
        prepared = await _begin(wire, system_prompt="You are a helpful assistant.", config=CALM)
        assert prepared["session_id"] == "hdx_talk"
        await _speak(wire, say("What is the capital of France?"))
        done, sound = await _hear(wire)
        assert done["turn_index"] == 0
        assert "paris" in words(done["text"])
        assert share_heard(done["text"], transcribe(sound)) >= 0.7  # it says what it writes
        await _speak(wire, say("What is the capital of Italy?"))
        done, _ = await _hear(wire)
        assert done["turn_index"] == 1
        assert done["text"].strip()
        await wire.send(type="stop")
        assert await wire.expect("stopped") == {"type": "stopped", "session_id": "hdx_talk"}
        assert await wire.closed() == 1000


async def test_a_stop_from_another_edge_cuts_the_reply_short(stack: Stack) -> None:
    stack.edge()
    other = free_port()
    stack.edge(port=other)
    stack.worker(engine_options='{"answer_pieces": 200}')
    async with (
        open_path(stack.ws_url, "/ws/half_duplex/hdx_stop") as wire,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{other}") as http,
    ):
        await _begin(wire, config={"vad": {"threshold": 0.6}})
        for turn in range(2):
            await _speak(wire, say("What is the capital of France?"))
            await wire.until("chunk")
            answer = await http.post("/api/half_duplex/stop", json={"session_id": "hdx_stop"})
            assert answer.json()["success"] is True
            done = await wire.until("turn_done")
            assert done["turn_index"] == turn
            assert len(done["text"].split()) < 200
        await wire.send(type="stop")
        await wire.until("stopped")


async def test_silence_ends_the_session(stack: Stack) -> None:
    stack.edge()
    stack.worker()
    async with open_path(stack.ws_url, "/ws/half_duplex/hdx_quiet") as wire:
        prepared = await _begin(wire, config={"session": {"timeout_s": 0.5}})
        assert prepared["timeout_s"] == 0.5
        assert (await wire.expect("timeout"))["elapsed_s"] >= 0.5
        assert await wire.closed() == 1000


async def test_the_documented_example_client_talks_with_the_stack(
    stack: Stack, tmp_path: Path
) -> None:
    stack.edge()
    stack.worker("local", slots=1)
    question, voice = tmp_path / "question.wav", tmp_path / "ref.wav"
    line = [silence(1.0), say("What is the capital of France?"), silence(4.0)]
    sf.write(question, np.concatenate(line), INPUT_RATE)
    sf.write(voice, say("This is my voice."), INPUT_RATE)
    example = Path(__file__).parent / "protocol_examples" / "half_duplex_client.py"
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, str(example), str(question), stack.ws_url, str(voice)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "Session ready: hdx_" in done.stdout
    assert "Speaking...\nStopped speaking\nGenerating (" in done.stdout
    assert "paris" in done.stdout.lower()
    assert "--- Turn 0 done ---" in done.stdout
