"""A conversation through a real edge and a real Redis; the test plays the worker."""

import time

import numpy as np
import pybase64

from antiphon.broker.client import Broker
from antiphon.shared_schemas.audio import samples_from_bytes
from antiphon.shared_schemas.entries import (
    DiagnosticIn,
    PausedOut,
    PauseIn,
    PrepareIn,
    ResumedOut,
    ResumeIn,
    StopIn,
    StoppedOut,
)
from antiphon.shared_schemas.states import EndReason, SessionKind, SessionState
from support.edge_harness import (
    SPEECH,
    PlayedWorker,
    RunningEdge,
    base64_audio,
    ended,
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


async def test_the_session_continues_with_another_worker(edge: RunningEdge, broker: Broker) -> None:
    async with played_worker(broker) as first, prepared_session(edge, first) as (client, session):
        first.held.clear()
        assert await broker.leases.give_back("adx_1", first.id, session.claim.epoch)
        async with played_worker(broker, id_="w2") as second:
            successor = await second.claim()
            assert successor.claim.sid == "adx_1"
            await successor.expect(PrepareIn)  # it is not answered again
            await successor.move(SessionState.PREPARING)
            await successor.move(SessionState.ACTIVE)
            await client.send("audio_chunk", audio=base64_audio())
            await successor.answer(text="I am back.")
            # The client gets its place if the change of workers takes long enough.
            assert (await client.expect("result", skip=("queue_update",)))["text"] == "I am back."
