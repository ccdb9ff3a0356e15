"""One client that sends frames as fast as it can, beside a client that talks."""

import asyncio
from itertools import repeat

import pytest

from antiphon.broker.settings import BrokerSettings
from antiphon.edge import service
from antiphon.edge.transport import websocket_protocol
from support.edge_harness import (
    PlayedWorker,
    RunningEdge,
    base64_audio,
    prepared_session,
    running_edge,
)
from support.raw_socket import CONT, PING, PONG, TEXT, RawSocket, frame, raw_socket
from support.stack import until

MIB = 1024 * 1024

FLOODS = {
    "empty pings": (b"", frame(PING)),
    "long pings": (b"", frame(PING, bytes(125))),
    "pongs": (b"", frame(PONG)),
    "empty continuations": (frame(TEXT, fin=False), frame(CONT, fin=False)),
    "fragments of 2 bytes": (frame(TEXT, fin=False), frame(CONT, b"  ", fin=False)),
    "short messages": (b"", frame(TEXT, b"{}")),
}


def _refused(edge: RunningEdge, reason: str) -> float:
    counter = edge.edge.metrics.rejected.labels(reason)
    return float(counter._value.get())


async def _flood(flooder: RawSocket, piece: bytes) -> None:
    for block in repeat(piece * 1000):
        await flooder.send(block)
        await asyncio.sleep(0)


@pytest.mark.parametrize("kind", FLOODS)
async def test_f13_a_flood_of_frames_is_cut_off(
    edge: RunningEdge, worker: PlayedWorker, kind: str
) -> None:
    first, piece = FLOODS[kind]
    async with (
        prepared_session(edge, worker) as (client, session),
        raw_socket(edge.ws, "/ws/duplex/adx_flooder") as flooder,
    ):
        await flooder.send(first)
        flooding = asyncio.create_task(_flood(flooder, piece))
        closing = asyncio.create_task(flooder.closed())  # a later write may break the connection
        try:
            for _ in range(3):
                await client.send("audio_chunk", audio=base64_audio())
                await session.answer()
                await client.expect("result")
            assert await closing == (1008, "too many frames")
            await flooder.ended()
        finally:
            flooding.cancel()
            closing.cancel()
            await asyncio.wait([flooding, closing])
        assert _refused(edge, "too_many_frames") == 1
        await client.send("audio_chunk", audio=base64_audio())
        await session.answer()
        await client.expect("result")


async def test_f13_more_bytes_than_messages_may_have(
    settings: BrokerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session refuses the messages, the connection ends when they do not stop."""
    monkeypatch.setattr(service, "WS_MAX_BYTES", 64 * 1024)
    message = frame(TEXT, b'{"type": "unknown"' + 60_000 * b" " + b"}")
    async with (
        running_edge(settings, input_bytes_per_s=1024) as edge,
        raw_socket(edge.ws, "/ws/duplex/adx_flooder") as flooder,
    ):
        await flooder.send(20 * message)
        assert await flooder.closed() == (1008, "too many bytes")
        assert _refused(edge, "too_many_bytes") == 1


@pytest.mark.parametrize("start", [frame(TEXT, b"{", fin=False), frame(TEXT, b"{", length=1000)])
async def test_f13_a_message_that_is_never_complete(
    edge: RunningEdge, monkeypatch: pytest.MonkeyPatch, start: bytes
) -> None:
    monkeypatch.setattr(websocket_protocol, "MESSAGE_S", 0.1)
    async with raw_socket(edge.ws, "/ws/duplex/adx_slow") as slow:
        await slow.send(start)
        assert await slow.closed() == (1008, "a message took too long")
    assert _refused(edge, "request_timeout") == 1


async def test_f13_too_many_fragments(edge: RunningEdge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket_protocol, "MAX_FRAGMENTS", 100)
    async with raw_socket(edge.ws, "/ws/chat") as client:
        await client.send(frame(TEXT, b"{", fin=False) + 200 * frame(CONT, bytes(2000), fin=False))
        assert await client.closed() == (1009, "too many fragments")


async def test_a_long_chat_in_fragments(edge: RunningEdge) -> None:
    """4 KiB is the size of the write buffer of common clients."""
    sound = b'{"type": "audio", "data": "'
    request = b'{"messages": [{"role": "user", "content": [%s' % sound
    async with raw_socket(edge.ws, "/ws/chat") as client:
        await client.send(frame(TEXT, request, fin=False))
        for _ in range(64):
            await client.send(64 * frame(CONT, 4096 * b"A", fin=False))
        await client.send(frame(PING, b"here") + frame(CONT, b'"}]}]}'))
        received = [await client.frame() for _ in range(2)]
        assert received[0] == (PONG, b"here")
        assert b'"queued"' in received[1][1]


@pytest.mark.edge(max_chats_bytes=MIB)
@pytest.mark.parametrize(
    "start",
    [frame(TEXT, b" ", length=3 * MIB), frame(TEXT, b" ", fin=False)],
    ids=["frame", "cont"],
)
async def test_f13_incomplete_messages_share_a_budget(edge: RunningEdge, start: bytes) -> None:
    more = bytes(MIB) if start[0] & 0x80 else 256 * frame(CONT, bytes(4096), fin=False)
    budget = edge.edge.chat_budget
    async with raw_socket(edge.ws, "/ws/duplex/adx_first") as first:
        await first.send(start + more + more)
        await until(lambda: budget.held > 2 * MIB)
        async with raw_socket(edge.ws, "/ws/duplex/adx_second") as second:
            await second.send(start + more)
            error = b""
            while b'"error"' not in error:
                _, error = await second.frame()
            assert b'"queue_full"' in error
            assert (await second.closed())[0] == 1013
            await second.ended()
    await until(lambda: not budget.held)
