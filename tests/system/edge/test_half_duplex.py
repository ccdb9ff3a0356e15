"""Half-duplex sessions through a real edge and a real Redis; the test plays the worker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import numpy as np
import pybase64
import pytest

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.audio import float_bytes, samples_from_bytes
from antiphon.shared_schemas.entries import (
    BreakIn,
    ChunkIn,
    DeltaOut,
    ErrorOut,
    GeneratingOut,
    HalfDuplexPrepareIn,
    StopIn,
    StoppedOut,
    TimeoutOut,
    TurnDoneOut,
    VadOut,
)
from antiphon.shared_schemas.states import EndReason, SessionKind, SessionState
from support.edge_harness import (
    SPEECH,
    Client,
    PlayedSession,
    PlayedWorker,
    RunningEdge,
    base64_audio,
    ended,
    played_worker,
    running_edge,
)


@asynccontextmanager
async def _session(
    edge: RunningEdge, worker: PlayedWorker, sid: str = "hdx_1"
) -> AsyncIterator[tuple[Client, PlayedSession]]:
    async with edge.open(f"/ws/half_duplex/{sid}") as client:
        session = await worker.claim()
        await client.expect("queue_done", skip=("queued", "queue_update"))
        await client.send("prepare", system_prompt="Be brief.")
        await session.prepare_half_duplex()
        await client.expect("prepared")
        yield client, session


async def _turn(client: Client, session: PlayedSession, index: int) -> None:
    await session.publish(VadOut(input_n=2, speaking=True))
    assert (await client.expect("vad_state"))["speaking"] is True
    await session.publish(VadOut(input_n=3, speaking=False))
    assert (await client.expect("vad_state"))["speaking"] is False
    await session.publish(GeneratingOut(input_n=3, turn_index=index, speech_duration_ms=900))
    assert (await client.expect("generating"))["speech_duration_ms"] == 900
    await session.publish(DeltaOut(text_delta="Hello", audio=float_bytes(SPEECH)))
    chunk = await client.expect("chunk")
    assert chunk["text_delta"] == "Hello"
    received = np.frombuffer(pybase64.b64decode(chunk["audio_data"]), "<f4")
    assert (received == SPEECH).all()
    await session.publish(TurnDoneOut(input_n=3, turn_index=index, text="Hello"))
    done = await client.expect("turn_done")
    assert (done["turn_index"], done["text"]) == (index, "Hello")


async def test_two_turns_and_a_stop(
    edge: RunningEdge, worker: PlayedWorker, broker: Broker
) -> None:
    async with edge.open("/ws/half_duplex/hdx_talk") as client:
        session = await worker.claim()
        assert session.claim.kind is SessionKind.HALF_DUPLEX
        await client.expect("queue_done")  # a slot was free: no `queued` before it
        await client.send("prepare", config={"session": {"timeout_s": 60}})
        entry = await session.prepare_half_duplex()
        assert entry.config.session.timeout_s == 60
        assert await client.expect("prepared") == {
            "type": "prepared",
            "session_id": "hdx_talk",
            "timeout_s": 60,
            "recording_session_id": session.claim.recording,
            "prompt_length": 42,
        }
        for index in range(2):
            await client.send("audio_chunk", audio_base64=base64_audio(8000, 0.25))
            chunk = await session.expect(ChunkIn)
            assert (samples_from_bytes(chunk.audio, chunk.pcm) == 0.25).all()
            await _turn(client, session, index)
        await client.send("stop")
        await session.expect(StopIn)
        await session.publish(StoppedOut())
        await session.end(EndReason.STOPPED)
        assert await client.expect("stopped") == {"type": "stopped", "session_id": "hdx_talk"}
        assert await client.close_code() == 1000
        assert (await ended(broker, "hdx_talk")).reason is EndReason.STOPPED


async def test_audio_during_the_answer_is_ignored(edge: RunningEdge, worker: PlayedWorker) -> None:
    async with _session(edge, worker) as (client, session):
        await session.publish(GeneratingOut(input_n=1, turn_index=0, speech_duration_ms=500))
        await client.expect("generating")
        for _ in range(3):
            await client.send("audio_chunk", audio_base64=base64_audio(8000))
            await session.expect(ChunkIn)
        await session.publish(TurnDoneOut(input_n=1, turn_index=0, text=""))
        await client.expect("turn_done")


async def test_a_prepare_right_after_connecting_is_held(edge: RunningEdge, broker: Broker) -> None:
    """The demo's page sends it at this time."""
    async with edge.open("/ws/half_duplex/hdx_page") as client:
        await client.send("prepare", system_content=[{"type": "text", "text": "Early."}], config={})
        await client.expect("queued")
        async with played_worker(broker) as worker:
            session = await worker.claim()
            await client.expect("queue_done", skip=("queue_update",))
            entry: HalfDuplexPrepareIn = await session.prepare_half_duplex()
            assert entry.system().text == "Early."
            await client.expect("prepared")


BAD = [
    ({}, "missing_field", "type"),
    ({"type": "pause"}, "unknown_type", "type"),
    ({"type": "prepare"}, "not_ready", "type"),
    ({"type": "audio_chunk"}, "missing_field", "audio_base64"),
    ({"type": "audio_chunk", "audio_base64": "!!"}, "invalid_field", "audio_base64"),
    ({"type": "audio_chunk", "audio_base64": ""}, "invalid_field", "audio_base64"),
]


async def test_bad_input_is_named_and_never_ends_the_session(
    edge: RunningEdge, worker: PlayedWorker
) -> None:
    async with _session(edge, worker) as (client, session):
        for message, code, field in BAD:
            type_ = message.get("type", "")
            rest = {name: value for name, value in message.items() if name != "type"}
            await client.send(type_, **rest) if type_ else await client.socket.send("{}")
            await client.expect_error(code, field)
        await client.send("audio_chunk", audio_base64=base64_audio(100))
        await session.expect(ChunkIn)
        await client.socket.send("{")
        await client.expect_error("invalid_json")
        assert await client.close_code() == 1003


async def test_silence_ends_in_a_timeout(edge: RunningEdge, worker: PlayedWorker) -> None:
    async with _session(edge, worker) as (client, session):
        await session.publish(TimeoutOut(reason="no audio", elapsed_s=180.04))
        await session.end(EndReason.PAUSE_TIMEOUT)
        timeout = {"type": "timeout", "elapsed_s": 180.0, "reason": "no audio"}
        assert await client.expect("timeout") == timeout
        assert await client.close_code() == 1000


async def test_a_failed_turn_and_a_full_context(edge: RunningEdge, worker: PlayedWorker) -> None:
    async with _session(edge, worker) as (client, session):
        await session.publish(ErrorOut(code="inference_error", message="bad turn"))
        await client.expect_error("inference_error")
        await _turn(client, session, 0)
        await session.publish(ErrorOut(code="context_full", message="full", fatal=True))
        await client.expect_error("context_full")
        assert await client.close_code() == 1011


async def test_a_client_that_disconnects_frees_the_worker(
    edge: RunningEdge, worker: PlayedWorker, broker: Broker
) -> None:
    async with _session(edge, worker) as (client, _):
        await client.abort()
        assert (await ended(broker, "hdx_1")).reason is EndReason.CLIENT_GONE


async def test_stop_reaches_a_session_from_any_edge(
    edge: RunningEdge, settings: BrokerSettings, broker: Broker
) -> None:
    async with (
        running_edge(settings) as other,
        played_worker(broker) as worker,
        _session(edge, worker, "hdx_far") as (client, session),
        httpx.AsyncClient() as http,
    ):
        for each in (other, edge):
            await client.send("audio_chunk", audio_base64=base64_audio(100))
            await session.expect(ChunkIn)
            url = f"{each.url}/api/half_duplex/stop"
            answer = await http.post(url, json={"session_id": "hdx_far"})
            assert answer.status_code == 200
            assert answer.json()["success"] is True
            await session.expect(BreakIn)
        await client.send("audio_chunk", audio_base64=base64_audio(100))
        await session.expect(ChunkIn)  # the owning edge continues to write with its ids
        row = await broker.sessions.get("hdx_far")
        assert row is not None
        assert row.state is SessionState.ACTIVE


@pytest.mark.parametrize("sid", ["hdx_nobody", "adx_1"])
async def test_stop_of_another_kind_of_session_is_refused(
    edge: RunningEdge, worker: PlayedWorker, sid: str
) -> None:
    async with edge.client("adx_1"), edge.http() as http:
        await (await worker.claim()).move(SessionState.PREPARING)
        answer = await http.post("/api/half_duplex/stop", json={"session_id": sid})
        assert answer.json()["success"] is False
        assert "session" in answer.json()["message"]
        bad = await http.post("/api/half_duplex/stop", json={"session_id": "../x"})
        assert bad.status_code == 422


async def test_bad_ids_are_refused(edge: RunningEdge) -> None:
    async with edge.open("/ws/half_duplex/a.b") as client:
        await client.expect_error("invalid_session_id", "session_id")
        assert await client.close_code() == 1008
