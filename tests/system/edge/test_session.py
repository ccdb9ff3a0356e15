"""A conversation through a real edge and a real Redis; the test plays the worker."""

from __future__ import annotations

import json
import time

import numpy as np
import pybase64

from antiphon.broker.client import Broker
from antiphon.shared_schemas.audio import samples_from_bytes
from antiphon.shared_schemas.entries import (
    ChunkIn,
    DiagnosticIn,
    ErrorOut,
    PausedOut,
    PauseIn,
    PrepareIn,
    ResumedOut,
    ResumeIn,
    StopIn,
    StoppedOut,
    TimeoutOut,
)
from antiphon.shared_schemas.states import EndReason, SessionKind, SessionState
from support.edge_harness import (
    SPEECH,
    PlayedWorker,
    RunningEdge,
    base64_audio,
    ended,
    picture,
    played_worker,
    prepared_session,
)

RESULT_FIELDS = {
    "type",
    "is_listen",
    "text",
    "audio_data",
    "end_of_turn",
    "current_time",
    "cost_llm_ms",
    "cost_tts_prep_ms",
    "cost_tts_ms",
    "cost_token2wav_ms",
    "cost_all_ms",
    "n_tokens",
    "n_tts_tokens",
    "server_send_ts",
    "wall_clock_ms",
    "kv_cache_length",
    "vision_slices",
    "vision_tokens",
}


async def test_a_whole_conversation(
    edge: RunningEdge, worker: PlayedWorker, broker: Broker
) -> None:
    async with edge.client("adx_talk") as client:
        session = await worker.claim()
        assert session.claim.kind is SessionKind.AUDIO_DUPLEX
        await client.expect("queue_done")  # a slot was free: no `queued` before it
        await client.send(
            "prepare",
            prefix_system_prompt="Be brief.",
            config={"temperature": 0.5, "length_penalty": 1.05, "force_listen_count": 1},
            max_slice_nums=2,
        )
        prepare = await session.prepare()
        assert prepare.system_prompt == "Be brief."
        assert (prepare.config.temperature, prepare.config.max_slice_nums) == (0.5, 2)
        prepared = await client.expect("prepared")
        assert prepared["prompt_length"] == 42
        assert prepared["recording_session_id"] == session.claim.recording

        await client.send("audio_chunk", audio=base64_audio(value=0.25), force_listen=True)
        chunk = await session.answer(speak=False)
        assert (samples_from_bytes(chunk.audio, chunk.pcm) == 0.25).all()
        assert chunk.force_listen
        listening = await client.expect("result")
        assert set(listening) == RESULT_FIELDS
        assert listening["is_listen"]
        assert listening["audio_data"] == ""

        before = time.time()
        await client.send("audio_chunk", audio_base64=base64_audio())
        await session.answer(text="Hello.")
        speaking = await client.expect("result")
        assert speaking["text"] == "Hello."
        received = np.frombuffer(pybase64.b64decode(speaking["audio_data"]), dtype="<f4")
        assert (received == SPEECH).all()
        assert before - 1 < speaking["server_send_ts"] < time.time() + 1

        await client.send("client_diagnostic", event="gap", metrics={"ahead_ms": 12})
        diagnostic = await session.expect(DiagnosticIn)
        assert diagnostic.metrics == {"event": "gap", "metrics": {"ahead_ms": 12}}

        await client.send("pause", timeout=3)
        assert (await session.expect(PauseIn)).timeout_s == 3
        await session.publish(PausedOut(input_n=4, timeout_s=3))
        assert (await client.expect("paused"))["timeout"] == 3
        await client.send("resume")
        await session.expect(ResumeIn)
        await session.publish(ResumedOut(input_n=5))
        await client.expect("resumed")

        await client.send("stop")
        await session.expect(StopIn)
        await session.publish(StoppedOut())
        await session.end(EndReason.STOPPED)
        assert (await client.expect("stopped"))["session_id"] == "adx_talk"
        assert await client.close_code() == 1000
        assert (await ended(broker, "adx_talk")).reason is EndReason.STOPPED


async def test_a_prepare_sent_before_queue_done_is_held(edge: RunningEdge, broker: Broker) -> None:
    async with edge.client("omni_early") as client:
        await client.expect("queued")
        await client.send("client_diagnostic", metrics={"early": 1})
        await client.send("prepare", system_prompt="Early.")
        await client.send("prepare", system_prompt="Twice.")
        await client.expect_error("not_ready", "type")
        async with played_worker(broker) as worker:
            session = await worker.claim()
            assert session.claim.kind is SessionKind.OMNI_DUPLEX
            await client.expect("queue_done", skip=("queue_update",))
            await session.expect(DiagnosticIn)
            assert (await session.prepare()).system_prompt == "Early."
            await client.expect("prepared")


async def test_frames_are_sent_with_the_next_chunk(edge: RunningEdge, worker: PlayedWorker) -> None:
    jpeg = picture()
    frame = pybase64.b64encode_as_string(jpeg)
    async with prepared_session(edge, worker, "omni_1") as (client, session):
        await client.send("video_frame", frame=frame)
        await client.send("audio_chunk", audio=base64_audio(), frame_base64_list=[frame])
        chunk = await session.expect(ChunkIn)
        assert chunk.frames == (jpeg, jpeg)


async def test_references_are_decoded(edge: RunningEdge, worker: PlayedWorker) -> None:
    async with edge.client("adx_ref") as client:
        session = await worker.claim()
        await client.expect("queue_done")
        await client.send(
            "prepare",
            ref_audio_base64=base64_audio(100, 0.5),
            tts_ref_audio_base64=base64_audio(50, 0.25),
        )
        prepare: PrepareIn = await session.prepare()
        assert np.frombuffer(prepare.ref_audio, "<f4").tolist() == [0.5] * 100
        assert np.frombuffer(prepare.tts_ref_audio, "<f4").tolist() == [0.25] * 50


async def test_timing_is_sent_on_request(edge: RunningEdge, worker: PlayedWorker) -> None:
    async with prepared_session(edge, worker, query="?timing=1") as (client, session):
        await client.send("audio_chunk", audio=base64_audio())
        await session.answer()
        timing = (await client.expect("result"))["timing"]
        assert timing["edge_to_worker_ms"] == 1.0
        assert timing["engine_ms"] == 2.0
        assert (
            timing["worker_to_edge_ms"] > -50
        )  # the two clocks differ by a fraction of a round trip


async def test_a_pause_that_lasts_too_long(edge: RunningEdge, worker: PlayedWorker) -> None:
    async with prepared_session(edge, worker) as (client, session):
        await client.send("pause")
        assert (await session.expect(PauseIn)).timeout_s == 60
        await session.publish(TimeoutOut(reason="the pause lasted too long"))
        await session.end(EndReason.PAUSE_TIMEOUT)
        assert (await client.expect("timeout"))["reason"] == "the pause lasted too long"
        assert await client.close_code() == 1000


async def test_errors_of_the_worker(
    edge: RunningEdge, worker: PlayedWorker, broker: Broker
) -> None:
    async with prepared_session(edge, worker) as (client, session):
        await session.publish(ErrorOut(code="inference_error", message="bad unit"))
        await client.expect_error("inference_error")
        await client.send("audio_chunk", audio=base64_audio())
        await session.answer()
        await client.expect("result")
        await session.publish(ErrorOut(code="context_full", message="full", fatal=True))
        await client.expect_error("context_full")
        assert await client.close_code() == 1011
        assert (await ended(broker, "adx_1")).reason is EndReason.CONTEXT_FULL


async def test_a_failed_prepare_may_be_repeated(edge: RunningEdge, worker: PlayedWorker) -> None:
    async with edge.client("adx_again") as client:
        session = await worker.claim()
        await client.expect("queue_done")
        await client.send("prepare")
        await session.expect(PrepareIn)
        await session.publish(ErrorOut(input_n=1, code="inference_error", message="no voice"))
        await client.expect_error("inference_error")
        await client.send("prepare")
        await session.prepare()
        await client.expect("prepared")


async def test_the_session_continues_with_another_worker(edge: RunningEdge, broker: Broker) -> None:
    async with played_worker(broker) as first, prepared_session(edge, first) as (client, session):
        first.held.clear()
        assert await broker.leases.give_back("adx_1", first.id, session.claim.epoch)
        async with played_worker(broker, id_="w2") as second:
            successor = await second.claim()
            assert successor.claim.sid == "adx_1"
            await successor.prepare()  # the client already has `prepared` and gets no second one
            await client.send("audio_chunk", audio=base64_audio())
            await successor.answer(text="I am back.")
            # The client gets its place if the change of workers takes long enough.
            assert (await client.expect("result", skip=("queue_update",)))["text"] == "I am back."


async def test_every_message_is_one_json_object(edge: RunningEdge, worker: PlayedWorker) -> None:
    async with prepared_session(edge, worker) as (client, session):
        await client.send("audio_chunk", audio=base64_audio())
        await session.answer()
        text = await client.socket.recv(decode=True)
        assert isinstance(json.loads(text), dict)
        assert (await session.row()).state is SessionState.ACTIVE
