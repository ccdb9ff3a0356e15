"""Half-duplex conversations through every process."""

import asyncio

import numpy as np
import pytest

from antiphon.client.half_duplex import HalfDuplexSession, Piece, connect_half_duplex
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, SILENCE, PcmFormat, Samples
from antiphon.shared_schemas.config import GenerationConfig, HalfDuplexConfig, VadConfig
from antiphon.shared_schemas.messages.half_duplex import Generating, TurnDone, VadState
from support.speech import say, share_voiced, words
from support.stack import Stack
from support.synthetic_speech import silence, units_of

pytestmark = pytest.mark.speech

HALF_A_SECOND = INPUT_RATE // 2
CALM = HalfDuplexConfig(generation=GenerationConfig(temperature=0.0), vad=VadConfig(threshold=0.6))


def _halves(speech: Samples) -> list[Samples]:
    """Chunks of half a second; sent faster than a microphone would, as the server accepts that."""
    return units_of(np.concatenate([silence(0.7), speech, silence(1.6)]), HALF_A_SECOND)


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


async def test_two_spoken_turns_with_the_local_engine(local_stack: Stack) -> None:
    async with connect_half_duplex(
        local_stack.ws_url, session_id="hdx_talk", binary=True, pcm=PcmFormat.S16
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
            # The speech has the words of the text. In a thread: the session answers pings meanwhile.
            assert await asyncio.to_thread(share_voiced, done.text, sound) >= 0.7
            # Speech before the answer has been played would interrupt it.
            await asyncio.sleep(len(sound) / OUTPUT_RATE)
        assert (await session.stop()).session_id == "hdx_talk"
