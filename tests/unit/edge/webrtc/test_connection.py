"""The data channel of a call, as sessions read it."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

pytest.importorskip("aiortc", reason="the extra webrtc is not installed")

from aiortc import RTCDataChannel, RTCDataChannelParameters
from aiortc.rtcsctptransport import WEBRTC_BINARY, DataChunk

from antiphon.edge.errors import ClientGone
from antiphon.edge.json_text import Utf8Text
from antiphon.edge.protocols.openai_realtime.track import OrderFrame, TrackOrder
from antiphon.edge.webrtc.connection import CallConnection
from antiphon.edge.webrtc.ice import UdpPlaces
from antiphon.edge.webrtc.peer import CallPeer
from antiphon.edge.webrtc.sdp import read_offer
from antiphon.shared_schemas.wire import TextParts
from support.sdp_offers import OFFER


@pytest.fixture
async def peer() -> AsyncIterator[CallPeer]:
    found = CallPeer(read_offer(OFFER), UdpPlaces("127.0.0.1", None, ()))
    yield found
    await found.close()


def opened(peer: CallPeer) -> RTCDataChannel:
    channel = RTCDataChannel(
        peer._sctp, RTCDataChannelParameters(label="oai-events", id=1), send_open=False
    )
    channel._setReadyState("open")
    peer._open_channel(channel)
    return channel


async def test_what_comes_together_with_the_opening_of_the_channel_is_read(peer: CallPeer) -> None:
    channel = opened(peer)
    channel.emit("message", "first")
    channel.emit("message", b"second")
    connection = CallConnection(peer, 0)
    channel.emit("message", "third")
    assert [await connection.receive() for _ in range(3)] == [
        Utf8Text(b"first"),
        b"second",
        Utf8Text(b"third"),
    ]


@pytest.mark.parametrize("message", ["", "x", "x" * 100_000])
async def test_messages_that_nobody_reads_end_the_call(peer: CallPeer, message: str) -> None:
    channel = opened(peer)
    connection = CallConnection(peer, 0)
    for _ in range(40_000):
        channel.emit("message", message)
        if peer.lost.is_set():
            break
    assert peer.lost.is_set()
    assert sum(len(frame) + 64 for frame in connection._frames) < 9_000_000


async def test_messages_that_are_read_do_not_end_it(peer: CallPeer) -> None:
    channel = opened(peer)
    connection = CallConnection(peer, 0)
    for _ in range(40_000):
        channel.emit("message", "")
        await connection.receive()
    assert not peer.lost.is_set()


async def test_a_channel_that_is_closed_at_once_ends_the_call(peer: CallPeer) -> None:
    opened(peer)._setReadyState("closed")
    connection = CallConnection(peer, 0)
    with pytest.raises(ClientGone):
        async with asyncio.timeout(1):
            await connection.receive()


def chunk(tsn: int, *, stream: int = 1, flags: int = 0, size: int = 1000) -> DataChunk:
    found = DataChunk(flags=flags)
    found.tsn, found.stream_id, found.user_data = tsn, stream, bytes(size)
    return found


@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param(lambda n: chunk(n), id="a message without an end"),
        pytest.param(lambda n: chunk(n, size=0), id="empty pieces"),
        pytest.param(lambda n: chunk(n, stream=n), id="many streams"),
        pytest.param(lambda n: chunk(n + 1, flags=7), id="a missing piece"),
    ],
)
async def test_pieces_of_messages_are_bounded(
    peer: CallPeer, hostile: Callable[[int], DataChunk]
) -> None:
    sctp = peer._sctp
    sctp._last_received_tsn = 0
    for n in range(1, 6000):
        await sctp._receive_data_chunk(hostile(n))
    kept = [each for stream in sctp._inbound_streams.values() for each in stream.reassembly]
    assert sum(len(each.user_data) for each in kept) <= 1024 * 1024
    assert len(kept) + len(sctp._inbound_streams) + len(sctp._sack_misordered) < 3000


async def test_long_messages_arrive_also_after_each_other(peer: CallPeer) -> None:
    channel = opened(peer)
    peer._sctp._data_channels[1] = channel
    connection = CallConnection(peer, 0)
    sctp = peer._sctp
    sctp._last_received_tsn = 0
    for message in range(20):
        for n in range(250):
            piece = chunk(message * 250 + n + 1, flags=2 * (n == 0) | (n == 249))
            piece.stream_seq, piece.protocol = message, WEBRTC_BINARY
            await sctp._receive_data_chunk(piece)
        assert await connection.receive() == bytes(250_000)


async def test_answers_that_are_not_played_yet_are_bounded(peer: CallPeer) -> None:
    opened(peer)
    connection = CallConnection(peer, 0)
    minute = OrderFrame.of(TrackOrder(order="play", response_id="a", pcm=bytes(60 * 48_000)))
    for _ in range(10):
        connection.send_now(minute)
    assert not peer.lost.is_set()
    connection.send_now(minute)
    assert peer.lost.is_set()


async def test_a_channel_that_is_being_closed_has_lost_its_client(peer: CallPeer) -> None:
    """aiortc is "closing" for a round trip before it reports the close, and refuses to send."""
    channel = opened(peer)
    connection = CallConnection(peer, 0)
    channel._setReadyState("closing")
    assert not connection.send_now(TextParts([b"{}"]))
    assert peer.lost.is_set()
    with pytest.raises(ClientGone):
        async with asyncio.timeout(1):
            await connection.receive()


async def test_an_event_that_waits_while_the_channel_is_closed(peer: CallPeer) -> None:
    channel = opened(peer)
    connection = CallConnection(peer, 0)
    channel._setReadyState("closing")
    with pytest.raises(ClientGone):
        async with asyncio.timeout(1):
            await connection.send(TextParts([b"{}"]))
