"""Bad input: a clear error, the session continues, and nothing reaches the worker."""

from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from websockets.exceptions import ConnectionClosed

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.entries import ChunkIn
from antiphon.shared_schemas.states import EndReason
from support.edge_harness import (
    PlayedSession,
    PlayedWorker,
    RunningEdge,
    base64_audio,
    ended,
    played_worker,
    prepared_session,
    running_edge,
)
from support.raw_client import Wire


@pytest.fixture
async def pair(
    settings: BrokerSettings, broker: Broker
) -> AsyncIterator[tuple[Wire, PlayedSession]]:
    async with (
        running_edge(settings, max_message_bytes=1_000_000) as edge,
        played_worker(broker) as worker,
        prepared_session(edge, worker) as both,
    ):
        yield both


async def _continues(client: Wire, session: PlayedSession) -> None:
    """Asserts that the worker's next entry is the valid chunk, and that its answer arrives."""
    await client.send("audio_chunk", audio=base64_audio())
    await session.answer()
    await client.expect("result")


async def test_a_message_over_the_limit(pair: tuple[Wire, PlayedSession]) -> None:
    client, session = pair
    await client.send("audio_chunk", audio="A" * 1_000_001)
    await client.expect_error("message_too_large")
    await _continues(client, session)


async def test_a_frame_of_16_mib_closes_with_1009(pair: tuple[Wire, PlayedSession]) -> None:
    client, session = pair
    with suppress(ConnectionClosed):  # the server may close before all of it is sent
        await client.socket.send("A" * (16 * 1024 * 1024 + 1))
    assert await client.close_code() == 1009
    assert (await ended(session.broker, session.claim.sid)).reason is EndReason.CLIENT_GONE


@pytest.mark.parametrize(
    "message",
    [
        b'{"type": "\xff"}',
        [b'{"type": "\xe2', b'\x82"}'],
        b'{"type": "' + bytes(2_000_000) + b'\xff"}',
    ],
    ids=["short", "in fragments", "long"],
)
async def test_invalid_utf8_closes_with_1007(
    pair: tuple[Wire, PlayedSession],
    caplog: pytest.LogCaptureFixture,
    message: bytes | list[bytes],
) -> None:
    """RFC 6455 demands 1007 before the application sees a message."""
    client, session = pair
    await client.socket.send(message, text=True)
    assert await client.close_code() == 1007
    await ended(session.broker, session.claim.sid)
    assert "Traceback" not in caplog.text


async def test_an_id_outside_the_alphabet(edge: RunningEdge) -> None:
    for sid in ("with%20space", "a.b", "x" * 65, "sl/ash", "%2e%2e", "caf\u00e9", "nul%00", ""):
        async with edge.client(sid) as client:
            await client.expect_error("invalid_session_id", "session_id")
            assert await client.close_code() == 1008
            assert (await edge.edge.broker.queue.snapshot()).waiting == ()


@pytest.mark.edge(input_ahead_s=3.0)
async def test_f16_audio_faster_than_real_time_is_refused(
    edge: RunningEdge, worker: PlayedWorker
) -> None:
    async with prepared_session(edge, worker) as (client, session):
        for _ in range(6):
            await client.send("audio_chunk", audio=base64_audio(8_000))
        await client.send("audio_chunk", audio=base64_audio(5 * 16_000))
        await client.expect_error("input_backpressure", "audio")
        for _ in range(6):
            await session.expect(ChunkIn)
        await client.send("client_diagnostic")
        await client.send("stop")


@pytest.mark.edge(input_messages_per_s=5.0)
async def test_a_flood_of_messages_is_refused_and_the_session_continues(
    edge: RunningEdge, worker: PlayedWorker
) -> None:
    async with prepared_session(edge, worker) as (client, session):
        for _ in range(500):
            await client.send("resume")
        codes = [(await client.expect("error"))["code"] for _ in range(500)]
        assert codes[0] == "not_ready"
        assert "input_backpressure" in codes
        assert (await session.row()).reason is None
