"""Version 2 of `/v1/realtime` through a real edge and a real Redis; events are checked by the schema."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pybase64
import pytest

from antiphon.broker.client import Broker
from antiphon.shared_schemas.entries import (
    ChatDoneOut,
    ChatIn,
    DeltaOut,
    StopIn,
    StoppedOut,
)
from antiphon.shared_schemas.states import EndReason, SessionKind
from support.edge_harness import (
    SPEECH,
    PlayedSession,
    PlayedWorker,
    RunningEdge,
    base64_audio,
    ended,
    picture,
)
from support.raw_client import Wire
from support.realtime_schema import SERVER_V2
from support.resuming_client import Resumer
from support.stack import until

FRAME = pybase64.b64encode_as_string(picture())
WAITING = ("session.queued", "session.queue_update")


class V2Client(Wire):
    async def message(self) -> dict[str, Any]:
        message = await super().message()
        SERVER_V2.validate(message)
        return message

    async def append(self, samples: int = 16_000, **fields: Any) -> None:
        await self.send("input.append", input={"audio": base64_audio(samples), **fields})

    async def expect_end(self, reason: str, code: int) -> str | None:
        """Returns the diagnostic."""
        closed = await self.expect("session.closed", skip=WAITING)
        assert closed["reason"] == reason
        assert await self.close_code() == code
        diagnostic: str | None = closed.get("diagnostic", {}).get("message")
        return diagnostic


@asynccontextmanager
async def _active(
    edge: RunningEdge, worker: PlayedWorker, mode: str = "audio"
) -> AsyncIterator[tuple[V2Client, PlayedSession]]:
    async with edge.open(f"/v1/realtime?mode={mode}") as opened:
        client = V2Client(opened.socket)
        session = await worker.claim()
        await client.expect("session.queue_done", skip=WAITING)
        await client.send("session.init", payload={"system_prompt": "Be brief."})
        await session.prepare()
        await client.expect("session.created")
        yield client, session


async def test_a_whole_conversation(
    edge: RunningEdge, worker: PlayedWorker, broker: Broker
) -> None:
    async with _active(edge, worker, "video") as (client, session):
        assert session.claim.kind is SessionKind.OMNI_DUPLEX
        await client.append(video_frames=[FRAME], hints={"force_listen": True})
        chunk = await session.answer(speak=False)
        assert (chunk.force_listen, len(chunk.frames)) == (True, 1)
        assert (await client.expect("response.output.delta"))["kind"] == "listen"
        await client.append(100)
        await session.answer(text="Hello.")
        text, audio = [await client.expect("response.output.delta") for _ in range(2)]
        assert (text["kind"], text["text"]) == ("text", "Hello.")
        assert (np.frombuffer(pybase64.b64decode(audio["audio"]), "<f4") == SPEECH).all()
        assert text["response_id"] == audio["response_id"]
        await client.send("session.close", reason="user_stop")
        await session.expect(StopIn)
        await client.append()  # in flight: ignored
        await session.publish(StoppedOut())
        await session.end(EndReason.STOPPED)
        assert await client.expect_end("client_closed", 1000) is None
        assert (await ended(broker, session.claim.sid)).reason is EndReason.STOPPED


async def test_an_invalid_event_ends_the_session(
    edge: RunningEdge, worker: PlayedWorker, broker: Broker
) -> None:
    async with _active(edge, worker) as (client, session):
        await client.send("input.append", input={"audio": "!!"})
        error = (await client.expect("error"))["error"]
        assert error["code"] == "invalid_payload"
        assert await client.expect_end("error", 1008) == error["message"]
        assert (await ended(broker, session.claim.sid)).reason is EndReason.ERROR


async def test_a_session_that_asked_for_it_resumes(edge: RunningEdge, worker: PlayedWorker) -> None:
    client = Resumer("/v1/realtime?mode=audio")
    append = {"input": {"audio": base64_audio(4000)}}
    async with client.connected(edge.ws):
        session = await worker.claim()
        await client.expect("session.queue_done")
        await client.send("session.init", payload={"system_prompt": "Be brief."})
        await session.prepare()
        await client.expect("session.created")
        await client.send("input.append", **append)
        await session.answer(text="One.")
        first = await client.expect("response.output.delta")
        await client.expect("response.output.delta")
        await client.abort()
    async with client.back(edge.ws, seq=first["seq"]):
        await client.expect("response.output.delta")
        await client.send("input.append", **append)
        await session.answer(text="Two.")
        second = await client.expect("response.output.delta")
        assert second["response_id"] == first["response_id"]


ASK = {"input": {"messages": [{"role": "user", "content": "Hello."}]}}


async def _begin_answer(client: Resumer, worker: PlayedWorker) -> PlayedSession:
    """The numbers of each request begin at 1."""
    client.received, client.last = {}, 0
    await client.send("input.append", **ASK)
    session = await worker.claim()
    await client.expect("session.queue_done", skip=WAITING)
    await session.expect(ChatIn)
    await session.publish(DeltaOut(text_delta="Hi "))
    await client.expect("response.output.delta")
    return session


async def _end_answer(session: PlayedSession) -> None:
    numbers = {"generated_tokens": 2, "input_tokens": 9, "duration_ms": 1.0}
    await session.publish(ChatDoneOut(text="Hi you.", **numbers))
    await session.end(EndReason.STOPPED)


async def test_a_request_with_mode_chat_resumes(
    edge: RunningEdge, worker: PlayedWorker, broker: Broker
) -> None:
    client = Resumer("/v1/realtime?mode=chat")
    async with client.connected(edge.ws):
        assert (await client.receive())["type"] == "session.queue_done"
        await client.send("session.init", payload={})
        sid = (await client.receive())["session_id"]
        first = await _begin_answer(client, worker)
        await client.abort()
    await first.publish(DeltaOut(text_delta="you."))
    async with client.back(edge.ws, seq=1):
        deltas = [await client.expect("response.output.delta") for _ in range(2)]
        assert [delta["text"] for delta in deltas] == ["Hi ", "you."]
        await _end_answer(first)
        done = await client.expect("response.done")
        assert (done["response_id"].rpartition("_")[2], done["session_id"]) == ("1", sid)
        token = client.token
        second = await _begin_answer(client, worker)
        assert (first.claim.sid, second.claim.sid) == (f"{sid}-1", f"{sid}-2")
        await client.send("session.close")
        await second.expect(StopIn)
        await client.abort()
    await _end_answer(second)
    async with client.back(edge.ws):
        closed = await client.expect("session.closed")
        assert closed["reason"] == "client_closed"
        assert await client.close_code() == 1000
    async with edge.open(f"/v1/realtime?mode=chat&resume_token={token}&seq=1") as late:
        assert json.loads(await late.socket.recv())["type"] == "resumed"
        assert json.loads(await late.socket.recv())["type"] == "response.output.delta"


async def test_an_unknown_token_with_mode_chat_is_refused(edge: RunningEdge) -> None:
    for token in ("chat_1-1.x", "chat_1.x", "-1.x", "rt_1.x", "x"):
        async with edge.open(f"/v1/realtime?mode=chat&resume_token={token}&seq=1") as opened:
            assert await opened.close_code() == 4410, token


@pytest.mark.edge(realtime_audio_s=0.5)
async def test_a_connection_with_mode_chat_that_is_idle_after_an_answer_is_closed(
    edge: RunningEdge, worker: PlayedWorker
) -> None:
    client = Resumer("/v1/realtime?mode=chat")
    async with client.connected(edge.ws):
        assert (await client.receive())["type"] == "session.queue_done"
        await client.send("session.init", payload={})
        assert (await client.receive())["type"] == "session.created"
        await _end_answer(await _begin_answer(client, worker))
        await client.expect("response.done")
        await until(_nothing_is_cancelling)
        assert (await client.receive())["reason"] == "timeout"
        assert await client.close_code() == 1000


def _nothing_is_cancelling() -> bool:
    return not any(task.cancelling() and not task.done() for task in asyncio.all_tasks())
