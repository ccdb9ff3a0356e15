"""A worker's full-duplex sessions over real streams, with a scripted engine."""

import asyncio
import threading
from dataclasses import replace as replace_result
from math import nan

import numpy as np
import pytest
from msgspec.structs import replace
from redis.asyncio import Redis

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.inference_worker.engines.simulated import SimulatedOptions, SimulatedProcessor
from antiphon.inference_worker.engines.types import ContextFull, EngineError
from antiphon.inference_worker.settings import WorkerSettings
from antiphon.shared_schemas.audio import float_bytes
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.entries import (
    ChunkIn,
    ErrorOut,
    PausedOut,
    PauseIn,
    PlaybackIn,
    PreparedOut,
    PrepareIn,
    ResultOut,
    ResumedOut,
    ResumeIn,
    StopIn,
    StoppedOut,
    StreamPosition,
    TextAddedOut,
    TextIn,
    TextKind,
    TimeoutOut,
)
from antiphon.shared_schemas.states import EndReason, SessionKind, SessionState
from antiphon.shared_schemas.unit_result import TokenUsage, UnitResult
from support.control_plane import join
from support.scripted_engine import listens, speaks
from support.stack import until
from support.worker_harness import (
    SID,
    OpenSession,
    StreamClient,
    running_worker,
    stream_client,
    worker_loops,
)

PREPARE = PrepareIn(system_prompt="be brief", config=DuplexConfig())


def chunk(level: float = 0.1, **fields: object) -> ChunkIn:
    audio = float_bytes(np.full(16000, level, dtype=np.float32))
    return ChunkIn(audio=audio, **fields)  # type: ignore[arg-type]


async def prepared(client: StreamClient) -> None:
    await client.send(PREPARE)
    await client.expect(PreparedOut)


async def test_the_first_audio_after_the_user_spoke_is_marked(open_session: OpenSession) -> None:
    spoken = np.zeros(16000, dtype=np.float32)
    spoken[: 16000 * 7 // 10] = np.sin(np.arange(16000 * 7 // 10) / 10) / 5
    said = ChunkIn(audio=float_bytes(spoken))
    async with open_session(lambda unit: listens(unit) if unit < 3 else speaks(unit)) as (
        _,
        client,
    ):
        await prepared(client)
        await client.send(chunk(0), said, chunk(0), chunk(0))
        results = [await client.expect(ResultOut) for _ in range(4)]
    assert [each.first_audio for each in results if each is not results[2]] == [None] * 3
    first = results[2].first_audio
    assert first is not None
    assert (first.kind, first.engine) == (SessionKind.AUDIO_DUPLEX, "scripted")
    assert results[1].received_at - first.asked_at == pytest.approx(300, abs=21)  # of silence


async def is_served(broker: Broker, sid: str) -> bool:
    row = await broker.sessions.get(sid)
    return row is not None and row.state is SessionState.ASSIGNED


async def test_a_conversation_from_prepare_to_stop(
    open_session: OpenSession, broker: Broker
) -> None:
    async with open_session(speaks) as (worker, client):
        await client.send(PREPARE, chunk(0.1), chunk(0.2))
        first = await client.expect(PreparedOut)
        assert first.prompt_length == len(PREPARE.system_prompt)
        results = [await client.expect(ResultOut) for _ in range(2)]
        assert [r.input_n for r in results] == [2, 3]
        assert [r.text for r in results] == ["unit 1", "unit 2"]
        assert [r.current_time for r in results] == [1000, 2000]
        assert results[0].audio == float_bytes(speaks(1).audio)
        assert results[0].received_at <= results[0].read_at <= results[0].at
        assert (await client.row()).state is SessionState.ACTIVE
        assert (await client.row()).config["system_prompt"] == "be brief"
        await client.send(StopIn())
        await client.expect(StoppedOut)
        assert (await client.ended()).reason is EndReason.STOPPED
        await worker.idle()
        assert worker.view.calls[-2:] == ["stop", "cleanup"]
        assert (await broker.queue.snapshot()).workers[0].used == 0


@pytest.mark.parametrize("lost_after", [0, 1, 3])
async def test_a_greeting_survives_its_worker(
    broker: Broker, settings: BrokerSettings, lost_after: int
) -> None:
    """The worker is lost before, in and after the greeting of two units."""
    greeting = "Hello! How can I help?"
    config = DuplexConfig(greeting=greeting, force_listen_count=9)
    options = SimulatedOptions(**dict.fromkeys(["prepare_ms", "prefill_ms", "speak_ms"], 0.0))
    own = WorkerSettings(**{**settings.model_dump(), "slots": 2})
    results: list[ResultOut] = []
    async with stream_client(broker) as client:
        async with worker_loops(SimulatedProcessor(options), broker, own, "w1"):
            await client.send(PrepareIn(system_prompt="", config=config))
            await client.expect(PreparedOut)
            for _ in range(lost_after):
                await client.send(chunk())
                results.append(await client.expect(ResultOut))
        async with worker_loops(SimulatedProcessor(options), broker, own, "w2"):
            while len(results) < 5:
                await client.send(chunk())
                results.append(await client.expect(ResultOut))
            await client.send(StopIn())
            await client.expect(StoppedOut)
    assert "".join(result.text for result in results) == greeting
    assert [result.is_listen for result in results] == [False, False, True, True, True]
    assert [result.end_of_turn for result in results].index(True) == 1


async def test_tokens_are_counted_once(broker: Broker, settings: BrokerSettings) -> None:
    """A new worker reads the conversation again, which is not counted again."""
    async with stream_client(broker) as client:
        async with running_worker(broker, settings, worker_id="w1") as first:
            await client.send(PREPARE, chunk())
            prepared = await client.expect(PreparedOut)
            assert prepared.usage == TokenUsage(input_text=len(PREPARE.system_prompt))
            one = TokenUsage(input_audio=10, output_text=1)
            assert (await client.expect(ResultOut)).usage == one
        async with running_worker(broker, settings, worker_id="w2") as second:
            await client.send(chunk())
            assert (await client.expect(ResultOut)).usage == one
            assert second.view.calls[:2] == ["prepare", "replay"]
            await client.send(StopIn())
            await client.expect(StoppedOut)
        counted = [
            worker.context.metrics.registry.get_sample_value(
                "antiphon_worker_tokens_total", {"kind": kind}
            )
            for worker in (first, second)
            for kind in ("input_text", "input_audio", "output_text")
        ]
        assert counted == [len(PREPARE.system_prompt), 10, 1, 0, 10, 1]


async def test_an_id_is_reused_while_the_worker_still_cleans_up(
    broker: Broker, settings: BrokerSettings
) -> None:
    """A client may reconnect at once with its old id."""
    may_clean_up = threading.Event()
    async with running_worker(broker, settings) as worker:
        async with stream_client(broker) as client:
            await prepared(client)
            first = worker.view
            first.cleanup = may_clean_up.wait  # type: ignore[method-assign, assignment]
            await broker.sessions.end(SID, EndReason.CLIENT_GONE, ticket=client.ticket)
        async with stream_client(broker) as client:
            await prepared(client)
            assert len(worker.pool) == 2
            assert worker.pool.claims()[SID].ticket == client.ticket
            may_clean_up.set()
            await until(lambda: len(worker.pool) != 2)
            assert worker.pool.claims()[SID].ticket == client.ticket  # its lease is still renewed
            await client.send(chunk())
            await client.expect(ResultOut)
            await client.send(StopIn())
            await client.expect(StoppedOut)
            assert (await client.ended()).reason is EndReason.STOPPED
        await worker.idle()
        assert worker.pool.free == 2


async def test_an_id_that_redis_has_lost_is_served_once(
    broker: Broker, settings: BrokerSettings, raw: Redis
) -> None:
    """After a failover that lost the session's row, its client begins again with the same id."""
    async with running_worker(broker, settings) as worker:
        async with stream_client(broker) as client:
            await prepared(client)
            await raw.delete(broker.keys.session(SID))
            await raw.zrem(broker.keys.leases, SID)
        async with stream_client(broker) as client:
            await prepared(client)
            await until(lambda: len(worker.pool) == 1, within_s=90)
            assert worker.pool.claims()[SID].ticket == client.ticket
            await client.send(chunk())
            await client.expect(ResultOut)


async def test_the_result_precedes_finalize_and_finalize_the_next_prefill(
    open_session: OpenSession,
) -> None:
    async with open_session() as (worker, client):
        await prepared(client)
        worker.view.may_finalize.clear()
        await client.send(chunk(), chunk())
        await client.expect(ResultOut)
        assert worker.view.calls == ["prepare", "prefill 1", "generate 1"]
        worker.view.may_finalize.set()
        await client.expect(ResultOut)
        assert worker.view.calls[3:6] == ["finalize 1", "prefill 2", "generate 2"]


async def test_finalize_precedes_the_result_on_request(open_session: OpenSession) -> None:
    async with open_session() as (worker, client):
        await client.send(
            PrepareIn(system_prompt="x", config=DuplexConfig(), deferred_finalize=False)
        )
        await client.receive()
        await client.send(chunk())
        await client.expect(ResultOut)
        assert worker.view.calls[-1] == "finalize 1"


async def test_a_chunk_may_have_its_own_slices(open_session: OpenSession) -> None:
    async with open_session() as (worker, client):
        config = DuplexConfig(max_slice_nums=4)
        await client.send(PrepareIn(system_prompt="x", config=config))
        await client.expect(PreparedOut)
        await client.send(chunk(), chunk(max_slice_nums=9), chunk())
        for _ in range(3):
            await client.expect(ResultOut)
        assert worker.view.slices == [4, 9, 4]


async def test_audio_that_waits_too_long_is_skipped_and_listed(
    open_session: OpenSession, broker: Broker
) -> None:
    busy = threading.Event()

    def slow(unit: int) -> UnitResult:
        busy.wait()
        return listens(unit)

    async with open_session(slow) as (worker, client):
        await prepared(client)
        await client.send(chunk(0.0))
        await until(lambda: "generate 1" in worker.view.calls)
        await client.send(*(chunk(level / 10) for level in range(1, 7)))
        probe = StreamPosition.before(client.ticket)
        async with broker.reader.subscribe(broker.keys.inbound(SID), probe) as same_shard:
            await until(lambda: same_shard.unread >= 8)  # the worker received these entries earlier
        busy.set()
        results = [await client.expect(ResultOut) for _ in range(4)]
        assert [r.input_n for r in results] == [2, 6, 7, 8]
        assert results[1].skipped == (3, 4, 5)
        assert [r.current_time for r in results] == [1000, 5000, 6000, 7000]
        assert [round(float(inputs[0]), 1) for inputs in worker.view.inputs] == [0.0, 0.4, 0.5, 0.6]
        assert worker.context.counters.chunks_skipped == 3


async def test_an_error_lists_the_chunks_skipped_before_it(
    open_session: OpenSession, broker: Broker
) -> None:
    busy = threading.Event()

    def slow_then_broken(unit: int) -> UnitResult:
        busy.wait()
        if unit == 2:
            raise EngineError("hiccup")
        return listens(unit)

    async with open_session(slow_then_broken) as (worker, client):
        await prepared(client)
        await client.send(chunk())
        await until(lambda: "generate 1" in worker.view.calls)
        await client.send(*(chunk() for _ in range(5)))
        probe = StreamPosition.before(client.ticket)
        async with broker.reader.subscribe(broker.keys.inbound(SID), probe) as same_shard:
            await until(lambda: same_shard.unread >= 7)
        busy.set()
        assert (await client.expect(ResultOut)).input_n == 2
        error = await client.expect(ErrorOut)
        assert (error.input_n, error.skipped) == (5, (3, 4))


async def test_pause_and_resume(open_session: OpenSession) -> None:
    async with open_session() as (_, client):
        await prepared(client)
        await client.send(PauseIn(timeout_s=30.0))
        paused = await client.expect(PausedOut)
        assert paused.timeout_s == 30.0
        await client.send(chunk(), ResumeIn(), chunk())
        await client.expect(ResumedOut)
        assert (await client.expect(ResultOut)).input_n == 5
        assert (await client.row()).state is SessionState.ACTIVE


async def test_f27_a_jump_of_redis_clock_does_not_end_a_pause(
    open_session: OpenSession, broker: Broker
) -> None:
    async with open_session() as (_, client):
        await prepared(client)
        await client.send(PauseIn(timeout_s=60))
        await client.expect(PausedOut)
        broker.clock.offset_ms += 3_600_000
        await client.send(PlaybackIn(played_ms=0.0), ResumeIn())
        await client.expect(ResumedOut)


async def test_a_client_that_sends_nothing_without_a_pause_frees_the_worker(
    open_session: OpenSession,
) -> None:
    async with open_session(silence_timeout_s=2.0) as (worker, client):
        await prepared(client)
        await client.send(chunk())
        await client.expect(ResultOut)
        await client.send(PauseIn(timeout_s=2.5), ResumeIn())
        assert [type(await client.receive()) for _ in range(2)] == [PausedOut, ResumedOut]
        timeout = await client.expect(TimeoutOut)
        assert timeout.reason == "nothing was received for 2 s"
        assert (await client.ended()).reason is EndReason.PAUSE_TIMEOUT
        await worker.idle()


async def test_a_client_that_sends_no_audio_loses_its_slot_while_others_wait(
    open_session: OpenSession, broker: Broker
) -> None:
    async with open_session(slots=1, contended_silence_timeout_s=0.5) as (_, client):
        await prepared(client)
        await client.send(chunk())
        await client.expect(ResultOut)
        await client.send(PauseIn(timeout_s=600))
        await client.expect(PausedOut)
        await join(broker, "other")
        timeout = await client.expect(TimeoutOut)
        assert timeout.reason == "no audio for 0.5 s while other sessions wait"
        assert (await client.ended()).reason is EndReason.PAUSE_TIMEOUT
        await until(lambda: is_served(broker, "other"))


async def test_a_silent_client_keeps_its_slot_while_none_waits_for_it(
    open_session: OpenSession, broker: Broker
) -> None:
    async with open_session(slots=1, contended_silence_timeout_s=0.2) as (worker, client):
        await join(broker, "of-a-kind-that-it-does-not-serve", SessionKind.OMNI_DUPLEX)
        await prepared(client)
        await client.send(PauseIn(timeout_s=2.5))
        await client.expect(PausedOut)
        assert (await client.expect(TimeoutOut)).reason == "the pause lasted too long"
        assert (await client.ended()).reason is EndReason.PAUSE_TIMEOUT
        await worker.idle()


async def test_a_client_that_sends_audio_keeps_its_slot_while_others_wait(
    open_session: OpenSession, broker: Broker
) -> None:
    async with open_session(slots=1, contended_silence_timeout_s=30.0) as (worker, client):
        await prepared(client)
        await join(broker, "other")
        await until(worker.context.contended.is_set, within_s=90)
        await client.send(chunk(), StopIn())
        await client.expect(ResultOut)
        await client.expect(StoppedOut)
        await until(lambda: is_served(broker, "other"))


async def test_a_failed_step_is_published_and_the_session_continues(
    open_session: OpenSession,
) -> None:
    def fails_once(unit: int) -> UnitResult:
        if unit == 1:
            raise EngineError("hiccup")
        return speaks(unit)

    async with open_session(fails_once) as (_, client):
        await prepared(client)
        await client.send(chunk(), chunk())
        error = await client.expect(ErrorOut)
        assert (error.input_n, error.fatal, error.message) == (2, False, "hiccup")
        assert (await client.expect(ResultOut)).input_n == 3


async def test_a_figure_of_another_type_is_an_error_of_the_engine(
    open_session: OpenSession,
) -> None:
    async with open_session(lambda unit: replace_result(speaks(unit), cost_llm_ms=nan)) as (
        _,
        client,
    ):
        await prepared(client)
        await client.send(chunk())
        error = await client.expect(ErrorOut)
        assert error.fatal
        assert "cost_llm_ms" in error.message
        assert (await client.ended()).reason is EndReason.ERROR


@pytest.mark.parametrize(
    ("failure", "reason"),
    [(ContextFull("full"), EndReason.CONTEXT_FULL), (RuntimeError("bug"), EndReason.ERROR)],
)
async def test_a_fatal_error_ends_only_its_session(
    open_session: OpenSession, failure: Exception, reason: EndReason
) -> None:
    def fails(_: int) -> UnitResult:
        raise failure

    async with open_session(fails) as (worker, client):
        await prepared(client)
        await client.send(chunk())
        assert (await client.expect(ErrorOut)).fatal
        assert (await client.ended()).reason is reason
        await worker.idle()
        assert worker.view.calls[-1] == "cleanup"


async def test_a_session_that_ends_elsewhere_frees_its_slot(
    open_session: OpenSession, broker: Broker
) -> None:
    async with open_session() as (worker, client):
        await prepared(client)
        await broker.sessions.end(SID, EndReason.CLIENT_GONE, ticket=client.ticket)
        await worker.idle()
        assert worker.view.calls[-2:] == ["stop", "cleanup"]


async def test_a_slot_is_free_only_after_its_running_step(
    open_session: OpenSession, broker: Broker
) -> None:
    """Repeated notices about a lost session have no effect."""
    inside, release = threading.Event(), threading.Event()

    def stuck(unit: int) -> UnitResult:
        inside.set()
        release.wait()
        return listens(unit)

    async with open_session(stuck) as (worker, client):
        await prepared(client)
        await client.send(chunk())
        await asyncio.to_thread(inside.wait)
        claim = worker.pool.claims()[SID]
        await broker.sessions.end(SID, EndReason.CLIENT_GONE, ticket=client.ticket)
        for _ in range(3):
            worker.pool.abort(claim)
            await asyncio.sleep(0.01)
        held = worker.pool.claims(), worker.pool.free, worker.view.calls[-1]
        release.set()
        assert held == ({}, 1, "stop")
        await worker.idle()
        assert worker.view.calls[-4:] == ["generate 1", "stop", "stop", "cleanup"]


async def test_another_worker_continues_with_the_context(
    broker: Broker, settings: BrokerSettings
) -> None:
    """The first worker releases the session; the second has every unit and continues the count."""
    async with stream_client(broker) as client:
        async with running_worker(broker, settings, speaks, "w1"):
            await prepared(client)
            await client.send(chunk(0.1), chunk(0.2))
            for _ in range(2):
                await client.expect(ResultOut)
        assert (await client.row()).state is SessionState.RECOVERING
        await broker.registry.worker_gone("w1")
        await client.send(chunk(0.3))
        async with running_worker(broker, settings, speaks, "w2") as second:
            result = await client.expect(ResultOut)
            assert (result.input_n, result.current_time, result.text) == (4, 3000, "unit 3")
            assert second.view.calls[:2] == ["prepare", "replay"]
            assert [unit.text for unit in second.view.replayed] == ["unit 1", "unit 2"]
            assert [unit.memo for unit in second.view.replayed] == [{"unit": 1}, {"unit": 2}]
            assert second.context.counters.recovered == 1
            row = await client.row()
            assert (row.worker, row.epoch, row.attempt) == ("w2", 2, 1)


async def forget_all_but_the_newest(raw: Redis, *keys: str) -> None:
    """Trim the stream as if it were longer than `stream_max_entries`."""
    for key in keys:
        await raw.xtrim(key, maxlen=1, approximate=False)


async def test_a_session_longer_than_its_streams_is_recovered(
    broker: Broker, settings: BrokerSettings, raw: Redis
) -> None:
    async with stream_client(broker) as client:
        async with running_worker(broker, settings, speaks, "w1"):
            await prepared(client)
            await client.send(chunk(0.1), chunk(0.2), chunk(0.3))
            for _ in range(3):
                await client.expect(ResultOut)
        await broker.registry.worker_gone("w1")
        keys = broker.keys.inbound(SID), broker.keys.outbound(SID)
        await forget_all_but_the_newest(raw, *keys)
        await client.send(chunk(0.4))
        async with running_worker(broker, settings, speaks, "w2") as second:
            result = await client.expect(ResultOut)
            assert (result.input_n, result.current_time) == (5, 4000)
            assert second.view.calls[:2] == ["prepare", "replay"]
            assert [unit.text for unit in second.view.replayed] == ["unit 3"]
            await client.send(StopIn())
            await client.expect(StoppedOut)


async def test_an_unrecoverable_session_is_ended_and_its_slot_freed(
    broker: Broker, settings: BrokerSettings, raw: Redis
) -> None:
    async with stream_client(broker) as client:
        async with running_worker(broker, settings, speaks, "w1"):
            await prepared(client)
            await client.send(chunk(0.1))
            await client.expect(ResultOut)
        await broker.registry.worker_gone("w1")
        await raw.delete(broker.keys.past(SID))
        await forget_all_but_the_newest(raw, broker.keys.outbound(SID))
        async with running_worker(broker, settings, speaks, "w2") as second:
            assert (await client.ended()).reason is EndReason.WORKER_LOST
            await second.idle()
            assert second.view.calls == ["stop", "cleanup"]


async def test_other_input_does_not_extend_the_prepare_timeout(open_session: OpenSession) -> None:
    async with open_session(prepare_timeout_s=0.5) as (_, client):

        async def chatter() -> None:
            while True:
                await client.send(chunk())
                await asyncio.sleep(0.05)

        talking = asyncio.create_task(chatter())
        error = await client.expect(ErrorOut)
        talking.cancel()
        assert error.fatal
        for message in ("`prepare`", "`session.update`", "`session.init`"):
            assert message in error.message
        assert (await client.ended()).reason is EndReason.ERROR


async def test_the_playback_position_reaches_the_engine_and_the_next_worker(
    broker: Broker, settings: BrokerSettings
) -> None:
    async with stream_client(broker) as client:
        async with running_worker(broker, settings, speaks) as first:
            await prepared(client)
            await client.send(chunk(), PlaybackIn(played_ms=50), chunk(), PlaybackIn(played_ms=150))
            await client.expect(ResultOut)
            await client.expect(ResultOut)
            await client.send(PauseIn(timeout_s=9))
            await client.expect(PausedOut)
            calls = first.view.calls
            assert calls.index("finalize 1") < calls.index("played 50") < calls.index("prefill 2")
            assert "played 150" in calls
        await broker.registry.worker_gone("w1")
        async with running_worker(broker, settings, speaks, "w2") as second:
            await client.send(ResumeIn(), PlaybackIn(played_ms=200), chunk())
            await client.expect(ResumedOut)
            await client.expect(ResultOut)
            assert [unit.played_ms for unit in second.view.replayed] == [None, 50]
            calls = second.view.calls
            assert [call for call in calls if "played" in call] == ["played 150", "played 200"]
            assert calls.index("replay") < calls.index("played 150")


async def test_texts_reach_the_engine_and_the_next_worker(
    broker: Broker, settings: BrokerSettings
) -> None:
    """A text that no result contains is read again."""
    prepare = replace(PREPARE, history=[["user", "Hello."], ["assistant", "Hi."]])
    async with stream_client(broker) as client:
        async with running_worker(broker, settings, takes_texts=True) as first:
            await client.send(prepare)
            await client.expect(PreparedOut)
            await client.send(TextIn(kind=TextKind.THINKING, text="one"), chunk())
            assert (await client.expect(TextAddedOut)).text_n == 2
            await client.expect(ResultOut)
            await client.send(TextIn(kind=TextKind.COMMENTARY, text="two"))
            assert (await client.expect(TextAddedOut)).text_n == 4
            calls = first.view.calls
            assert calls[:3] == ["prepare", "history of 2", "thinking: one"]
        await broker.registry.worker_gone("w1")
        async with running_worker(broker, settings, worker_id="w2", takes_texts=True) as second:
            assert (await client.expect(TextAddedOut)).text_n == 4
            assert second.view.calls == ["prepare", "history of 2", "replay", "commentary: two"]


async def test_an_engine_without_texts_gets_the_history_in_its_prompt(
    open_session: OpenSession,
) -> None:
    async with open_session() as (worker, client):
        history = [["instructions", "Be kind."], ["user", "Hello."], ["assistant", "Hi."]]
        await client.send(replace(PREPARE, history=history))
        prompt = "be brief\n\nThe conversation so far:\nBe kind.\nUser: Hello.\nYou: Hi."
        assert (await client.expect(PreparedOut)).prompt_length == len(prompt)
        await client.send(TextIn(kind=TextKind.THINKING, text="one"))
        error = await client.expect(ErrorOut)
        assert (error.input_n, error.fatal) == (2, False)
        assert "takes no texts" in error.message
        assert not [call for call in worker.view.calls if "one" in call]


async def test_the_next_worker_keeps_a_pause_and_its_deadline(
    broker: Broker, settings: BrokerSettings
) -> None:
    async with stream_client(broker) as client:
        async with running_worker(broker, settings, worker_id="w1"):
            await prepared(client)
            await client.send(PauseIn(timeout_s=1.5))
            await client.expect(PausedOut)
        await broker.registry.worker_gone("w1")
        async with running_worker(broker, settings, worker_id="w2"):
            await client.expect(TimeoutOut)
            assert (await client.ended()).reason is EndReason.PAUSE_TIMEOUT


async def test_a_worker_that_lost_its_lease_publishes_nothing(
    broker: Broker, settings: BrokerSettings
) -> None:
    """Another worker gets the lease during a step: the first worker's output is rejected."""
    inside, release = threading.Event(), threading.Event()

    def stuck(unit: int) -> UnitResult:
        inside.set()
        release.wait()
        return speaks(unit)

    one_slot = running_worker(
        broker, settings, stuck, "w1", slots=1
    )  # so that it cannot claim it again
    async with one_slot as first, stream_client(broker) as client:
        await prepared(client)
        await client.send(chunk())
        await asyncio.to_thread(inside.wait)
        assert await broker.leases.give_back(SID, "w1", 1)
        await broker.registry.worker_gone("w1")
        async with running_worker(broker, settings, speaks, "w2"):
            result = await client.expect(ResultOut)
            release.set()
            await first.idle()
            assert result.text == "unit 1"
            assert client.received.empty()
            assert (await client.row()).worker == "w2"
