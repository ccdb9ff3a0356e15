"""`converse` of a session in turns: what is sent, and when."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pybase64
import pytest

from antiphon.client import half_duplex
from antiphon.client.errors import InvalidAudio, ServerError
from antiphon.client.half_duplex import HalfDuplexSession, Piece, connect_half_duplex
from antiphon.shared_schemas.audio import OUTPUT_RATE, Samples
from antiphon.shared_schemas.messages.half_duplex import TurnDone
from support.scripted_server import Script, Scripted, Wire

ANSWER_S = 2.0


@asynccontextmanager
async def talking_to(script: Script, *, barge_in: bool = True) -> AsyncIterator[HalfDuplexSession]:
    async with (
        Scripted(script).running() as server,
        connect_half_duplex(server.url) as session,
    ):
        await session.prepare(barge_in=barge_in)
        yield session


async def answer(wire: Wire) -> None:
    """A turn with 2 s of speech, which is generated at once."""
    audio = pybase64.b64encode_as_string(np.zeros(int(ANSWER_S * OUTPUT_RATE), "<f4").tobytes())
    await wire.send("generating", speech_duration_ms=500)
    await wire.send("chunk", text_delta="Yes.", audio_data=audio)
    await wire.send("turn_done", turn_index=0, text="Yes.")


def half_a_second(loudness: float) -> Samples:
    return np.full(8000, loudness, np.float32)


def loudness(message: dict[str, Any]) -> float:
    samples = np.frombuffer(pybase64.b64decode(message["audio_base64"]), "<f4")
    assert len(samples) == 8000
    return float(samples[0])


async def test_a_recording_pauses_while_an_answer_is_played() -> None:
    """A chunk that was sent when the answer arrives is no error."""
    sent: list[float] = []
    third_at = 0.0

    async def script(wire: Wire) -> None:
        nonlocal third_at
        await wire.begin()
        sent.append(loudness(await wire.expect("audio_chunk")))
        await answer(wire)
        for _ in range(3):
            sent.append(loudness(await wire.expect("audio_chunk")))
            third_at = time.monotonic() if len(sent) == 3 else third_at
        await wire.send("timeout", reason="enough")

    recording = np.concatenate([half_a_second(0.25), half_a_second(0.5), half_a_second(0.75)])
    async with talking_to(script) as session:
        began = 0.0
        async for event in session.converse(recording):
            if isinstance(event, Piece):
                began = time.monotonic()
    assert sent == [0.25, 0.5, 0.75, 0.0]
    assert third_at >= began + ANSWER_S


async def test_the_next_recording_waits_until_the_answer_before_was_played() -> None:
    """The first loop is left with the end of the answer, of which 2 s are to be played."""
    answered_at = second_at = 0.0

    async def script(wire: Wire) -> None:
        nonlocal answered_at, second_at
        await wire.begin()
        await wire.expect("audio_chunk")
        answered_at = time.monotonic()
        await answer(wire)
        while loudness(await wire.expect("audio_chunk")) != 0.5:
            pass
        second_at = time.monotonic()
        await wire.send("timeout", reason="enough")

    async with talking_to(script) as session:
        async for event in session.converse(half_a_second(0.25)):
            if isinstance(event, TurnDone):
                break
        assert [event async for event in session.converse(half_a_second(0.5))] == []
    assert second_at >= answered_at + ANSWER_S


@pytest.mark.parametrize("code", ["inference_error", "invalid_field", "rate_limited"])
async def test_an_answer_that_failed_holds_up_no_recording(code: str) -> None:
    async def script(wire: Wire) -> None:
        await wire.begin()
        await wire.expect("audio_chunk")
        await wire.send("generating", speech_duration_ms=500)
        await wire.send("error", error="failed", message="failed", code=code)
        while loudness(await wire.expect("audio_chunk")) != 0.5:
            pass
        await wire.send("timeout", reason="enough")

    async with asyncio.timeout(60), talking_to(script) as session:
        with pytest.raises(ServerError):
            async for _ in session.converse(half_a_second(0.25)):
                pass
        assert [event async for event in session.converse(half_a_second(0.5))] == []


async def test_a_microphone_is_dropped_while_an_answer_is_played(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[float] = []
    answered = asyncio.Event()
    now = 0.0
    monkeypatch.setattr(half_duplex, "time", SimpleNamespace(monotonic=lambda: now))

    async def script(wire: Wire) -> None:
        await wire.begin()
        sent.append(loudness(await wire.expect("audio_chunk")))
        await answer(wire)
        sent.append(loudness(await wire.expect("audio_chunk")))
        await wire.send("timeout", reason="enough")

    async def microphone() -> AsyncIterator[Samples]:
        nonlocal now
        yield half_a_second(0.25)
        await answered.wait()
        yield half_a_second(0.5)
        yield half_a_second(0.5)
        now += ANSWER_S
        yield half_a_second(0.75)

    async with talking_to(script, barge_in=False) as session:
        async for event in session.converse(microphone()):
            if isinstance(event, TurnDone):
                answered.set()
    assert sent == [0.25, 0.75]


async def test_wrong_sound_is_refused() -> None:
    async def script(wire: Wire) -> None:
        await wire.begin()
        await wire.finish()

    async with talking_to(script) as session:
        with pytest.raises(InvalidAudio, match="int16, float32 is needed"):
            await anext(session.converse(np.zeros(8000, np.int16)))  # type: ignore[arg-type]
