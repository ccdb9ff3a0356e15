"""`/v1/realtime` through a real edge and a real Redis; every event is checked against the schema."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import numpy as np
import pybase64
import pytest
from jsonschema import Draft202012Validator
from websockets.exceptions import ConnectionClosed

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.entries import ChunkIn, ErrorOut, PrepareIn, StopIn, StoppedOut
from antiphon.shared_schemas.states import EndReason, SessionKind
from support.edge_harness import (
    SPEECH,
    Client,
    PlayedSession,
    PlayedWorker,
    RunningEdge,
    base64_audio,
    ended,
    picture,
    played_worker,
    running_edge,
)
from support.realtime_schema import SCHEMA, SERVER

FRAME = pybase64.b64encode_as_string(picture())
INSTRUCTIONS = {"instructions": "Be brief."}


class RealtimeClient(Client):
    async def message(self) -> dict[str, Any]:
        message = await super().message()
        SERVER.validate(message)
        return message

    async def expect_code(self, code: str) -> dict[str, Any]:
        error: dict[str, Any] = (await self.expect("error"))["error"]
        assert error["code"] == code, error
        return error

    async def append(self, samples: int = 16_000, **fields: Any) -> None:
        await self.send("input_audio_buffer.append", audio=base64_audio(samples), **fields)


@asynccontextmanager
async def _connected(edge: RunningEdge, mode: str = "video") -> AsyncIterator[RealtimeClient]:
    async with edge.open(f"/v1/realtime?mode={mode}") as client:
        yield RealtimeClient(client.socket)


@asynccontextmanager
async def _active(
    edge: RunningEdge, worker: PlayedWorker, mode: str = "video"
) -> AsyncIterator[tuple[RealtimeClient, PlayedSession]]:
    async with _connected(edge, mode) as client:
        session = await worker.claim()
        await client.expect("session.queue_done", skip=("session.queued", "session.queue_update"))
        await client.send("session.update", session=INSTRUCTIONS)
        await session.prepare()
        await client.expect("session.created")
        yield client, session


@pytest.mark.parametrize(
    ("mode", "kind"), [("video", SessionKind.OMNI_DUPLEX), ("audio", SessionKind.AUDIO_DUPLEX)]
)
async def test_a_whole_conversation(
    edge: RunningEdge, worker: PlayedWorker, broker: Broker, mode: str, kind: SessionKind
) -> None:
    async with _connected(edge, mode) as client:
        session = await worker.claim()
        assert session.claim.kind is kind
        assert re.fullmatch(r"rt_\d{13}", session.claim.sid)
        assert re.fullmatch(r"[0-9a-f]{32}", session.claim.recording)
        await client.expect("session.queue_done")  # a slot was free: no `session.queued` before it
        await client.send("session.update", session={**INSTRUCTIONS, "max_slice_nums": 2})
        prepare: PrepareIn = await session.prepare()
        assert (prepare.system_prompt, prepare.config.max_slice_nums) == ("Be brief.", 2)
        created = await client.expect("session.created")
        assert created["session_id"] == session.claim.sid

        await client.append(video_frames=[FRAME], force_listen=True)
        chunk = await session.answer(speak=False)
        assert chunk.force_listen
        assert len(chunk.frames) == (1 if mode == "video" else 0)
        assert "kv_cache_length" in await client.expect("response.listen")

        await client.append(4000)
        await session.answer(text="Hello.")
        delta = await client.expect("response.output_audio.delta")
        assert (delta["text"], delta["end_of_turn"]) == ("Hello.", False)
        assert (np.frombuffer(pybase64.b64decode(delta["audio"]), "<f4") == SPEECH).all()

        await client.send("session.close", reason="user_stop")
        await session.expect(StopIn)
        await session.publish(StoppedOut())
        await session.end(EndReason.STOPPED)
        assert await client.expect("session.closed") == {
            "type": "session.closed",
            "reason": "stopped",
        }
        assert await client.close_code() == 1000
        assert (await ended(broker, session.claim.sid)).reason is EndReason.STOPPED


async def test_a_queued_client_gets_its_place_and_may_only_prepare(
    edge: RunningEdge, broker: Broker
) -> None:
    async with _connected(edge) as client:
        queued = await client.expect("session.queued")
        assert (queued["position"], queued["queue_length"]) == (1, 1)
        await client.append()
        await client.expect_code("not_ready")
        await client.send("session.update", session=INSTRUCTIONS)  # held
        await client.send("session.update", session=INSTRUCTIONS)
        await client.expect_code("not_ready")
        async with _connected(edge) as second:
            assert (await second.expect("session.queued"))["position"] == 2
            async with played_worker(broker) as worker:
                session = await worker.claim()
                done = "session.queue_done"
                await client.expect(done, skip=("session.queue_update",))
                assert (await second.expect("session.queue_update"))["position"] == 1
                await session.prepare()
                await client.expect("session.created")


async def test_not_ready_before_and_after_the_update(
    edge: RunningEdge, worker: PlayedWorker
) -> None:
    async with _connected(edge) as client:
        session = await worker.claim()
        await client.expect("session.queue_done")
        await client.append()
        assert (await client.expect_code("not_ready"))["type"] == "client_error"
        await client.send("session.update", session=INSTRUCTIONS)
        await session.expect(PrepareIn)
        await client.append()
        await client.expect_code("not_ready")
        await client.send("session.update", session=INSTRUCTIONS)
        await client.expect_code("not_ready")


BAD = [
    ({}, "missing_field"),
    ({"type": "dance"}, "unknown_event"),
    ({"type": "input_audio_buffer.append"}, "missing_field"),
    ({"type": "input_audio_buffer.append", "audio": "!!"}, "invalid_payload"),
    ({"type": "input_audio_buffer.append", "audio": base64_audio(3999)}, "invalid_payload"),
    (
        {
            "type": "input_audio_buffer.append",
            "audio": base64_audio(),
            "video_frames": ["aGVsbG8="],
        },
        "invalid_payload",
    ),
    ({"type": "session.update", "session": {"instructions": "Again."}}, "not_ready"),
]


async def test_invalid_events_are_reported_and_the_session_continues(
    edge: RunningEdge, worker: PlayedWorker
) -> None:
    async with _active(edge, worker) as (client, session):
        for event, code in BAD:
            await client.socket.send(json.dumps(event))
            await client.expect_code(code)
        await client.append()
        await session.answer()
        await client.expect("response.output_audio.delta")


@pytest.mark.edge(input_ahead_s=2)
async def test_too_much_audio_is_dropped_without_an_error(
    edge: RunningEdge, worker: PlayedWorker
) -> None:
    async with _active(edge, worker) as (client, session):
        for _ in range(6):
            await client.append()
        await client.send("session.close")
        entries = [await session.read() for _ in range(3)]
        assert [type(entry) for _, entry in entries] == [ChunkIn, ChunkIn, StopIn]
        await session.publish(StoppedOut())
        await client.expect("session.closed")


async def test_bad_json_closes_with_1003(
    edge: RunningEdge, worker: PlayedWorker, broker: Broker
) -> None:
    async with _active(edge, worker) as (client, session):
        await client.socket.send("{not json")
        assert await client.close_code() == 1003
        assert (await ended(broker, session.claim.sid)).reason is EndReason.ERROR


@pytest.mark.parametrize("waiting", [True, False])
async def test_the_limit_counts_from_the_connection(
    settings: BrokerSettings, broker: Broker, waiting: bool
) -> None:
    limit_s = 0.6 if waiting else max(2.0, 10 * await _handshake_s(settings, broker))
    async with running_edge(settings, realtime_audio_s=limit_s) as edge:
        if waiting:
            async with _connected(edge, "audio") as client:
                await _timed_out(client)
            return
        async with (
            played_worker(broker) as worker,
            _active(edge, worker, "audio") as (client, session),
        ):
            await _timed_out(client)
            assert (await ended(broker, session.claim.sid)).reason is EndReason.PAUSE_TIMEOUT


async def _handshake_s(settings: BrokerSettings, broker: Broker) -> float:
    """How long it takes on this machine to begin a session."""
    async with running_edge(settings) as edge, played_worker(broker, id_="first") as worker:
        began = time.monotonic()
        async with _active(edge, worker, "audio") as (_, session):
            took_s = time.monotonic() - began
        await ended(broker, session.claim.sid)
    return took_s


async def _timed_out(client: RealtimeClient) -> None:
    closed = await client.expect("session.closed", skip=("session.queued", "session.queue_update"))
    assert closed["reason"] == "timeout"
    assert await client.close_code() == 1000


async def test_errors_of_the_worker(
    edge: RunningEdge, worker: PlayedWorker, broker: Broker
) -> None:
    async with _active(edge, worker) as (client, session):
        await session.publish(ErrorOut(code="inference_error", message="bad unit"))
        assert (await client.expect_code("inference_error"))["type"] == "server_error"
        await client.append()
        await session.answer()
        await client.expect("response.output_audio.delta")
        await session.publish(ErrorOut(code="context_full", message="full", fatal=True))
        assert (await client.expect("session.closed"))["reason"] == "context_full"
        assert await client.close_code() == 1000
        assert (await ended(broker, session.claim.sid)).reason is EndReason.CONTEXT_FULL


async def test_a_full_queue(settings: BrokerSettings) -> None:
    small = settings.model_copy(update={"max_queue_size": 1})
    async with running_edge(small) as edge, _connected(edge) as first:
        await first.expect("session.queued")
        async with _connected(edge) as late:
            assert (await late.expect_code("queue_full"))["type"] == "server_error"
            assert await late.close_code() == 1013


@pytest.mark.edge(drain_s=0.1)
async def test_a_drain_closes_with_server_shutdown(edge: RunningEdge, worker: PlayedWorker) -> None:
    async with _active(edge, worker) as (client, _):
        draining = asyncio.create_task(edge.edge.drain())
        assert (await client.expect("session.closed"))["reason"] == "server_shutdown"
        assert await client.close_code() == 1012
        await draining
        async with _connected(edge) as late:
            await late.expect_code("service_unavailable")
            assert await late.close_code() == 1013


async def test_an_unknown_mode_is_refused(edge: RunningEdge) -> None:
    async with _connected(edge, "smell") as client:
        assert "mode" in (await client.expect_code("invalid_payload"))["message"]
        assert await client.close_code() == 1008


async def test_ids_are_unique_within_a_millisecond(
    edge: RunningEdge, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edge.edge.broker.clock, "now_ms", lambda: 1_714_200_000_000.0)
    async with _connected(edge) as first, _connected(edge) as second:
        await first.expect("session.queued")
        await second.expect("session.queued")
        waiting = (await broker.queue.snapshot()).waiting
        assert [row.sid for row in waiting] == ["rt_1714200000000", "rt_1714200000001"]


async def test_a_client_that_disconnects_frees_the_worker(
    edge: RunningEdge, worker: PlayedWorker, broker: Broker
) -> None:
    async with _active(edge, worker) as (client, session):
        await client.abort()
        assert (await ended(broker, session.claim.sid)).reason is EndReason.CLIENT_GONE


async def test_the_schema_is_served(http: httpx.AsyncClient) -> None:
    answer = await http.get("/v1/realtime/schema.json")
    assert answer.json() == SCHEMA
    Draft202012Validator.check_schema(answer.json())


async def test_no_event_follows_the_end(edge: RunningEdge, worker: PlayedWorker) -> None:
    async with _active(edge, worker) as (client, session):
        await session.publish(StoppedOut())
        await session.publish(ErrorOut(code="inference_error", message="late"))
        await client.expect("session.closed")
        with pytest.raises(ConnectionClosed):
            await client.message()
