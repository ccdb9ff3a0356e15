"""Half-duplex sessions over real streams, with real speech, a real detector and a scripted engine."""

import asyncio
from collections.abc import Iterator

import numpy as np
import pytest
from redis.asyncio import Redis

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.inference_worker.engines.types import ContextFull, Delta, EngineError
from antiphon.shared_schemas.audio import (
    INPUT_RATE,
    OUTPUT_RATE,
    PcmFormat,
    Samples,
    float_bytes,
    samples_from_bytes,
)
from antiphon.shared_schemas.config import HalfDuplexConfig, HalfDuplexSessionConfig
from antiphon.shared_schemas.content import ConversationMessage, Role, TextPart, flatten
from antiphon.shared_schemas.entries import (
    BreakIn,
    DeltaOut,
    ErrorOut,
    GeneratingOut,
    HalfDuplexPrepareIn,
    OutEntry,
    PreparedOut,
    StopIn,
    StoppedOut,
    StreamPosition,
    TimeoutOut,
    TurnDoneOut,
    VadOut,
)
from antiphon.shared_schemas.states import EndReason, SessionKind, SessionState, WorkerState
from support.control_plane import join
from support.scripted_engine import (
    HeldAnswer,
    ScriptedConversation,
    ScriptedHalfDuplexView,
    piece,
    two_pieces,
)
from support.stack import until
from support.synthetic_speech import ITALY, silence, spoken
from support.worker_harness import (
    SID,
    OpenSession,
    RunningWorker,
    StreamClient,
    chunks,
    running_worker,
    stream_client,
)

KIND = SessionKind.HALF_DUPLEX
QUESTION = np.concatenate([spoken(ITALY, lead_s=0.6), silence(1.3)])
ONE_TURN = [VadOut, VadOut, GeneratingOut, DeltaOut, DeltaOut, TurnDoneOut]


def prepare(timeout_s: float = 60.0) -> HalfDuplexPrepareIn:
    content, blobs = flatten([ConversationMessage(Role.SYSTEM, (TextPart("be brief"),))])
    session = HalfDuplexSessionConfig(timeout_s=timeout_s)
    return HalfDuplexPrepareIn(
        content=content, blobs=blobs, config=HalfDuplexConfig(session=session)
    )


async def prepared(client: StreamClient) -> None:
    await client.send(prepare())
    await client.expect(PreparedOut)


async def turn(client: StreamClient, audio: Samples = QUESTION) -> list[OutEntry]:
    """Send one utterance; returns every entry up to the end of its turn."""
    await client.send(*chunks(audio))
    before, done = await client.receive_until(TurnDoneOut)
    return [*before, done]


def types_of(entries: list[OutEntry]) -> list[type]:
    return [type(entry) for entry in entries]


async def answering(client: StreamClient) -> GeneratingOut:
    """Send a question and wait for the first piece of the answer."""
    await client.send(*chunks(QUESTION))
    _, generating = await client.receive_until(GeneratingOut)
    await client.expect(DeltaOut)
    return generating


async def read_all(broker: Broker, client: StreamClient, worker: RunningWorker, count: int) -> None:
    """Wait until the worker has `count` inputs."""
    start = StreamPosition.before(client.ticket)
    async with broker.reader.subscribe(broker.keys.inbound(SID), start) as same_shard:
        await until(lambda: same_shard.unread >= count)


async def test_two_turns_from_prepare_to_stop(open_session: OpenSession) -> None:
    async with open_session() as (worker, client):
        await client.send(prepare())
        first = await client.expect(PreparedOut)
        assert (first.input_n, first.prompt_length) == (1, len("be brief"))
        assert worker.pool.state() is WorkerState.BUSY_HALF_DUPLEX
        for index in range(2):
            entries = await turn(client)
            assert types_of(entries) == ONE_TURN
            begun, ended, generating, *pieces, done = entries
            assert isinstance(begun, VadOut)
            assert isinstance(ended, VadOut)
            assert (begun.speaking, ended.speaking) == (True, False)
            assert isinstance(generating, GeneratingOut)
            assert generating.turn_index == index
            marks = [piece.first_audio for piece in pieces if isinstance(piece, DeltaOut)]
            assert marks[1:] == [None]
            assert marks[0] is not None
            assert (marks[0].kind, marks[0].engine) == (KIND, "scripted")
            assert 400 < generating.at - marks[0].asked_at < 60_000  # the silence that ends speech
            assert generating.input_n == ended.input_n
            length_ms = len(samples_from_bytes(generating.audio, PcmFormat.F32)) / 16
            assert 0 <= length_ms - generating.speech_duration_ms <= 61
            assert [piece.text_delta for piece in pieces if isinstance(piece, DeltaOut)] == [
                "answer",
                f" {index + 1}",
            ]
            assert isinstance(done, TurnDoneOut)
            assert (done.turn_index, done.text) == (index, f"answer {index + 1}")
            assert (done.stopped, done.failed, done.n_tokens) == (False, False, 2)
            assert (done.memo, done.kv_cache_length) == ({"turn": index + 1}, (index + 1) * 10)
        assert (await client.row()).state is SessionState.ACTIVE
        await client.send(StopIn())
        await client.expect(StoppedOut)
        assert (await client.ended()).reason is EndReason.STOPPED
        await worker.idle()
        assert worker.conversation.calls[-2:] == ["stop", "cleanup"]
        assert worker.context.counters.turns == 2


async def test_the_first_half_second_is_ignored(open_session: OpenSession) -> None:
    loud = spoken(ITALY, lead_s=0.0)[: INPUT_RATE // 2]
    async with open_session() as (worker, client):
        await prepared(client)
        entries = await turn(client, np.concatenate([loud, silence(1.2), QUESTION]))
        assert types_of(entries) == ONE_TURN
        assert len(worker.conversation.inputs) == 1


@pytest.mark.parametrize(("patience", "pause_s", "utterances"), [(0.5, 0.6, 2), (2.0, 1.0, 1)])
async def test_the_engine_decides_how_long_a_silence_ends_the_utterance(
    open_session: OpenSession,
    monkeypatch: pytest.MonkeyPatch,
    patience: float,
    pause_s: float,
    utterances: int,
) -> None:
    monkeypatch.setattr(ScriptedHalfDuplexView, "longest_patience", 2.0)
    async with open_session() as (worker, client):
        await prepared(client)
        conversation = worker.conversation
        conversation.patience = patience
        if utterances == 2:
            await turn(client, np.concatenate([spoken(ITALY, lead_s=0.6), silence(pause_s)]))
            await turn(client, np.concatenate([spoken(ITALY, lead_s=0.6), silence(pause_s)]))
        else:
            half = spoken(ITALY, lead_s=0.0)
            await turn(
                client,
                np.concatenate([silence(0.6), half, silence(pause_s), half, silence(2.1)]),
            )
            assert len(conversation.inputs[0]) > 2 * len(half)
        assert len(conversation.inputs) == utterances
        assert len(conversation.paused) == 2  # once in each silence


async def test_audio_sent_during_the_answer_is_ignored(
    open_session: OpenSession, broker: Broker
) -> None:
    held = HeldAnswer()
    async with open_session(answer=held) as (worker, client):
        await prepared(client)
        await answering(client)
        sent = 1 + 2 * len(chunks(QUESTION))
        await client.send(*chunks(QUESTION))
        await read_all(broker, client, worker, sent)
        held.release.set()
        _, done = await client.receive_until(TurnDoneOut)
        assert done.input_n == sent
        entries = await turn(client)
        assert types_of(entries) == ONE_TURN
        assert len(worker.conversation.inputs) == 2


async def test_a_break_ends_the_answer_and_the_session_continues(open_session: OpenSession) -> None:
    held = HeldAnswer()
    async with open_session(answer=held) as (_, client):
        await prepared(client)
        await answering(client)
        await client.send(BreakIn())
        done = await client.expect(TurnDoneOut)
        assert (done.text, done.stopped, done.failed) == ("well", True, False)
        held.release.set()
        await client.send(BreakIn())  # there is no answer to stop
        entries = await turn(client)
        assert types_of(entries) == ONE_TURN


async def test_a_stop_during_an_answer_ends_the_session(open_session: OpenSession) -> None:
    async with open_session(answer=HeldAnswer()) as (worker, client):
        await prepared(client)
        await answering(client)
        await client.send(StopIn())
        await client.expect(StoppedOut)
        assert (await client.ended()).reason is EndReason.STOPPED
        await worker.idle()


async def test_a_client_that_sends_nothing_times_out(open_session: OpenSession) -> None:
    async with open_session() as (_, client):
        await client.send(prepare(timeout_s=0.2))
        await client.expect(PreparedOut)
        timeout = await client.expect(TimeoutOut)
        assert timeout.elapsed_s is not None
        assert timeout.elapsed_s >= 0.2
        assert (await client.ended()).reason is EndReason.PAUSE_TIMEOUT


async def test_a_client_may_be_silent_while_it_plays_a_long_answer(
    open_session: OpenSession, broker: Broker
) -> None:
    def long_answer(_: ScriptedConversation) -> Iterator[Delta]:
        yield Delta(text="long", audio=np.zeros(60 * OUTPUT_RATE, dtype=np.float32), n_tokens=1)

    options = {"slots": 1, "contended_silence_timeout_s": 0.2}
    async with open_session(answer=long_answer, **options) as (worker, client):
        await prepared(client)
        await turn(client)
        await join(broker, "other")
        await until(worker.context.contended.is_set, within_s=90)
        await asyncio.sleep(1.5)  # longer than this limit and the interval of its check
        await client.send(StopIn())
        await client.expect(StoppedOut)


async def test_a_failed_answer_is_rolled_back_and_the_session_continues(
    broker: Broker, settings: BrokerSettings
) -> None:
    def fails_once(conversation: ScriptedConversation) -> Iterator[Delta]:
        if conversation.number == 1:
            yield piece("oh")
            raise EngineError("hiccup")
        yield from two_pieces(conversation)

    async with stream_client(broker, KIND) as client:
        async with running_worker(broker, settings, answer=fails_once) as worker:
            await prepared(client)
            entries = await turn(client)
            assert types_of(entries)[3:] == [DeltaOut, ErrorOut, TurnDoneOut]
            error, done = entries[-2:]
            assert isinstance(error, ErrorOut)
            assert (error.fatal, error.message) == (False, "hiccup")
            assert isinstance(done, TurnDoneOut)
            assert (done.turn_index, done.text, done.failed) == (0, "oh", True)
            assert worker.conversation.calls[-1] == "rollback 1"
            done = (await turn(client))[-1]
            assert isinstance(done, TurnDoneOut)
            assert (done.turn_index, done.text) == (1, "answer 2")
        await broker.registry.worker_gone("w1")
        async with running_worker(broker, settings, worker_id="w2") as second:
            await turn(client)
            assert [past.text for past in second.conversation.replayed] == ["answer 2"]


async def test_a_full_context_ends_the_session(open_session: OpenSession) -> None:
    def fails(conversation: ScriptedConversation) -> Iterator[Delta]:
        raise ContextFull("full")
        yield

    async with open_session(answer=fails) as (worker, client):
        await prepared(client)
        await client.send(*chunks(QUESTION))
        _, error = await client.receive_until(ErrorOut)
        assert error.fatal
        assert (await client.ended()).reason is EndReason.CONTEXT_FULL
        await worker.idle()


async def test_another_worker_has_the_turns_and_continues_their_count(
    broker: Broker, settings: BrokerSettings
) -> None:
    async with stream_client(broker, KIND) as client:
        async with running_worker(broker, settings):
            await prepared(client)
            generating = (await turn(client))[2]
        assert (await client.row()).state is SessionState.RECOVERING
        await broker.registry.worker_gone("w1")
        async with running_worker(broker, settings, worker_id="w2") as second:
            entries = await turn(client)
            assert types_of(entries) == ONE_TURN
            done = entries[-1]
            assert isinstance(done, TurnDoneOut)
            assert (done.turn_index, done.text) == (1, "answer 2")
            (past,) = second.conversation.replayed
            assert (past.text, past.memo) == ("answer 1", {"turn": 1})
            assert isinstance(generating, GeneratingOut)
            assert past.audio is not None
            said = np.frombuffer(generating.audio, dtype="<f4")
            assert np.allclose(past.audio, said, atol=2**-15)


async def test_a_session_longer_than_its_streams_is_recovered(
    broker: Broker, settings: BrokerSettings, raw: Redis
) -> None:
    async with stream_client(broker, KIND) as client:
        async with running_worker(broker, settings, worker_id="w1"):
            await prepared(client)
            for _ in range(2):
                await turn(client)
        await broker.registry.worker_gone("w1")
        newest_turn = len(ONE_TURN)
        await raw.xtrim(broker.keys.inbound(SID), maxlen=1, approximate=False)
        await raw.xtrim(broker.keys.outbound(SID), maxlen=newest_turn, approximate=False)
        async with running_worker(broker, settings, worker_id="w2") as second:
            entries = await turn(client)
            done = entries[-1]
            assert isinstance(done, TurnDoneOut)
            assert done.turn_index == 2
            assert [past.text for past in second.conversation.replayed] == ["answer 1", "answer 2"]


async def test_the_next_worker_finishes_the_answer(
    broker: Broker, settings: BrokerSettings
) -> None:
    async with stream_client(broker, KIND) as client:
        async with running_worker(broker, settings, answer=HeldAnswer()):
            await prepared(client)
            generating = await answering(client)
            await client.send(*chunks(silence(0.5)))
        await broker.registry.worker_gone("w1")
        held = HeldAnswer()
        held.release.set()
        async with running_worker(broker, settings, worker_id="w2", answer=held) as w2:
            [rest], done = await client.receive_until(TurnDoneOut)
            assert isinstance(rest, DeltaOut)
            assert rest.text_delta == " 1"
            assert (done.turn_index, done.text) == (0, "well 1")
            assert float_bytes(w2.conversation.inputs[0]) == generating.audio
            assert types_of(await turn(client)) == ONE_TURN


async def test_another_worker_detects_the_rest_of_an_utterance(
    broker: Broker, settings: BrokerSettings
) -> None:
    begun = len(spoken(ITALY, lead_s=0.6)) // 2
    async with stream_client(broker, KIND) as client:
        async with running_worker(broker, settings):
            await prepared(client)
            await client.send(*chunks(QUESTION[:begun]))
            await client.expect(VadOut)
        await broker.registry.worker_gone("w1")
        async with running_worker(broker, settings, worker_id="w2") as second:
            entries = await turn(client, QUESTION[begun:])
            assert types_of(entries) == ONE_TURN[1:]
            input_s = len(second.conversation.inputs[0]) / INPUT_RATE
            assert input_s > (len(QUESTION) / INPUT_RATE) - 2.3
