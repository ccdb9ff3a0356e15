"""`antiphon.binary.v1` on every socket of a real edge; the test plays the worker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product
from typing import Any

import numpy as np
import orjson
import pybase64
from websockets.typing import Subprotocol

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.audio import INPUT_RATE, PcmFormat, to_pcm16
from antiphon.shared_schemas.entries import ChatIn
from antiphon.shared_schemas.wire import BINARY_PROTOCOL, MediaBytes, split_frame, to_frame
from support.edge_harness import (
    SPEECH,
    WITHIN_S,
    PlayedSession,
    PlayedWorker,
    RunningEdge,
    played_worker,
    running_edge,
)
from support.raw_client import Wire

OFFER = {"subprotocols": [Subprotocol("antiphon.v1"), Subprotocol(BINARY_PROTOCOL)]}
SECOND = np.linspace(-0.5, 0.5, INPUT_RATE, dtype=np.float32)
S16 = MediaBytes(to_pcm16(SECOND).tobytes(), PcmFormat.S16)


class BinaryClient(Wire):
    """Sends media as bytes, and returns received audio as `MediaBytes`."""

    async def send(self, type_: str, **fields: Any) -> None:
        await self.socket.send(to_frame({"type": type_, **fields}))

    async def message(self) -> dict[str, Any]:
        async with asyncio.timeout(WITHIN_S):
            frame = await self.socket.recv()
        if isinstance(frame, str):
            text: dict[str, Any] = orjson.loads(frame)
            return text
        header, payload = split_frame(frame)
        return {
            name: payload.part(value) if isinstance(value, dict) else value
            for name, value in orjson.loads(header).items()
        }


@asynccontextmanager
async def connected(edge: RunningEdge, path: str) -> AsyncIterator[BinaryClient]:
    async with edge.open(path, **OFFER) as client:
        assert client.socket.subprotocol == BINARY_PROTOCOL
        yield BinaryClient(client.socket)


@asynccontextmanager
async def talking(
    edge: RunningEdge, worker: PlayedWorker, query: str = ""
) -> AsyncIterator[tuple[BinaryClient, PlayedSession]]:
    async with connected(edge, f"/ws/duplex/adx_binary{query}") as client:
        session = await worker.claim()
        await client.expect("queue_done", skip=("queued", "queue_update"))
        await client.send("prepare", ref_audio_base64=S16)
        entry = await session.prepare()
        assert len(entry.ref_audio) == 4 * INPUT_RATE
        await client.expect("prepared")
        yield client, session


async def test_an_invalid_frame_is_rejected_and_the_next_one_accepted(
    edge: RunningEdge, worker: PlayedWorker
) -> None:
    async with talking(edge, worker) as (client, session):
        header = b'{"type":"audio_chunk","audio":{"at":0,"bytes":64000}}'
        whole = len(header).to_bytes(4, "little") + header + bytes(64_000)
        for cut, field in ((2, "header"), (30, "header"), (1000, "audio"), (63_999, "audio")):
            await client.socket.send(whole[:cut])
            await client.expect_error("invalid_field", field)
        await client.socket.send(b"\xff\xff\xff\x7f" + bytes(8))
        await client.expect_error("invalid_field", "header")
        await client.socket.send(whole)
        assert len((await session.answer(speak=False)).audio) == 64_000
        await client.expect("result")
        await client.socket.send(b"\2\0\0\0{]")
        await client.expect_error("invalid_json")
        assert await client.close_code() == 1003


async def test_a_resuming_client_may_choose_other_options(
    settings: BrokerSettings, edge: RunningEdge, worker: PlayedWorker
) -> None:
    """A replayed message is encoded for the new connection."""
    path = "/ws/duplex/adx_binary"
    async with connected(edge, f"{path}?resume=1") as client:
        session = await worker.claim()
        await client.expect("queue_done", skip=("queued", "queue_update"))
        await client.send("prepare")
        await session.prepare()
        prepared = await client.expect("prepared")
        await client.send("audio_chunk", audio=S16)
        await client.abort()
        await session.answer()
    back = f"{path}?resume_token={prepared['resume_token']}&seq={prepared['seq']}"
    async with running_edge(settings) as other, connected(other, f"{back}&pcm=s16") as client:
        await client.expect("resumed")
        result = await client.expect("result", skip=("queue_update",))
        assert result["audio_data"] == MediaBytes(to_pcm16(SPEECH).tobytes(), PcmFormat.S16)
        assert result["seq"] == prepared["seq"] + 16


async def test_media_of_several_pieces(edge: RunningEdge, broker: Broker) -> None:
    video = b"\0\0\0\x20ftypisom" + bytes(range(256)) * 12_000
    async with played_worker(broker, slots=4) as worker:
        for path, data in product(
            ("/ws/chat", "/v1/realtime?mode=chat"), (video, pybase64.b64encode_as_string(video))
        ):
            asked = {"messages": [{"role": "user", "content": [{"type": "video", "data": data}]}]}
            async with connected(edge, path) as client:
                if path == "/ws/chat":
                    await client.socket.send(to_frame(asked))
                else:
                    await client.expect("session.queue_done")
                    await client.send("session.init", payload={})
                    await client.expect("session.created")
                    await client.send("input.append", input=asked)
                request: ChatIn = await (await worker.claim()).expect(ChatIn)
            assert request.blobs == (video,), (path, type(data))


async def test_an_unknown_format_is_rejected(edge: RunningEdge) -> None:
    for pcm in ("mp3", ""):
        async with connected(edge, f"/ws/duplex/adx_1?pcm={pcm}") as client:
            await client.expect_error("invalid_field", "pcm")
            assert await client.close_code() == 1008


async def test_without_the_subprotocol_all_messages_are_text(edge: RunningEdge) -> None:
    async with edge.client("adx_1", "?pcm=s16") as client:
        await client.expect_error("invalid_field", "pcm")
    async with edge.client("adx_2") as client:
        await client.socket.send(b"\2\0\0\0{}")
        error = await client.expect("error", skip=("queued",))
        assert error["code"] == "invalid_json"
        assert BINARY_PROTOCOL in error["message"]
        assert await client.close_code() == 1003
