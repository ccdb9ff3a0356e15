"""What the edge alone decides in OpenAI's APIs: ends of sessions, addresses, and calls that it cannot make."""

import asyncio
import base64
import time

import httpx
import pytest

from antiphon.broker.client import Broker
from antiphon.edge.routes import openai_calls
from antiphon.shared_schemas.entries import ChunkIn, ClearIn, CommitIn, SettingsIn
from antiphon.shared_schemas.states import EndReason
from support.edge_harness import WITHIN_S, PlayedWorker, RunningEdge, ended

_TENTH_S = base64.b64encode(bytes(4800)).decode()


@pytest.mark.edge(openai_realtime_s=0.3)
async def test_a_realtime_session_ends_after_its_longest_duration(
    edge: RunningEdge, broker: Broker
) -> None:
    """Also while it waits for a worker."""
    async with edge.open("/v1/realtime?model=any") as client:
        session = (await client.expect("session.created"))["session"]
        assert session["expires_at"] == pytest.approx(time.time(), abs=45)
        error = (await client.expect("error"))["error"]
        assert (error["code"], error["type"]) == ("session_expired", "invalid_request_error")
        assert "0.005 minutes" in error["message"]
        assert await client.close_code() == 1000
    assert (await ended(broker, session["id"])).reason is EndReason.PAUSE_TIMEOUT


async def test_push_to_talk_in_the_queue_reaches_the_worker(
    edge: RunningEdge, worker: PlayedWorker
) -> None:
    """More pieces of sound than an edge keeps for other protocols."""
    turns = 40
    async with edge.open("/v1/realtime?model=any") as client:
        await client.expect("session.created")
        audio = {"input": {"turn_detection": None}}
        await client.send("session.update", session={"type": "realtime", "audio": audio})
        await client.expect("session.updated")
        for _ in range(turns):
            await client.send("input_audio_buffer.append", audio=_TENTH_S)
            await client.send("input_audio_buffer.commit")
        await client.send("input_audio_buffer.clear")
        await client.expect("input_audio_buffer.cleared")
        serving = await worker.claim()
        received = [type((await serving.read())[1]) for _ in range(2 * turns + 2)]
    assert received == [SettingsIn, *[ChunkIn, CommitIn] * turns, ClearIn]


async def test_a_slash_at_the_end_of_an_address(edge: RunningEdge) -> None:
    """Some clients join a base URL and a path with one more."""
    for path in ("/v1/realtime/", "/openai/v1/realtime/"):
        async with edge.open(f"{path}?model=any") as client:
            await client.expect("session.created")
    async with edge.open("/v1/live/sessions/") as client:
        await client.send("session.start", session={"model": 5})
        assert (await client.message())["error"]["param"] == "session.model"
    async with edge.open("/v1/realtime/?mode=audio") as client:
        await client.send("nothing.known")
        assert isinstance((await client.message())["type"], str)


@pytest.mark.edge(drain_s=0.3)
async def test_a_live_session_is_told_that_its_edge_drains(
    edge: RunningEdge, worker: PlayedWorker, broker: Broker
) -> None:
    async with edge.open("/v1/live/sessions") as client:
        await client.send("session.start", session={"model": "any"})
        await (await worker.claim()).prepare()
        await client.expect("session.started")
        async with edge.open("/v1/live/sessions") as waiting, asyncio.timeout(WITHIN_S):
            while not (await broker.queue.snapshot()).waiting:
                await asyncio.sleep(0.01)
            draining = asyncio.create_task(edge.edge.drain())
            info = await client.expect("info")
            assert (info["code"], "0.3 s" in info["message"]) == ("server_draining", True)
            for each in (client, waiting):  # one that has not begun is told nothing before
                assert (await each.message())["error"]["code"] == "server_shutdown"
            assert (await client.expect("session.closed"))["reason"] == "connection_lost"
            for each in (client, waiting):
                assert await each.close_code() == 1012
            await draining


async def test_webrtc_names_the_extra(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_calls, "HAS_WEBRTC", False)
    offer = {"content": "v=0", "headers": {"Content-Type": "application/sdp"}}
    answer = await http.post("/v1/realtime/calls", **offer)
    assert answer.status_code == 404  # a 5xx would be sent again by OpenAI's SDKs
    assert "extra `webrtc`" in answer.json()["error"]["message"]
