"""The greeting of a half-duplex session, over real streams with a scripted engine."""

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace
from redis.asyncio import Redis

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.inference_worker.engines.types import Delta, EngineError
from antiphon.shared_schemas.config import HalfDuplexConfig
from antiphon.shared_schemas.entries import (
    BreakIn,
    ChunkIn,
    DeltaOut,
    ErrorOut,
    GeneratingOut,
    HalfDuplexPrepareIn,
    OutEntry,
    PreparedOut,
    StopIn,
    StoppedOut,
    TurnDoneOut,
    VadOut,
)
from antiphon.shared_schemas.states import SessionKind
from support.scripted_engine import HeldAnswer, ScriptedConversation, piece
from support.synthetic_speech import ITALY, silence, spoken, units_of
from support.worker_harness import (
    SID,
    OpenSession,
    StreamClient,
    running_worker,
    stream_client,
)

KIND = SessionKind.HALF_DUPLEX
PREPARE = HalfDuplexPrepareIn(
    content=[{"role": "system", "parts": [{"type": "text", "text": "be brief"}]}],
    config=HalfDuplexConfig(greeting="Hello!"),
)
PROMPT_QUESTION = [
    ChunkIn(audio=unit.tobytes())
    for unit in units_of(np.concatenate([spoken(ITALY, lead_s=0.1), silence(1.3)]), 8000)
]
"""A question that begins within the half second that is ignored without a greeting."""

GREETING = [PreparedOut, GeneratingOut, DeltaOut, DeltaOut, TurnDoneOut]
TURN = [VadOut, VadOut, GeneratingOut, DeltaOut, DeltaOut, TurnDoneOut]


def types_of(entries: list[OutEntry]) -> list[type]:
    return [type(entry) for entry in entries]


async def greeted(client: StreamClient) -> list[OutEntry]:
    """Every entry up to the end of the greeting."""
    await client.send(PREPARE)
    before, done = await client.receive_until(TurnDoneOut)
    return [*before, done]


async def test_the_greeting_is_the_first_turn(open_session: OpenSession) -> None:
    async with open_session(greets=True) as (worker, client):
        entries = await greeted(client)
        assert types_of(entries) == GREETING
        _, generating, *_, done = entries
        assert isinstance(generating, GeneratingOut)
        assert (generating.turn_index, generating.speech_duration_ms) == (0, 0)
        assert generating.audio == b""
        assert isinstance(done, TurnDoneOut)
        assert (done.turn_index, done.text, done.failed) == (0, "answer 0", False)
        await client.send(*PROMPT_QUESTION)
        before, done = await client.receive_until(TurnDoneOut)
        assert types_of([*before, done]) == TURN
        assert (done.turn_index, done.text) == (1, "answer 1")
        assert worker.conversation.calls == ["prepare", "greet", "prefill 1", "generate 1"]
        assert worker.context.counters.turns == 2


async def test_without_words_there_is_no_greeting(open_session: OpenSession) -> None:
    async with open_session(greets=True) as (worker, client):
        await client.send(replace(PREPARE, config=HalfDuplexConfig(greeting="  ")))
        await client.expect(PreparedOut)
        await client.send(StopIn())
        await client.expect(StoppedOut)
        await worker.idle()
        assert "greet" not in worker.conversation.calls


async def test_an_engine_that_does_not_greet_refuses_a_greeting(open_session: OpenSession) -> None:
    async with open_session() as (_, client):
        await client.send(PREPARE)
        error = await client.expect(ErrorOut)
        assert (error.field, error.fatal) == ("config.greeting", False)
        await client.send(replace(PREPARE, config=HalfDuplexConfig()))
        await client.expect(PreparedOut)


async def test_a_break_ends_the_greeting_and_audio_during_it_is_ignored(
    open_session: OpenSession,
) -> None:
    async with open_session(answer=HeldAnswer(), greets=True) as (worker, client):
        await client.send(PREPARE)
        await client.receive_until(DeltaOut)
        await client.send(*PROMPT_QUESTION, BreakIn())
        done = await client.expect(TurnDoneOut)
        assert (done.text, done.stopped) == ("well", True)
        assert done.input_n == 2 + len(PROMPT_QUESTION)
        assert worker.conversation.inputs == []


async def test_a_greeting_that_fails_is_rolled_back(open_session: OpenSession) -> None:
    def fails_once(conversation: ScriptedConversation) -> Iterator[Delta]:
        if conversation.number == 0:
            raise EngineError("no voice")
        yield piece("fine")

    async with open_session(answer=fails_once, greets=True) as (worker, client):
        await client.send(PREPARE)
        before, done = await client.receive_until(TurnDoneOut)
        assert types_of(before) == [PreparedOut, GeneratingOut, ErrorOut]
        assert (done.turn_index, done.failed) == (0, True)
        assert worker.conversation.calls[-1] == "rollback 0"
        await client.send(*PROMPT_QUESTION)
        _, done = await client.receive_until(TurnDoneOut)
        assert (done.turn_index, done.text) == (1, "fine")


async def test_the_next_worker_finishes_the_greeting(
    broker: Broker, settings: BrokerSettings
) -> None:
    held = HeldAnswer()
    async with stream_client(broker, KIND) as client:
        async with running_worker(broker, settings, answer=held, greets=True):
            await client.send(PREPARE)
            await client.receive_until(DeltaOut)
        await broker.registry.worker_gone("w1")
        held.release.set()
        async with running_worker(
            broker, settings, worker_id="w2", answer=held, greets=True
        ) as second:
            rest = await client.expect(DeltaOut)
            done = await client.expect(TurnDoneOut)
            assert (rest.text_delta, done.turn_index, done.text) == (" 0", 0, "well 0")
            assert second.conversation.calls == ["prepare", "replay", "greet"]
            assert second.conversation.said == "well"


async def test_the_next_worker_does_not_repeat_the_greeting(
    broker: Broker, settings: BrokerSettings
) -> None:
    async with stream_client(broker, KIND) as client:
        async with running_worker(broker, settings, greets=True):
            await greeted(client)
        await broker.registry.worker_gone("w1")
        async with running_worker(broker, settings, worker_id="w2", greets=True) as second:
            await client.send(*PROMPT_QUESTION)
            before, done = await client.receive_until(TurnDoneOut)
            assert types_of([*before, done]) == TURN
            assert done.turn_index == 1
            assert "greet" not in second.conversation.calls
            [greeting] = second.conversation.replayed
            assert (greeting.audio, greeting.text) == (None, "answer 0")


async def test_a_greeting_that_had_not_begun_is_spoken_by_the_next_worker(
    broker: Broker, settings: BrokerSettings, raw: Redis
) -> None:
    async with stream_client(broker, KIND) as client:
        async with running_worker(broker, settings, answer=HeldAnswer(), greets=True):
            await client.send(PREPARE)
            await client.receive_until(DeltaOut)
        await broker.registry.worker_gone("w1")
        stream = broker.keys.outbound(SID)
        for place, _ in (await raw.xrange(stream))[1:]:  # as if it was lost before `generating`
            await raw.xdel(stream, place)
        async with running_worker(broker, settings, worker_id="w2", greets=True) as second:
            before, done = await client.receive_until(TurnDoneOut)
            assert types_of([*before, done]) == GREETING[1:]
            assert (done.turn_index, done.text) == (0, "answer 0")
            assert second.conversation.calls == ["prepare", "replay", "greet"]
