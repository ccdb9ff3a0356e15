"""A spoken conversation through every process: edge, Redis, worker, recorder, and back."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf

from antiphon.client.duplex import DuplexSession, Unit, connect_duplex
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, PcmFormat, Samples, to_pcm16
from antiphon.shared_schemas.config import DuplexConfig
from support.speech import say, seconds, share_voiced, words
from support.stack import Stack, until
from support.synthetic_speech import GERMANY, ITALY

pytestmark = pytest.mark.speech

STORY = "Tell me about the history of Rome."
"""Has a long answer."""
CALM = DuplexConfig(temperature=0.0, force_listen_count=1)
LONGEST_UNITS = 120


@dataclass
class Transcript:
    """What was said by both sides, second by second."""

    sent: list[Samples] = field(default_factory=list)
    units: list[Unit] = field(default_factory=list)

    @property
    def spoken(self) -> list[Unit]:
        return [unit for unit in self.units if not unit.is_listen]

    @property
    def text(self) -> str:
        return "".join(unit.text for unit in self.spoken)

    @property
    def audio(self) -> Samples:
        return np.concatenate([unit.audio for unit in self.spoken])

    def turn_is_over(self) -> bool:
        return bool(self.units) and self.units[-1].end_of_turn


class Conversation:
    """Sends a second of audio after each answer, and collects the answers."""

    def __init__(self, session: DuplexSession) -> None:
        self.talk = Transcript()
        self._session = session
        self._units = aiter(session.results())

    async def second(self, chunk: Samples, *, force_listen: bool = False) -> Unit:
        await self._session.send_audio(chunk, force_listen=force_listen)
        self.talk.sent.append(chunk)
        async with asyncio.timeout(45):
            unit = await anext(self._units)
        self.talk.units.append(unit)
        return unit

    async def say(self, chunks: Sequence[Samples]) -> None:
        for chunk in chunks:
            await self.second(chunk)

    async def finish_turn(self) -> None:
        while not self.talk.turn_is_over():
            assert len(self.talk.units) < LONGEST_UNITS, self.talk.text
            await self.second(np.zeros(INPUT_RATE, np.float32))

    async def wait_for_speech(self) -> None:
        while not self.talk.units or self.talk.units[-1].is_listen or self.talk.turn_is_over():
            assert len(self.talk.units) < LONGEST_UNITS
            await self.second(np.zeros(INPUT_RATE, np.float32))


async def recorded(stack: Stack, recording: str) -> Path:
    folder = stack.data_dir / "sessions" / recording
    meta = folder / "meta.json"
    await until(lambda: meta.is_file() and json.loads(meta.read_text())["state"] == "complete")
    return folder


def read_pcm16(path: Path) -> np.ndarray:
    return sf.read(path, dtype="int16")[0]


async def test_a_spoken_question_is_answered_in_speech_and_recorded(local_stack: Stack) -> None:
    async with connect_duplex(
        local_stack.ws_url, timing=True, binary=True, pcm=PcmFormat.S16
    ) as session:
        await session.wait_for_turn()
        prepared = await session.prepare("You are a helpful assistant.", CALM)
        speaker = Conversation(session)
        await speaker.say(seconds(0.3, say(ITALY)))
        await speaker.finish_turn()
        await session.stop()
    talk = speaker.talk

    assert "rome" in words(talk.text)
    assert await asyncio.to_thread(share_voiced, talk.text, talk.audio) >= 0.7
    times = [unit.message.current_time for unit in talk.units]
    assert times == [1000 * (n + 1) for n in range(len(talk.sent))]  # one answer a second, in order
    assert all(len(unit.audio) <= OUTPUT_RATE for unit in talk.units)
    assert all(unit.is_listen == (len(unit.audio) == 0) for unit in talk.units)
    assert talk.units[0].is_listen  # force_listen_count
    assert [unit.end_of_turn for unit in talk.spoken] == [False] * (len(talk.spoken) - 1) + [True]
    assert all(unit.timing for unit in talk.units)

    assert prepared.recording_session_id is not None
    folder = await recorded(local_stack, prepared.recording_session_id)
    chunks = json.loads((folder / "recording.json").read_text())["chunks"]
    assert len(chunks) == len(talk.sent)
    for chunk, sent, unit in zip(chunks, talk.sent, talk.units, strict=True):
        assert np.array_equal(read_pcm16(folder / chunk["user_audio"]), to_pcm16(sent))
        assert chunk["result"]["mode"] == ("LISTEN" if unit.is_listen else "SPEAK")
        if not unit.is_listen:
            assert chunk["result"]["text"] == unit.text
            assert np.array_equal(
                read_pcm16(folder / chunk["result"]["ai_audio"]), to_pcm16(unit.audio)
            )


@pytest.mark.extended
async def test_the_model_stops_when_interrupted_and_answers_the_interruption(
    local_stack: Stack,
) -> None:
    async with connect_duplex(local_stack.ws_url) as session:
        await session.wait_for_turn()
        await session.prepare("You are a helpful assistant.", CALM)
        speaker = Conversation(session)
        await speaker.say(seconds(say(STORY), 0.6))
        await speaker.wait_for_speech()
        cut = len(speaker.talk.units)
        first, *rest = seconds(say(GERMANY), 0.6)
        assert (await speaker.second(first)).is_listen  # within one unit
        await speaker.say(rest)
        await speaker.finish_turn()
        answer = "".join(unit.text for unit in speaker.talk.units[cut:])
        assert "berlin" in words(answer), speaker.talk.text

        await speaker.say(seconds(say(STORY), 0.6))
        await speaker.wait_for_speech()
        silence = np.zeros(INPUT_RATE, np.float32)
        assert (await speaker.second(silence, force_listen=True)).is_listen
        assert (await speaker.second(silence)).is_listen  # the rest of the story was dropped
        await session.stop()


@pytest.mark.extended
async def test_another_worker_continues_the_conversation(stack: Stack) -> None:
    stack.edge()
    first = stack.worker("local", slots=1)
    async with connect_duplex(stack.ws_url) as session:
        await session.wait_for_turn()
        await session.prepare("You are a helpful assistant.", CALM)
        speaker = Conversation(session)
        await speaker.say(seconds(say(ITALY), 0.6))
        await speaker.finish_turn()
        length_before = speaker.talk.units[-1].message.kv_cache_length
        # In a thread: it takes seconds to load, and the session answers pings meanwhile.
        second = await asyncio.to_thread(stack.worker, "local", slots=1)
        first.kill()
        await speaker.say(seconds(3.0))
        assert "session_recovered" in second.log
        silence = np.zeros(INPUT_RATE, np.float32)
        async with asyncio.timeout(45):  # the worker reads the dialogue in the background
            while (await speaker.second(silence)).message.kv_cache_length < length_before - 8:
                await asyncio.sleep(0.5)
        await speaker.say(seconds(say(GERMANY), 0.6))
        await speaker.finish_turn()
        assert speaker.talk.spoken[-1].end_of_turn
        await session.stop()
