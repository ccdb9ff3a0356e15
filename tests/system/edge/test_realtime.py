"""`/v1/realtime` through a real edge and a real Redis; every event is checked against the schema."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pybase64
import pytest

from antiphon.broker.client import Broker
from antiphon.shared_schemas.entries import ChunkIn, PrepareIn, StopIn, StoppedOut
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
from support.realtime_schema import SERVER

FRAME = pybase64.b64encode_as_string(picture())
INSTRUCTIONS = {"instructions": "Be brief."}


class RealtimeClient(Wire):
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


@pytest.mark.edge(realtime_audio_s=0.6)
async def test_the_limit_counts_from_the_connection(edge: RunningEdge) -> None:
    async with _connected(edge, "audio") as client:
        await _timed_out(client)


async def _timed_out(client: RealtimeClient) -> None:
    closed = await client.expect("session.closed", skip=("session.queued", "session.queue_update"))
    assert closed["reason"] == "timeout"
    assert await client.close_code() == 1000


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
