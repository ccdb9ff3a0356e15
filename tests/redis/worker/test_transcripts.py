"""Transcripts that the worker makes for an engine that makes none."""

import asyncio
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.inference_worker import worker
from antiphon.inference_worker.engines.local.hearing.transcript import Transcript
from antiphon.inference_worker.engines.local.hearing.transcription import Recogniser
from antiphon.inference_worker.sessions.transcripts import UserTranscriber
from antiphon.inference_worker.settings import WorkerSettings
from antiphon.shared_schemas.audio import INPUT_RATE, PcmFormat, Samples, float_bytes, to_pcm16
from antiphon.shared_schemas.config import DuplexConfig, HalfDuplexConfig, TurnsConfig
from antiphon.shared_schemas.content import ConversationMessage, Role, TextPart, flatten
from antiphon.shared_schemas.entries import (
    ChunkIn,
    CommitIn,
    DeltaOut,
    HalfDuplexPrepareIn,
    ItemOut,
    PreparedOut,
    PrepareIn,
    RespondIn,
    ResultOut,
    SettingsIn,
    TranscriptOut,
    TurnDoneOut,
    VadOut,
)
from antiphon.shared_schemas.states import SessionKind
from support.scripted_engine import HeldAnswer
from support.speech import say, seconds, share_recognised
from support.worker_harness import StreamClient, open_worker_session, stream_client

SENTENCE = "What is the capital of Italy?"
MOST_UNITS = 2000


class WaitingRecogniser(Recogniser):
    """Waits until the test lets it answer."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()

    def transcribe(self, speech: Samples) -> Transcript:
        self.may_answer.wait()
        return Transcript("at last", log_probability=-0.1, tokens=2)


class BrokenRecogniser(Recogniser):
    def __init__(self) -> None: ...

    def transcribe(self, speech: Samples) -> Transcript:
        raise RuntimeError("a bug of the recogniser")


@pytest.fixture(scope="module")
def transcriber() -> Iterator[UserTranscriber]:
    transcriber = UserTranscriber()
    transcriber.load()
    yield transcriber
    transcriber.close()


async def say_units(client: StreamClient, audio: list[Samples]) -> list[str]:
    """The transcripts in the results of these units."""
    texts = []
    for second in audio:
        await client.send(ChunkIn(audio=float_bytes(second)))
        texts.append((await client.expect(ResultOut)).memo.get("user", ""))
    return texts


async def first_transcript(client: StreamClient) -> str:
    """Send silence until a result has a transcript."""
    for _ in range(MOST_UNITS):
        if text := "".join(await say_units(client, seconds(1.0))):
            return text
        await asyncio.sleep(0.02)
    raise AssertionError("no result has a transcript")


@pytest.mark.parametrize("asked", [True, False])
async def test_results_have_what_the_user_has_said_so_far(
    broker: Broker, settings: BrokerSettings, transcriber: UserTranscriber, *, asked: bool
) -> None:
    opened = open_worker_session(
        broker, settings, SessionKind.AUDIO_DUPLEX, transcriber=transcriber
    )
    interim = []
    async with opened as (_, client):
        config = DuplexConfig(interim_transcripts=asked)
        await client.send(PrepareIn(system_prompt="", config=config))
        await client.expect(PreparedOut)
        for second in seconds(0.5, say(SENTENCE), 2.0):
            await client.send(ChunkIn(audio=float_bytes(second)))
            interim.append((await client.expect(ResultOut)).interim_user_text)
            await asyncio.wrap_future(transcriber._submit(lambda: ""))  # it has heard the second
    if asked:
        assert any(text and text.startswith("What") for text in interim)
        assert interim[-1] == ""
    else:
        assert set(interim) == {None}


async def test_results_of_a_worker_that_transcribes_have_what_the_user_said(
    broker: Broker, settings: BrokerSettings
) -> None:
    values = {**settings.model_dump(), "engine": "simulated", "transcribe": True, "health_port": 0}
    stop = asyncio.Event()
    life = asyncio.create_task(worker.run(WorkerSettings(**values, drain_s=0), stop))
    try:
        async with stream_client(broker) as client:
            await client.send(PrepareIn(system_prompt="", config=DuplexConfig()))
            await client.expect(PreparedOut)
            said = await say_units(client, seconds(0.5, say(SENTENCE), 1.0))
            said.append(await first_transcript(client) if not any(said) else "")
            assert share_recognised(SENTENCE, " ".join(said)) > 0.6
    finally:
        stop.set()
        await life


async def test_results_do_not_wait_for_the_recogniser(
    broker: Broker, settings: BrokerSettings
) -> None:
    transcriber, recogniser = UserTranscriber(), WaitingRecogniser()
    transcriber._recogniser = recogniser
    opened = open_worker_session(
        broker, settings, SessionKind.AUDIO_DUPLEX, transcriber=transcriber
    )
    try:
        async with opened as (_, client):
            await client.send(PrepareIn(system_prompt="", config=DuplexConfig()))
            await client.expect(PreparedOut)
            assert not any(await say_units(client, seconds(0.5, say(SENTENCE), 3.0)))
            recogniser.may_answer.set()
            assert await first_transcript(client) == "at last"
    finally:
        recogniser.may_answer.set()
        transcriber.close()


@pytest.mark.parametrize("ready", [True, False])
async def test_a_transcript_comes_before_its_answer_if_it_is_ready(
    broker: Broker, settings: BrokerSettings, monkeypatch: pytest.MonkeyPatch, *, ready: bool
) -> None:
    transcriber, recogniser = UserTranscriber(), WaitingRecogniser()
    transcriber._recogniser = recogniser
    module = "antiphon.inference_worker.sessions.turns.responding"
    monkeypatch.setattr(f"{module}._TRANSCRIPT_PATIENCE_S", 60.0 if ready else 0.0)
    opened = open_worker_session(broker, settings, SessionKind.TURNS, transcriber=transcriber)
    try:
        async with opened as (_, client):
            await client.send(SettingsIn(config=TurnsConfig(vad=None, responds=False)))
            await client.send(ChunkIn(audio=float_bytes(say(SENTENCE))), CommitIn())
            item = await client.expect(ItemOut)  # its transcript is under way
            await client.send(RespondIn(response_id="r1", config=TurnsConfig(vad=None)))
            if ready:
                recogniser.may_answer.set()
                before, done = await client.receive_until(TurnDoneOut)
                kinds = [type(entry) for entry in before]
                assert kinds.index(TranscriptOut) < kinds.index(DeltaOut)
                assert done.memo["user"] == "at last"
            else:
                before, done = await client.receive_until(TurnDoneOut)
                assert not any(isinstance(entry, TranscriptOut) for entry in before)
                assert "user" not in done.memo
                recogniser.may_answer.set()
                late = await client.expect(TranscriptOut)
                assert (late.item_id, late.text) == (item.item_id, "at last")
    finally:
        recogniser.may_answer.set()
        transcriber.close()


@pytest.mark.parametrize("recognises", [True, False])
async def test_items_whose_sound_is_no_longer_kept_have_their_transcripts(
    broker: Broker, settings: BrokerSettings, *, recognises: bool
) -> None:
    """Without a recogniser, the client learns that there is none."""
    transcriber, recogniser, held = UserTranscriber(), WaitingRecogniser(), HeldAnswer()
    transcriber._recogniser = recogniser
    opened = open_worker_session(
        broker,
        settings,
        SessionKind.TURNS,
        answer=held,
        transcriber=transcriber if recognises else None,
    )
    push = TurnsConfig(vad=None, responds=False)
    said = np.zeros(100 * INPUT_RATE, np.float32)
    said[:INPUT_RATE] = say(SENTENCE)[:INPUT_RATE]
    sound = ChunkIn(audio=to_pcm16(said).tobytes(), pcm=PcmFormat.S16)
    try:
        async with opened as (_, client):
            await client.send(SettingsIn(config=push), RespondIn(response_id="r1", config=push))
            await client.receive_until(DeltaOut)
            await client.send(sound, CommitIn(), sound, CommitIn())
            items = [(await client.expect(ItemOut)).item_id for _ in range(2)]
            recogniser.may_answer.set()
            held.release.set()
            made = [(await client.receive_until(TranscriptOut))[1] for _ in range(2)]
            assert [each.item_id for each in made] == items
            assert [each.seconds for each in made] == [100.0, 100.0]
            assert {each.text for each in made} == {"at last" if recognises else None}
            assert recognises or all(each.problem for each in made)
    finally:
        recogniser.may_answer.set()
        transcriber.close()


async def test_a_failure_of_the_recogniser_ends_no_session(
    broker: Broker, settings: BrokerSettings
) -> None:
    transcriber = UserTranscriber()
    transcriber._recogniser = BrokenRecogniser()
    opened = open_worker_session(broker, settings, SessionKind.TURNS, transcriber=transcriber)
    push = TurnsConfig(vad=None, responds=False)
    try:
        async with opened as (_, client):
            await client.send(SettingsIn(config=push))
            await client.send(ChunkIn(audio=float_bytes(say(SENTENCE))), CommitIn())
            item = await client.expect(ItemOut)
            missing = await client.expect(TranscriptOut)
            assert (missing.item_id, missing.text) == (item.item_id, None)
            assert missing.problem == "the recogniser failed"
            await client.send(RespondIn(response_id="r1", config=push))
            await client.receive_until(TurnDoneOut)
    finally:
        transcriber.close()


async def test_a_turn_has_what_the_user_said(
    broker: Broker,
    settings: BrokerSettings,
    transcriber: UserTranscriber,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = "antiphon.inference_worker.sessions.transcripts"
    monkeypatch.setattr(f"{module}._PATIENCE_S", 60.0)
    content, blobs = flatten([ConversationMessage(Role.SYSTEM, (TextPart("Be kind."),))])
    config = HalfDuplexConfig(interim_transcripts=True)
    prepare = HalfDuplexPrepareIn(content=content, blobs=blobs, config=config)
    opened = open_worker_session(broker, settings, SessionKind.HALF_DUPLEX, transcriber=transcriber)
    async with opened as (_, client):
        await client.send(prepare)
        await client.expect(PreparedOut)
        for second in seconds(1.0, say(SENTENCE), 2.0):
            await client.send(ChunkIn(audio=float_bytes(second)))
        before, turn = await client.receive_until(TurnDoneOut)
    interim = [entry.interim_user_text for entry in before if isinstance(entry, VadOut)]
    assert any(text and text.startswith("What") for text in interim)
    assert share_recognised(SENTENCE, turn.memo["user"]) > 0.6
    assert turn.memo["turn"] == 1
