"""The user speaks while the model does, in half duplex."""

import asyncio
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.inference_worker.engines.types import Delta
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples
from antiphon.shared_schemas.config import HalfDuplexConfig
from antiphon.shared_schemas.content import ConversationMessage, Role, TextPart, flatten
from antiphon.shared_schemas.entries import (
    DeltaOut,
    ErrorOut,
    GeneratingOut,
    HalfDuplexPrepareIn,
    InterruptedOut,
    PreparedOut,
    TurnDoneOut,
    VadOut,
)
from antiphon.shared_schemas.states import EndReason, SessionKind
from support.scripted_engine import ScriptedConversation, ScriptedHalfDuplexView
from support.synthetic_speech import GERMANY, ITALY, cough, silence, spoken
from support.worker_harness import OpenSession, StreamClient, chunks, running_worker, stream_client

KIND = SessionKind.HALF_DUPLEX
STORY = "Once there was a dog. It had a friend, who was a cat. They lived in a house by the sea."
STORY_S = 60
QUESTION = np.concatenate([spoken(ITALY, lead_s=0.6), silence(1.3)])
INTERRUPTION = np.concatenate([spoken(GERMANY, lead_s=0.4), silence(1.3)])


class Story:
    """A minute of speech at once, and nothing more until the user or the test ends it.

    One that is `deaf` goes on until the worker stops.
    """

    def __init__(self, *, complete: bool, deaf: bool = False) -> None:
        self.release = threading.Event()
        self._deaf = deaf
        if complete:
            self.release.set()

    def __call__(self, conversation: ScriptedConversation) -> Iterator[Delta]:
        if conversation.number > 1:
            yield Delta(text="second answer", audio=np.zeros(240, np.float32))
            return
        yield Delta(text=STORY, audio=np.full(STORY_S * OUTPUT_RATE, 0.1, np.float32))
        while not (self.release.is_set() or self._hears_end(conversation)):
            self.release.wait(0.005)
        if not self.release.is_set():
            yield Delta(text=" The end.", audio=np.full(2400, 0.1, np.float32))

    def _hears_end(self, conversation: ScriptedConversation) -> bool:
        if self._deaf:
            return "stop" in conversation.calls
        return conversation.silenced.is_set()


async def in_answer(client: StreamClient, *, barge_in: bool = True, greeting: str = "") -> None:
    """Ask unless the model greets, and receive the beginning of what it says."""
    content, blobs = flatten([ConversationMessage(Role.SYSTEM, (TextPart("be brief"),))])
    config = HalfDuplexConfig(barge_in=barge_in, greeting=greeting)
    await client.send(HalfDuplexPrepareIn(content=content, blobs=blobs, config=config))
    await client.expect(PreparedOut)
    if not greeting:
        await client.send(*chunks(QUESTION))
    await client.receive_until(DeltaOut)


async def test_speech_ends_an_answer_that_is_made(open_session: OpenSession) -> None:
    async with open_session(answer=Story(complete=False)) as (worker, client):
        await in_answer(client)
        await client.send(*chunks(INTERRUPTION))
        cut = await client.expect(InterruptedOut)
        done = await client.expect(TurnDoneOut)
        assert worker.conversation.calls.count("set_break") >= 1
        assert (cut.turn_index, done.turn_index) == (0, 0)
        assert (done.text, done.stopped) == (cut.text, True)
        assert 0 < cut.played_ms < STORY_S * 1000
        assert cut.text != STORY
        assert STORY.startswith(cut.text)
        assert await next_question_is_whole(client)
        assert f"interrupted {cut.played_ms}" in worker.conversation.calls


async def test_speech_ends_an_answer_that_is_only_played_any_more(
    open_session: OpenSession,
) -> None:
    async with open_session(answer=Story(complete=True)) as (worker, client):
        await in_answer(client)
        await client.expect(TurnDoneOut)
        await client.send(*chunks(INTERRUPTION))
        cut = await client.expect(InterruptedOut)
        assert 0 < cut.played_ms < STORY_S * 1000
        assert await next_question_is_whole(client)
        assert f"interrupted {cut.played_ms}" in worker.conversation.calls


async def next_question_is_whole(client: StreamClient) -> bool:
    """The microphone goes on until the question is understood."""

    async def microphone() -> None:
        while True:
            await client.send(*chunks(silence(0.2)))
            await asyncio.sleep(0.05)

    sending = asyncio.create_task(microphone())
    try:
        before, asked = await client.receive_until(GeneratingOut)
    finally:
        sending.cancel()
    assert [entry.speaking for entry in before if isinstance(entry, VadOut)] == [True, False]
    return asked.speech_duration_ms > (len(INTERRUPTION) / INPUT_RATE - 1.7) * 900


@pytest.mark.parametrize(
    ("sound", "complete"),
    [(cough, False), (lambda: 0.12 * spoken(GERMANY, lead_s=0.0), True)],
    ids=["a cough while it is made", "somebody far away while it is played"],
)
async def test_other_sounds_do_not_end_an_answer(
    open_session: OpenSession, sound: Callable[[], Samples], complete: bool
) -> None:
    story = Story(complete=complete)
    async with open_session(answer=story) as (worker, client):
        await in_answer(client)
        if complete:
            await client.expect(TurnDoneOut)
        noise = np.concatenate([silence(0.4), sound(), silence(1.0)])
        await client.send(*chunks(noise))
        await client.send(*chunks(INTERRUPTION))
        cut = await client.expect(InterruptedOut)
        assert cut.input_n > 1 + len(chunks(QUESTION)) + len(chunks(noise))
        assert worker.conversation.number == 1


async def test_without_barge_in_an_answer_hears_nothing(open_session: OpenSession) -> None:
    story = Story(complete=False)
    async with open_session(answer=story) as (worker, client):
        await in_answer(client, barge_in=False)
        await client.send(*chunks(INTERRUPTION))
        story.release.set()
        done = await client.expect(TurnDoneOut)
        assert done.text == STORY
        assert not done.stopped
        assert "set_break" not in worker.conversation.calls


async def test_a_question_ends_the_greeting_and_keeps_its_first_word(
    open_session: OpenSession,
) -> None:
    async with open_session(answer=Story(complete=False), greets=True) as (_, client):
        await in_answer(client, greeting="Hello!")
        await client.send(*chunks(INTERRUPTION))
        cut = await client.expect(InterruptedOut)
        assert cut.turn_index == 0
        assert await next_question_is_whole(client)


async def test_another_worker_ends_the_answer_that_the_user_cut(
    broker: Broker, settings: BrokerSettings
) -> None:
    """The first worker dies between `interrupted` and the end of the turn."""
    async with stream_client(broker, KIND) as client:
        story = Story(complete=False, deaf=True)
        async with running_worker(broker, settings, answer=story):
            await in_answer(client)
            await client.send(*chunks(INTERRUPTION))
            cut = await client.expect(InterruptedOut)
        await broker.registry.worker_gone("w1")
        async with running_worker(broker, settings, worker_id="w2") as second:
            done = await client.expect(TurnDoneOut)
            assert (done.turn_index, done.text, done.stopped) == (0, cut.text, True)
            assert await next_question_is_whole(client)
            assert [past.text for past in second.conversation.replayed] == [cut.text]
            _, done = await client.receive_until(TurnDoneOut)
            assert done.turn_index == 1


@pytest.mark.parametrize("complete", [True, False])
async def test_a_cut_answer_stays_cut_on_other_workers(
    broker: Broker, settings: BrokerSettings, complete: bool
) -> None:
    """Also when it is read from the stored past. What the user said before the cut is not lost."""
    async with stream_client(broker, KIND) as client:
        async with running_worker(broker, settings, answer=Story(complete=complete)):
            await in_answer(client)
            if complete:
                await client.expect(TurnDoneOut)
            await client.send(*chunks(INTERRUPTION[: -INPUT_RATE * 3 // 2]))
            _, cut = await client.receive_until(InterruptedOut)
            if not complete:
                await client.expect(TurnDoneOut)
        await broker.registry.worker_gone("w1")
        async with running_worker(broker, settings, worker_id="w2") as second:
            assert await next_question_is_whole(client)
            assert [past.text for past in second.conversation.replayed] == [cut.text]
            await client.receive_until(TurnDoneOut)
        await broker.registry.worker_gone("w2")
        async with running_worker(broker, settings, worker_id="w3") as third:
            await client.send(*chunks(QUESTION))
            await client.receive_until(TurnDoneOut)
            assert [past.text for past in third.conversation.replayed] == [cut.text, "answer 2"]


class HandedOver:
    """A story of two workers. The first says one sentence with so much sound."""

    FIRST, REST = "Once there was a dog.", STORY[21:]

    def __init__(self, first_s: float) -> None:
        self._first_s = first_s

    def __call__(self, conversation: ScriptedConversation) -> Iterator[Delta]:
        text, seconds = (self.REST, STORY_S) if conversation.said else (self.FIRST, self._first_s)
        yield Delta(text=text, audio=np.full(round(seconds * OUTPUT_RATE), 0.1, np.float32))
        conversation.silenced.wait()


@pytest.mark.parametrize(
    ("greeting", "first_s"),
    [("", 0.01), ("Hello!", STORY_S)],
    ids=["an answer, cut in its second part", "the greeting, cut in its first part"],
)
async def test_a_cut_answer_has_the_words_of_both_workers(
    broker: Broker, settings: BrokerSettings, greeting: str, first_s: float
) -> None:
    """As far as they were played: the sound of the second worker follows that of the first."""
    story = HandedOver(first_s)
    async with stream_client(broker, KIND) as client:
        async with running_worker(broker, settings, answer=story, greets=True):
            await in_answer(client, greeting=greeting)
        await broker.registry.worker_gone("w1")
        async with running_worker(
            broker, settings, worker_id="w2", answer=story, greets=True
        ) as second:
            assert (await client.expect(DeltaOut)).text_delta == story.REST
            await client.send(*chunks(INTERRUPTION))
            cut = await client.expect(InterruptedOut)
            done = await client.expect(TurnDoneOut)
            assert (done.text, done.stopped) == (cut.text, True)
            if first_s == STORY_S:
                assert cut.text != story.FIRST
                assert story.FIRST.startswith(cut.text)
                own_ms = 0
            else:
                assert cut.text.startswith(story.FIRST)
                own_ms = cut.played_ms - round(first_s * 1000)
            assert 0 < cut.played_ms < STORY_S * 1000
            assert await next_question_is_whole(client)
            assert f"interrupted {own_ms}" in second.conversation.calls


async def test_a_recogniser_that_fails_during_an_answer_ends_the_session(
    open_session: OpenSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once: nothing would interrupt the rest of the answer."""

    def fails(self: ScriptedHalfDuplexView, speech: Samples) -> None:
        raise RuntimeError("no words")

    monkeypatch.setattr(ScriptedHalfDuplexView, "words_in", fails)
    async with open_session(answer=Story(complete=False)) as (worker, client):
        await in_answer(client)
        await client.send(*chunks(INTERRUPTION))
        error = await client.expect(ErrorOut)
        assert error.fatal
        assert (await client.ended()).reason is EndReason.ERROR
        assert "stop" in worker.conversation.calls
