"""Half-duplex conversations through every process."""

from __future__ import annotations

import base64
from typing import Any

import httpx
import numpy as np
import pytest

from antiphon.client.half_duplex import HalfDuplexSession, Piece, connect_half_duplex
from antiphon.shared_schemas.audio import INPUT_RATE, SILENCE, PcmFormat, Samples
from antiphon.shared_schemas.config import GenerationConfig, HalfDuplexConfig, VadConfig
from antiphon.shared_schemas.messages.half_duplex import Generating, TurnDone, VadState
from support.raw_client import Wire, open_path
from support.redis_server import free_port
from support.speech import say, share_voiced, words
from support.stack import Stack
from support.synthetic_speech import silence, units_of

pytestmark = pytest.mark.speech

HALF_A_SECOND = INPUT_RATE // 2
CALM = HalfDuplexConfig(generation=GenerationConfig(temperature=0.0), vad=VadConfig(threshold=0.6))


async def _begin(wire: Wire, **prepare: Any) -> dict[str, Any]:
    await wire.until("queue_done")
    await wire.send(type="prepare", **prepare)
    return await wire.expect("prepared")


def _halves(speech: Samples) -> list[Samples]:
    """Chunks of half a second; sent faster than a microphone would, as the server accepts that."""
    return units_of(np.concatenate([silence(0.7), speech, silence(1.6)]), HALF_A_SECOND)


async def _speak(wire: Wire, speech: Samples) -> None:
    for chunk in _halves(speech):
        audio = base64.b64encode(chunk.astype("<f4").tobytes()).decode()
        await wire.send(type="audio_chunk", audio_base64=audio)


async def _receive_turn(session: HalfDuplexSession) -> tuple[TurnDone, Samples]:
    """A whole turn: its last message, and its audio."""
    events = session.events()
    began, ended, generating = [await anext(events) for _ in range(3)]
    assert (began, ended) == (VadState(speaking=True), VadState(speaking=False))
    assert isinstance(generating, Generating)
    assert generating.speech_duration_ms > 300
    pieces: list[Piece] = []
    while isinstance(event := await anext(events), Piece):
        pieces.append(event)
    assert isinstance(event, TurnDone), event
    assert event.text.strip() == "".join(piece.text for piece in pieces).strip()
    return event, np.concatenate([SILENCE, *(piece.audio for piece in pieces)])


@pytest.mark.parametrize("binary", [False, True], ids=["text", "16-bit binary"])
async def test_two_spoken_turns_with_the_local_engine(local_stack: Stack, *, binary: bool) -> None:
    async with connect_half_duplex(
        local_stack.ws_url, session_id="hdx_talk", binary=binary, pcm=PcmFormat.S16
    ) as session:
        await session.wait_for_turn()
        prepared = await session.prepare("You are a helpful assistant.", CALM)
        assert prepared.session_id == "hdx_talk"
        for turn, (question, answer) in enumerate(
            [("What is the capital of France?", "paris"), ("What is the capital of Italy?", "")]
        ):
            for chunk in _halves(say(question)):
                await session.send_audio(chunk)
            done, sound = await _receive_turn(session)
            assert done.turn_index == turn
            assert not answer or answer in words(done.text)
            assert share_voiced(done.text, sound) >= 0.7  # the speech has the words of the text
        assert (await session.stop()).session_id == "hdx_talk"


async def test_a_stop_from_another_edge_cuts_the_answer_short(stack: Stack) -> None:
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
