"""Half-duplex sessions through a real edge and a real Redis; the test plays the worker."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import numpy as np
import pybase64

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.audio import float_bytes, samples_from_bytes
from antiphon.shared_schemas.entries import (
    BreakIn,
    ChunkIn,
    DeltaOut,
    GeneratingOut,
    StopIn,
    StoppedOut,
    TurnDoneOut,
    VadOut,
)
from antiphon.shared_schemas.states import EndReason, SessionKind, SessionState
from support.edge_harness import (
    SPEECH,
    PlayedSession,
    PlayedWorker,
    RunningEdge,
    base64_audio,
    ended,
    played_worker,
    running_edge,
)
from support.raw_client import Wire


@asynccontextmanager
async def _session(
    edge: RunningEdge, worker: PlayedWorker, sid: str = "hdx_1"
) -> AsyncIterator[tuple[Wire, PlayedSession]]:
    async with edge.open(f"/ws/half_duplex/{sid}") as client:
        session = await worker.claim()
        await client.expect("queue_done", skip=("queued", "queue_update"))
        await client.send("prepare", system_prompt="Be brief.")
        await session.prepare_half_duplex()
        await client.expect("prepared")
        yield client, session


async def _turn(client: Wire, session: PlayedSession, index: int) -> None:
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


async def test_stop_of_another_kind_of_session_is_refused(
    edge: RunningEdge, worker: PlayedWorker
) -> None:
    async with edge.client("adx_1"), edge.http() as http:
        await (await worker.claim()).move(SessionState.PREPARING)
        for sid in ("hdx_nobody", "adx_1"):
            answer = await http.post("/api/half_duplex/stop", json={"session_id": sid})
            assert answer.json()["success"] is False, sid
            assert "session" in answer.json()["message"]
        bad = await http.post("/api/half_duplex/stop", json={"session_id": "../x"})
        assert bad.status_code == 422
