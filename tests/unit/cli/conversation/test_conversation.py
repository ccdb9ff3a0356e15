"""Asking a question against a scripted server, with seconds of a few milliseconds."""

import time
from collections.abc import AsyncIterator, Callable, Iterable
from itertools import islice
from typing import Any

import numpy as np
import pybase64
import pytest

from antiphon.cli.conversation.conversation import ConversationResult, SpokenQuestion, ask
from antiphon.cli.conversation.latency import UnitLatency
from antiphon.client.duplex import Unit
from antiphon.client.errors import ServerError, SessionOver
from antiphon.client.sound import paced
from antiphon.client.turns import speech_end_s
from antiphon.shared_schemas.audio import INPUT_RATE, Samples
from support.scripted_server import SPOKEN, Wire, speaking, talking_to

TONE = np.full(int(1.5 * INPUT_RATE), 0.5, dtype=np.float32)


class Seen:
    def __init__(self) -> None:
        self.units: list[tuple[Unit, UnitLatency | None]] = []
        self.errors: list[ServerError] = []

    def unit(self, unit: Unit, latency: UnitLatency | None) -> None:
        self.units.append((unit, latency))

    def error(self, error: ServerError) -> None:
        self.errors.append(error)


@pytest.fixture(autouse=True)
def _short_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    def fast(chunks: Iterable[Samples], start: float, _: float) -> AsyncIterator[Samples]:
        return paced(chunks, start, 0.02)

    monkeypatch.setattr("antiphon.cli.conversation.conversation.paced", fast)


def answering(reply: Callable[[int], dict[str, Any] | None]) -> Any:
    """A server that answers the n-th chunk with `reply(n)` until it receives `stop`."""

    async def script(wire: Wire) -> None:
        await wire.begin()
        for number in range(1, 200):
            message = await wire.next()
            if message["type"] == "stop":
                await wire.send("stopped", session_id="s")
                return
            answer = reply(number)
            if answer is not None:
                fields = {"is_listen": True, "current_time": number * 1000} | answer
                kind = fields.pop("kind", "result")
                await wire.send(kind, **fields)

    return script


async def asked(
    reply: Callable[[int], dict[str, Any] | None], seen: Seen, patience_s: float = 60.0
) -> ConversationResult:
    async with talking_to(answering(reply)) as session:
        await session.prepare()
        return await ask(session, SpokenQuestion(TONE), seen, patience_s)


async def test_listening_continues_until_the_turn_has_ended() -> None:
    replies = {
        3: speaking("One", current_time=3000),
        4: speaking(" two.", current_time=4000, end_of_turn=True),
    }
    seen = Seen()
    result = await asked(lambda n: replies.get(n, {}), seen)
    assert result.answered
    assert result.said.text == "One two."
    np.testing.assert_array_equal(result.said.audio, np.concatenate([SPOKEN, SPOKEN]))
    assert [unit.is_listen for unit, _ in seen.units] == [True, True, False, False]
    assert all(latency is not None and latency.total > 0 for _, latency in seen.units)
    assert len(result.first_words_s) == 1


async def test_a_turn_that_ended_before_the_question_is_not_the_answer() -> None:
    early = {1: speaking("Hm?", current_time=1000, end_of_turn=True)}
    result = await asked(lambda n: early.get(n, {}), Seen(), patience_s=2.0)
    assert not result.answered
    assert result.said.text == "Hm?"
    assert not result.first_words_s


async def test_the_replies_before_and_after_an_interruption_are_separate_words() -> None:
    replies = {
        1: speaking("Once upon a", current_time=1000),
        4: speaking("Tok", current_time=4000),
        5: speaking("yo.", current_time=5000, end_of_turn=True),
    }
    result = await asked(lambda n: replies.get(n, {}), Seen())
    assert result.said.text == "Once upon a Tokyo."


async def test_an_answer_that_began_during_the_question_may_be_followed_by_another() -> None:
    first = {
        1: speaking("It is Rome", current_time=1000),
        2: speaking(".", current_time=2000, end_of_turn=True),
    }
    result = await asked(lambda n: first.get(n, {}), Seen())
    assert (result.answered, result.said.text) == (True, "It is Rome.")
    both = first | {4: speaking("It is Oslo.", current_time=4000, end_of_turn=True)}
    result = await asked(lambda n: both.get(n, {}), Seen())
    assert (result.answered, result.said.text) == (True, "It is Rome. It is Oslo.")


async def test_silence_ends_at_the_time_limit() -> None:
    result = await asked(lambda _: {}, Seen(), patience_s=2.0)
    assert not result.answered
    assert not len(result.said.audio)


async def test_an_error_is_shown_and_the_conversation_continues() -> None:
    trouble = {"kind": "error", "error": "e", "message": "late", "code": "input_backpressure"}
    replies: dict[int, dict[str, Any]] = {
        2: trouble,
        3: speaking("Yes.", current_time=3000, end_of_turn=True),
    }
    seen = Seen()
    result = await asked(lambda n: replies.get(n, {}), seen)
    assert result.answered
    assert [error.message for error in seen.errors] == ["late"]


async def test_a_lost_session_is_raised() -> None:
    async def script(wire: Wire) -> None:
        await wire.begin()
        await wire.expect("audio_chunk")
        await wire.socket.close(1011, "worker_lost")

    async with talking_to(script) as session:
        await session.prepare()
        with pytest.raises(SessionOver, match="worker_lost"):
            await ask(session, SpokenQuestion(TONE), Seen(), patience_s=60)


async def test_the_recording_is_sent_and_then_silence() -> None:
    sent: list[bytes] = []

    async def script(wire: Wire) -> None:
        await wire.begin()
        for number in range(1, 4):
            sent.append(pybase64.b64decode((await wire.expect("audio_chunk"))["audio"]))
            spoken = speaking("x", end_of_turn=True) if number == 3 else {"is_listen": True}
            await wire.send("result", **spoken | {"current_time": number * 1000})

    async with talking_to(script) as session:
        await session.prepare()
        await ask(session, SpokenQuestion(TONE), Seen(), patience_s=60)
    spoken = np.frombuffer(b"".join(sent), np.float32)
    assert len(spoken) == 3 * INPUT_RATE
    np.testing.assert_array_equal(spoken[: len(TONE)], TONE)
    assert not spoken[len(TONE) :].any()


async def test_chunks_are_sent_at_the_pace_of_a_microphone() -> None:
    start = time.monotonic()
    spoken = islice(SpokenQuestion(TONE).chunks(1.0), 5)
    chunks = [chunk async for chunk in paced(spoken, start, 0.02)]
    assert len(chunks) == 5
    assert time.monotonic() - start >= 5 * 0.02


def test_speech_end_is_the_last_audible_sample() -> None:
    padded = np.concatenate([TONE, np.full(8000, 0.001, np.float32)])
    assert speech_end_s(padded) == pytest.approx(1.5)
    assert speech_end_s(np.zeros(5, np.float32)) == 0.0
