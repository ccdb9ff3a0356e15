"""OpenAI's Live API with the unmodified SDK, against real processes."""

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from openai import AsyncOpenAI
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from antiphon.edge.media.audio_formats import AudioFormat
from antiphon.shared_schemas.audio import OUTPUT_RATE
from support.live_client import LiveUser, live_user
from support.speech import say, share_voiced, words
from support.stack import Stack, new_stack
from support.synthetic_speech import ITALY

KEY = "the-key-of-openai"
QUICK = (
    '{"slots": 1, "cycle_units": 4, "prepare_ms": 0, "prefill_ms": 0, "listen_ms": 0,'
    ' "speak_ms": 0, "finalize_ms": 0}'
)
"""Speaks in two seconds of four."""
MODEL: Any = {"model": "gpt-live-1"}
FORMATS: dict[AudioFormat, Any] = {
    AudioFormat.PCM_16K: {"type": "audio/pcm", "rate": 16_000},
    AudioFormat.PCM_24K: {"type": "audio/pcm", "rate": 24_000},
    AudioFormat.PCMU: {"type": "audio/pcmu", "rate": 8_000},
    AudioFormat.PCMA: {"type": "audio/pcma", "rate": 8_000},
}


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """One slot, so that a second client waits."""
    with new_stack(tmp_path_factory.mktemp("live")) as running:
        running.edge(api_keys=KEY)
        running.worker(engine_options=QUICK, slots=1)
        yield running


async def close(user: LiveUser) -> Any:
    await user.connection.session.close(event_id="bye")
    closed = await user.first("session.closed")
    assert (closed.reason, closed.client_event_id) == ("close_requested", "bye")
    await user.until(lambda: user.close_code == 1000)
    return closed


@pytest.mark.parametrize("audio_format", FORMATS)
async def test_sound_has_the_format_of_the_session(quick: Stack, audio_format: AudioFormat) -> None:
    session = {**MODEL, "audio": {"format": FORMATS[audio_format]}}
    async with live_user(quick.http_url, KEY, session, audio_format, pace=8) as user:
        started = user.of("session.started")[0]
        assert started.client_event_id == "start"
        assert started.session.audio.format.model_dump() == FORMATS[audio_format]
        await user.until(lambda: len(user.of("session.output_audio.delta")) >= 3)
        sound = user.sound()
        spectrum = np.abs(np.fft.rfft(sound * np.hanning(len(sound))))
        assert spectrum.argmax() * OUTPUT_RATE / len(sound) == pytest.approx(220, abs=2)
        said = user.of("session.output_transcript.delta")
        assert user.answer.startswith("unit ")
        assert said[0].end_ms - said[0].start_ms == 500  # half of a unit
        assert all(a.end_ms <= b.start_ms for a, b in pairwise(said))
        closed = await close(user)
        assert closed.usage.seconds >= 5
        assert closed.session.id == started.session.id


async def test_texts_and_mute(quick: Stack) -> None:
    history: Any = [
        {"role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
        {"role": "user", "content": [{"type": "input_text", "text": "Hello."}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]},
    ]
    asked = {**MODEL, "input": history, "instructions": "Help.", "store": False}
    async with live_user(quick.http_url, KEY, asked, pace=8) as user:
        assert user.of("session.started")[0].session.store is False
        session = user.connection.session
        for name in ("instructions", "thinking", "commentary"):
            append = getattr(session, name).append
            await append(content=f"The {name} of the client.", delegation_id=None, event_id=name)
            appended = await user.first(f"session.{name}.appended")
            assert appended.client_event_id == name
        await user.until(lambda: "The commentary of the client." in user.answer)
        assert "thinking" not in user.answer
        await session.input_audio.mute(event_id="mute")
        assert (await user.first("session.input_audio.muted")).client_event_id == "mute"
        user.audible = False  # a client may also send nothing
        count = len(user.of("session.output_audio.delta"))
        await user.until(lambda: len(user.of("session.output_audio.delta")) >= count + 1)
        await session.input_audio.unmute()
        await user.first("session.input_audio.unmuted")
        await session.update(session={"delegation": {"type": "client"}}, event_id="same")
        assert (await user.first("session.updated")).client_event_id == "same"
        usage = await user.first("session.usage.updated")
        assert usage.usage.seconds >= 10
        assert 0 <= usage.context_window.usage_ratio <= 1
        assert user.errors == []
        await close(user)


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "an unknown field": ({"speed": 2}, "unknown_parameter", "session.speed"),
    "no model": ({"model": None}, "invalid_value", "session.model"),
    "a delegation": (
        {"delegation": {"type": "responses"}},
        "invalid_value",
        "session.delegation.type",
    ),
    "a rate": (
        {"audio": {"format": {"type": "audio/pcm", "rate": 8000}}},
        "invalid_value",
        "session.audio.format.rate",
    ),
    "a voice": (
        {"audio": {"output": {"voice": "nobody"}}},
        "invalid_value",
        "session.audio.output.voice",
    ),
    "a trigger": ({"triggers": [{"event": "x"}]}, "invalid_value", "session.triggers"),
}


async def test_what_is_not_possible_is_refused_by_name(quick: Stack) -> None:
    """Each error has the id of its event, and the same connection can still begin a session."""
    async with live_user(quick.http_url, KEY) as user:
        start = user.connection.session.start
        for number, (fields, code, param) in enumerate(REFUSED.values(), start=1):
            asked: Any = {**MODEL, **fields}
            await start(session=asked, event_id=f"try {number}")
            await user.until(lambda number=number: len(user.errors) == number)
            error = user.errors[-1]
            assert (error.code, error.param) == (code, param)
            assert (error.type, error.client_event_id) == ("invalid_request_error", f"try {number}")
        await user.connection.session.input_audio.append(audio="AAAAAAAA", event_id="early")
        await user.until(lambda: user.errors[-1].client_event_id == "early")
        assert "session.start" in user.errors[-1].message
        await user.connection.response.create(event_id="response")
        await user.until(lambda: user.errors[-1].client_event_id == "response")
        await start(session={**MODEL, "audio": {"output": {"voice": "marin"}}})
        await user.first("session.started")
        await close(user)


async def test_a_client_waits_without_an_error(quick: Stack) -> None:
    async with (
        live_user(quick.http_url, KEY, MODEL) as first,
        live_user(quick.http_url, KEY) as next_,
    ):
        await next_.connection.session.start(session=MODEL, event_id="start")
        await asyncio.sleep(1.5)  # longer than a place in the queue is kept back
        assert next_.events == []
        await close(first)
        assert (await next_.first("session.started")).client_event_id == "start"
        await close(next_)


async def test_keys(quick: Stack) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with AsyncOpenAI(base_url=f"{quick.http_url}/v1", api_key="wrong-key").live.connect():
            pass
    assert refused.value.response.status_code == 401
    assert b'"invalid_api_key"' in refused.value.response.body
    offered = [Subprotocol("realtime"), Subprotocol(f"openai-insecure-api-key.{KEY}")]
    path = f"{quick.ws_url}/openai/v1/live/sessions"
    async with connect(path, subprotocols=offered) as socket:
        assert socket.subprotocol == "realtime"


@pytest.mark.extended
@pytest.mark.speech
async def test_a_spoken_question_and_an_interruption(local_stack: Stack) -> None:
    url = local_stack.http_url
    async with live_user(url, "none", {**MODEL, "instructions": "Be brief."}) as user:
        user.say(say(ITALY))
        await user.until(lambda: "rome" in words(user.answer))
        assert "italy" in words(user.input_transcript)
        transcript = user.of("session.input_transcript.delta")[0]
        assert 0 <= transcript.start_ms < transcript.end_ms < 10_000
        spoken_ms = len(say(ITALY)) / 16
        assert transcript.end_ms - transcript.start_ms == pytest.approx(spoken_ms, abs=500)
        await user.until_quiet()
        answer, sound = user.answer, user.sound()

        await user.connection.session.commentary.append(
            content=" ".join(f"This is sentence number {n} of many." for n in range(1, 12)),
            delegation_id=None,
        )
        await user.until(lambda: "number 2" in user.answer)
        user.say(say(ITALY))
        await user.until(lambda: words(user.answer).count("rome") == 2)
        assert "number 11" not in user.answer
        assert user.errors == []
        await close(user)
    assert await asyncio.to_thread(share_voiced, answer, sound) >= 0.7
