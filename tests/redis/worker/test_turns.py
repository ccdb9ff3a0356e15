"""Sessions of items and answers over real streams, with real speech, a real detector and a scripted engine."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.inference_worker.engines.types import (
    Delta,
    EngineError,
    TooManyRequests,
)
from antiphon.inference_worker.sessions.turns.listening import MOST_BUFFERED_S
from antiphon.shared_schemas.audio import (
    INPUT_RATE,
    OUTPUT_RATE,
    PcmFormat,
    Samples,
)
from antiphon.shared_schemas.config import TurnsConfig
from antiphon.shared_schemas.content import (
    AudioPart,
    ConversationMessage,
    Role,
    TextPart,
    flatten,
)
from antiphon.shared_schemas.entries import (
    CancelIn,
    ChunkIn,
    ClearIn,
    CommitIn,
    DeltaOut,
    ErrorOut,
    GeneratingOut,
    ItemIn,
    ItemOut,
    OutEntry,
    RefusedOut,
    RespondIn,
    SettingsIn,
    StopIn,
    StoppedOut,
    TranscriptOut,
    TruncateItemIn,
    TurnDoneOut,
    VadOut,
)
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.states import EndReason, SessionKind
from support.scripted_engine import HeldAnswer, ScriptedConversation
from support.stack import until
from support.synthetic_speech import GERMANY, ITALY, cough, silence, spoken
from support.tools import WEATHER
from support.worker_harness import SID, OpenSession, chunks, running_worker, stream_client

KIND = SessionKind.TURNS
QUESTION = np.concatenate([spoken(ITALY, lead_s=0.6), silence(1.0)])
PUSH = TurnsConfig(vad=None, responds=False)


def item(text: str, item_id: str, after: str | None = None, role: Role = Role.USER) -> ItemIn:
    content, blobs = flatten([ConversationMessage(role, (TextPart(text),))])
    return ItemIn(item_id=item_id, after=after, content=content, blobs=blobs)


def asks(response_id: str, config: TurnsConfig = PUSH) -> RespondIn:
    return RespondIn(response_id=response_id, config=config)


def kinds(entries: list[OutEntry]) -> list[type[OutEntry]]:
    return [type(entry) for entry in entries]


def texts(messages: list[ConversationMessage]) -> list[str]:
    return [message.text for message in messages]


async def test_speech_becomes_an_item_and_is_answered(open_session: OpenSession) -> None:
    async with open_session() as (worker, client):
        await client.send(SettingsIn(config=TurnsConfig(instructions="be brief")))
        await client.send(*chunks(QUESTION))
        before, done = await client.receive_until(TurnDoneOut)
        assert kinds(before) == [VadOut, ItemOut, GeneratingOut, DeltaOut, DeltaOut]
        began, received = before[0], before[1]
        assert isinstance(began, VadOut)
        assert isinstance(received, ItemOut)
        assert began.item_id == received.item_id
        assert received.stopped_ms is not None
        assert 0 < began.at_ms < received.stopped_ms < len(QUESTION) * 1000 // INPUT_RATE
        assert received.response_id == done.response_id
        assert done.text == "answer 1"
        system, question = worker.conversation.messages
        assert (system.role, question.role) == (Role.SYSTEM, Role.USER)
        missing = await client.expect(TranscriptOut)
        assert (missing.text, missing.item_id) == (None, received.item_id)
        await client.send(StopIn())
        await client.expect(StoppedOut)
        assert (await client.ended()).reason is EndReason.STOPPED


async def test_speech_interrupts_an_answer(open_session: OpenSession) -> None:
    held = HeldAnswer()
    async with open_session(answer=held) as (worker, client):
        await client.send(SettingsIn(config=TurnsConfig()), item("Hello.", "a"), asks("r1"))
        await client.receive_until(DeltaOut)
        await client.send(*chunks(QUESTION))
        before, done = await client.receive_until(TurnDoneOut)
        assert VadOut in kinds(before)
        assert (done.stopped, done.reason, done.text) == (True, "turn_detected", "well")
        held.release.set()
        _, done = await client.receive_until(TurnDoneOut)
        assert not done.stopped
        assert texts(worker.conversation.messages)[:2] == ["Hello.", "well"]


@pytest.mark.parametrize(
    ("sound", "complete"),
    [(cough, False), (lambda: 0.12 * spoken(GERMANY, lead_s=0.0), True)],
    ids=["a cough while it is made", "somebody far away while it is played"],
)
async def test_other_sounds_do_not_interrupt_an_answer(
    open_session: OpenSession, sound: Callable[[], Samples], complete: bool
) -> None:
    """While it is made, and while it is only played any more."""
    held = HeldAnswer()

    def answer(conversation: ScriptedConversation) -> Iterator[Delta]:
        yield from held(conversation)
        yield Delta(text=" and on", audio=np.full(60 * OUTPUT_RATE, 0.1, np.float32))

    async with open_session(answer=answer) as (_, client):
        await client.send(SettingsIn(config=TurnsConfig()), *chunks(QUESTION))
        await client.receive_until(DeltaOut)
        noise = chunks(np.concatenate([silence(0.4), sound(), silence(1.0)]))
        if complete:
            held.release.set()
            await client.receive_until(TranscriptOut)
        await client.send(*noise)
        if not complete:
            await client.send(item("Later.", "b"), ClearIn(), asks("r2"))
            await client.expect(RefusedOut)
            held.release.set()
            _, done = await client.receive_until(TurnDoneOut)
            assert not done.stopped
            await client.receive_until(TranscriptOut)
        await client.send(*chunks(QUESTION))
        began = await client.expect(VadOut)
        assert began.at_ms > 1000 * (len(QUESTION) + INPUT_RATE) // INPUT_RATE
        received = await client.expect(ItemOut)
        assert len(received.audio) / 2 > 0.8 * len(spoken(ITALY, lead_s=0.0))


async def test_an_answer_goes_on_if_speech_does_not_interrupt(open_session: OpenSession) -> None:
    held, config = HeldAnswer(), TurnsConfig(interruptible=False)
    async with open_session(answer=held) as (worker, client):
        await client.send(SettingsIn(config=config), item("Hello.", "a"), asks("r1"))
        await client.receive_until(DeltaOut)
        await client.send(*chunks(QUESTION))
        await client.receive_until(ItemOut)
        held.release.set()
        _, first = await client.receive_until(TurnDoneOut)
        _, second = await client.receive_until(TurnDoneOut)
        assert (first.response_id, first.stopped) == ("r1", False)
        assert second.response_id != "r1"
        assert len(worker.conversation.messages) == 3


async def test_words_that_were_not_played_are_forgotten(open_session: OpenSession) -> None:
    """Also if the client says so before the answer has ended."""
    held = HeldAnswer()
    async with open_session(answer=held) as (worker, client):
        config = TurnsConfig(vad=None)
        await client.send(SettingsIn(config=config), item("Hello.", "a"), asks("r1", config))
        before, _ = await client.receive_until(DeltaOut)
        begun = next(entry for entry in before if isinstance(entry, GeneratingOut))
        cut = TruncateItemIn(item_id=begun.item_id, audio_ms=0)
        await client.send(CancelIn(response_id="r1"), cut)
        await client.receive_until(TurnDoneOut)
        held.release.set()
        await client.send(asks("r2"))
        await client.receive_until(TurnDoneOut)
        assert "well" not in texts(worker.conversation.messages)


async def test_push_to_talk(open_session: OpenSession) -> None:
    async with open_session() as (worker, client):
        await client.send(SettingsIn(config=PUSH), CommitIn(event_id="e"))
        refused = await client.expect(RefusedOut)
        assert (refused.code, refused.event_id) == ("input_audio_buffer_commit_empty", "e")
        await client.send(*chunks(QUESTION[:8000]), ClearIn(), *chunks(QUESTION[:4000]), CommitIn())
        received = await client.expect(ItemOut)
        assert (len(received.audio), received.stopped_ms, received.response_id) == (
            8000,
            None,
            None,
        )
        await client.expect(TranscriptOut)
        await client.send(asks("r1", PUSH.model_copy(update={"tools": [WEATHER]})))
        _, done = await client.receive_until(TurnDoneOut)
        assert done.text == "answer 1"
        [question] = worker.conversation.messages
        assert question.role is Role.USER
        assert worker.conversation.offered == []  # the engine knows no tools


async def test_a_long_utterance_is_answered_and_older_ones_lose_their_sound(
    open_session: OpenSession,
) -> None:
    minute = ChunkIn(audio=bytes(2 * 60 * INPUT_RATE), pcm=PcmFormat.S16)
    async with open_session() as (worker, client):
        await client.send(SettingsIn(config=PUSH), minute, CommitIn())
        await client.receive_until(TranscriptOut)
        await client.send(minute, minute, minute, CommitIn())
        received = await client.expect(ItemOut)
        missing = await client.expect(TranscriptOut)
        assert (missing.item_id, missing.text, missing.seconds) == (received.item_id, None, 180.0)
        await client.send(item("Be brief.", "b", received.item_id), asks("r1"))
        await client.receive_until(TurnDoneOut)
        long, written = worker.conversation.messages
        [part] = long.parts
        assert isinstance(part, AudioPart)
        assert len(part.samples()) == 180 * INPUT_RATE
        assert written.text == "Be brief."


async def test_a_recorded_answer_has_only_the_newest_sound_of_the_user(
    open_session: OpenSession,
) -> None:
    """A client may speak for hours before it asks for an answer."""
    sounds = [ChunkIn(audio=bytes(2 * MOST_BUFFERED_S * INPUT_RATE), pcm=PcmFormat.S16)]
    sounds.append(ChunkIn(audio=b"\0\x40" * INPUT_RATE, pcm=PcmFormat.S16))
    async with open_session() as (_, client):
        await client.send(SettingsIn(config=PUSH))
        for sound in sounds:
            await client.send(sound, CommitIn())
            await client.receive_until(TranscriptOut)
        await client.send(asks("r1"))
        begun = await client.expect(GeneratingOut)
        audio = np.frombuffer(begun.audio, np.float32)
        assert len(audio) == MOST_BUFFERED_S * INPUT_RATE
        assert np.count_nonzero(audio) == INPUT_RATE
        assert begun.speech_duration_ms == 1000 * MOST_BUFFERED_S
        await client.receive_until(TurnDoneOut)


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (EngineError("no memory left"), ErrorCode.INFERENCE_ERROR),
        (TooManyRequests("later"), ErrorCode.RATE_LIMITED),
    ],
)
async def test_the_words_of_an_answer_that_fails_are_remembered(
    open_session: OpenSession, failure: EngineError, code: ErrorCode
) -> None:
    """The user has heard them."""

    def breaks(_conversation: ScriptedConversation) -> Iterator[Delta]:
        yield Delta(text="Rome is", n_tokens=2)
        raise failure

    async with open_session(answer=breaks) as (worker, client):
        await client.send(SettingsIn(config=PUSH), item("Hello.", "a"), asks("r1"))
        before, done = await client.receive_until(TurnDoneOut)
        assert kinds(before)[-2:] == [DeltaOut, ErrorOut]
        assert [entry.code for entry in before if isinstance(entry, ErrorOut)] == [code]
        assert (done.failed, done.text) == (True, "Rome is")
        [generating] = [entry for entry in before if isinstance(entry, GeneratingOut)]
        await client.send(item("Go on.", "b", generating.item_id), asks("r2"))
        await client.receive_until(TurnDoneOut)
        assert texts(worker.conversation.messages) == ["Hello.", "Rome is", "Go on."]


async def test_one_answer_at_a_time_and_others_outside_of_the_conversation(
    open_session: OpenSession,
) -> None:
    held = HeldAnswer()
    content, blobs = flatten([ConversationMessage(Role.USER, (TextPart("a title"),))])
    outside = RespondIn(
        response_id="r3",
        config=PUSH,
        in_conversation=False,
        refs=["a", None, "gone"],
        content=content,
        blobs=blobs,
    )
    async with open_session(answer=held) as (worker, client):
        await client.send(SettingsIn(config=PUSH), item("Hello.", "a"), asks("r1"))
        await client.receive_until(DeltaOut)
        await client.send(asks("r2"), outside)
        refused = await client.expect(RefusedOut)
        assert refused.code == "conversation_already_has_active_response"
        await client.send(CancelIn(response_id="r1"))
        _, done = await client.receive_until(TurnDoneOut)
        assert (done.response_id, done.reason) == ("r1", "client_cancelled")
        held.release.set()
        _, done = await client.receive_until(TurnDoneOut)
        assert done.response_id == "r3"
        assert texts(worker.conversation.messages) == ["Hello.", "a title"]
        await client.send(TruncateItemIn(item_id="gone", audio_ms=0), asks("r4"))
        await client.receive_until(TurnDoneOut)
        assert texts(worker.conversation.messages) == ["Hello.", "well"]


@pytest.mark.parametrize("kept_s", [1000.0, 0.0])
async def test_another_worker_continues_the_answer_and_has_all_items(
    broker: Broker, settings: BrokerSettings, kept_s: float
) -> None:
    """With the entries in the streams, and with the state that the first worker has stored."""
    held = HeldAnswer(" done")
    async with stream_client(broker, KIND) as client:
        async with running_worker(
            broker, settings, worker_id="w1", answer=held, stream_kept_s=kept_s
        ) as first:
            await client.send(SettingsIn(config=TurnsConfig(record=False)), *chunks(QUESTION))
            held.release.set()
            await client.receive_until(TurnDoneOut)
            await client.receive_until(TranscriptOut)
            await client.send(item("More.", "b", "a"))
            if not kept_s:
                await client.send(*chunks(silence(2.0)))
                await until_stored(broker)
            held.release.clear()
            await client.send(asks("r2"))
            await client.receive_until(DeltaOut)
            assert len(first.conversation.messages) == 3
        held.release.set()
        async with running_worker(broker, settings, worker_id="w2", answer=held) as second:
            _, done = await client.receive_until(TurnDoneOut)
            assert (done.response_id, done.text) == ("r2", "well done")
            assert [m.role for m in second.conversation.messages] == [
                Role.USER,
                Role.ASSISTANT,
                Role.USER,
            ]
            await client.send(*chunks(QUESTION))
            before, _ = await client.receive_until(TurnDoneOut)
            began = next(entry for entry in before if isinstance(entry, VadOut))
            assert began.at_ms > len(QUESTION) * 1000 // INPUT_RATE  # the clock goes on


async def until_stored(broker: Broker) -> None:
    async def is_stored() -> bool:
        key = broker.keys.past_items(SID)
        row = await broker.sessions.get(SID)
        assert row is not None
        states = [state async for _, state in broker.streams.history(key, row.ticket)]
        return bool(states) and len(states[-1].state["items"]) == 3

    await until(is_stored, within_s=90)


async def test_speech_goes_on_at_another_worker(broker: Broker, settings: BrokerSettings) -> None:
    half = len(QUESTION) // 2
    async with stream_client(broker, KIND) as client:
        async with running_worker(broker, settings, worker_id="w1"):
            await client.send(SettingsIn(config=TurnsConfig()), *chunks(QUESTION[:half]))
            began = await client.expect(VadOut)
        async with running_worker(broker, settings, worker_id="w2"):
            await client.send(*chunks(QUESTION[half:]))
            received = await client.expect(ItemOut)
            assert received.item_id == began.item_id
            assert len(received.audio) / 2 > 0.8 * len(spoken(ITALY, lead_s=0.0))
            await client.receive_until(TurnDoneOut)


async def test_push_to_talk_in_the_middle_of_speech(open_session: OpenSession) -> None:
    half = len(QUESTION) // 2
    async with open_session() as (_, client):
        await client.send(SettingsIn(config=TurnsConfig()), *chunks(QUESTION[:half]))
        began = await client.expect(VadOut)
        await client.send(SettingsIn(config=PUSH), *chunks(QUESTION[half:]), CommitIn())
        received = await client.expect(ItemOut)
        assert (received.item_id, received.response_id) == (began.item_id, None)
        assert len(received.audio) / 2 > 0.8 * len(spoken(ITALY, lead_s=0.0))
        await client.expect(TranscriptOut)
        await client.send(SettingsIn(config=TurnsConfig()), *chunks(QUESTION))
        again = await client.expect(VadOut)
        assert again.item_id != began.item_id


async def test_what_was_sent_before_the_detector_is_on_is_heard(open_session: OpenSession) -> None:
    async with open_session() as (_, client):
        await client.send(SettingsIn(config=PUSH), *chunks(QUESTION))
        await client.send(SettingsIn(config=TurnsConfig()))
        before, _ = await client.receive_until(TurnDoneOut)
        assert kinds(before)[:3] == [VadOut, ItemOut, GeneratingOut]


async def test_a_committed_item_at_another_worker_has_its_own_id(
    broker: Broker, settings: BrokerSettings
) -> None:
    async with stream_client(broker, KIND) as client:
        async with running_worker(broker, settings, worker_id="w1"):
            await client.send(SettingsIn(config=TurnsConfig()), *chunks(QUESTION))
            _, detected = await client.receive_until(ItemOut)
            await client.receive_until(TranscriptOut)
        async with running_worker(broker, settings, worker_id="w2"):
            await client.send(SettingsIn(config=PUSH), *chunks(QUESTION[:8000]), CommitIn())
            committed = await client.expect(ItemOut)
            assert committed.item_id != detected.item_id
