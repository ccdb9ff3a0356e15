"""Options in a client's URL: capabilities, notices, and a schema that includes them."""

import httpx
import pytest
from jsonschema import Draft202012Validator
from msgspec.structs import replace

from antiphon.broker.client import Broker
from support.edge_harness import (
    PlayedWorker,
    RunningEdge,
    base64_audio,
    played_worker,
    result,
)
from support.resuming_client import Resumer

EVERYTHING = "resume=1&capabilities=1&notices=1&playback_ack=1"


PATHS = {
    "/ws/duplex/adx_1": "queue_done",
    "/ws/half_duplex/hdx_1": "queue_done",
    "/v1/realtime?mode=audio": "session.queue_done",
}


def _with(path: str, *asked: str) -> str:
    return f"{path}{'&' if '?' in path else '?'}{'&'.join(f'{a}=1' for a in asked)}"


async def test_capabilities_are_in_the_first_message_only(
    edge: RunningEdge, broker: Broker
) -> None:
    async with played_worker(broker, slots=len(PATHS)) as worker:
        for path, first in PATHS.items():
            async with edge.open(_with(path, "capabilities")) as client:
                await worker.claim()
                sent = (await client.expect(first))["capabilities"]
                assert sent["protocol_version"] == 1
                assert {"binary", "notices", "playback_ack", "resume"} <= set(sent["features"])
                assert (sent["input_sample_rate"], sent["output_sample_rate"]) == (16_000, 24_000)
                assert sent["limits"]["resume_grace_s"] == edge.edge.settings.resume_grace_s
                await client.send("nonsense")
                assert "capabilities" not in await client.expect("error")


async def test_a_chat_has_capabilities_in_its_first_message(edge: RunningEdge) -> None:
    async with edge.open(_with("/ws/chat", "capabilities")) as client:
        await client.socket.send('{"messages": [{"role": "user", "content": "Hi."}]}')
        assert (await client.expect("queued"))["capabilities"]["features"]


async def test_a_resuming_client_is_answered_at_once(
    edge: RunningEdge, worker: PlayedWorker
) -> None:
    client = Resumer("/ws/duplex/adx_1?capabilities=1")
    async with client.connected(edge.ws):
        await worker.claim()
        assert "capabilities" in await client.expect("queue_done")
    async with client.back(edge.ws) as resumed:
        assert resumed["capabilities"]["features"]


@pytest.mark.parametrize("asked", [True, False])
async def test_a_context_that_is_nearly_full(
    edge: RunningEdge, worker: PlayedWorker, asked: bool
) -> None:
    path = "/ws/duplex/adx_1"
    async with edge.open(_with(path, "notices") if asked else path) as client:
        session = await worker.claim()
        await client.expect("queue_done")
        await client.send("prepare")
        await session.prepare()
        await client.expect("prepared")
        await session.publish(replace(result(2), context_left_s=29.9))
        await client.expect("result")
        if asked:
            notice = {"type": "notice", "limit": "context", "seconds_left": 29.9}
            assert await client.message() == notice
        await session.publish(result(3))
        await client.expect("result")


@pytest.mark.edge(realtime_audio_s=30.5, realtime_video_s=0.5)
async def test_a_session_that_is_nearly_over(edge: RunningEdge, worker: PlayedWorker) -> None:
    """Clients that asked for it get one notice before the end; others get none."""
    path = "/v1/realtime?mode=audio"
    async with edge.open(_with(path, "notices")) as asked, edge.open(path) as other:
        kind = "session.queue_done"
        queue = (kind, "session.queued", "session.queue_update")
        sent = await asked.expect("session.notice", skip=queue)
        assert sent == {"type": "session.notice", "limit": "duration", "seconds_left": 30.0}
        await other.send("nonsense")
        await other.expect("error", skip=queue)
    async with edge.open(_with("/v1/realtime?mode=video", "notices")) as short:
        sent = await short.expect("session.notice", skip=queue)
        assert sent["seconds_left"] == 0.5
        closed = await short.expect("session.closed", skip=queue)
        assert closed["reason"] == "timeout"


async def test_realtime_events_match_the_schema_for_their_options(
    edge: RunningEdge, worker: PlayedWorker
) -> None:
    async with httpx.AsyncClient(base_url=edge.url, trust_env=False) as http:
        schema = (await http.get("/v1/realtime/schema.json")).json()
    events = Draft202012Validator({**schema, "$ref": "#/$defs/server_event"})
    client = Resumer(f"/v1/realtime?mode=audio&{EVERYTHING.removeprefix('resume=1&')}")
    async with client.connected(edge.ws):
        session = await worker.claim()
        await client.expect("session.queue_done")
        await client.send("nonsense")
        await client.expect("error")
        await client.send("session.update", session={"instructions": "Be brief."})
        await session.prepare()
        await client.expect("session.created")
        await client.send("input_audio_buffer.append", audio=base64_audio(4000))
        await session.answer()
        await client.expect("response.output_audio.delta")
        await client.send("output_audio_buffer.playback_ack", played_ms=100)
    async with client.back(edge.ws) as resumed:
        events.validate(resumed)
        await client.send("session.close")
        await client.abort()
    for message in client.received.values():
        events.validate(message)
