"""One connection by WebRTC: ICE, DTLS, a data channel and a sound track, made of the parts of `aiortc`."""

import asyncio
import secrets
import time
from collections.abc import Callable
from contextlib import AsyncExitStack

from aiortc import (
    RTCCertificate,
    RTCDataChannel,
    RTCDtlsFingerprint,
    RTCDtlsParameters,
    RTCDtlsTransport,
    RTCIceParameters,
    RTCIceTransport,
    RTCSctpCapabilities,
    RTCSctpTransport,
)
from aiortc.clock import current_ntp_time
from aiortc.rtcsctptransport import DataChunk, tsn_plus_one
from aiortc.rtp import RtcpSenderInfo, RtcpSrPacket

from antiphon.edge.webrtc.ice import CallGatherer, UdpPlaces
from antiphon.edge.webrtc.opus import SILENCE
from antiphon.edge.webrtc.rtp import CLOCK_RATE, RtpPacket, packet_bytes
from antiphon.edge.webrtc.sdp import Local, Offer, write_answer
from antiphon.edge.webrtc.sound import FRAME_S, CallPlayer, SoundReceiver

CHANNEL = "oai-events"

_DIGEST = "sha-256"
"""Chromium refuses more than one fingerprint of a session."""

_REPORT_S = 2.0
_LATE_S = 0.2
"""A loop that was stopped for longer skips what was due, instead of sending it at once."""

_FRAME = int(FRAME_S * CLOCK_RATE)

_MOST_PIECES = 1000
"""Of messages that are not complete. A browser's fill the window of 1 MiB with 900."""

_MOST_STREAMS = 64
"""A data channel has one."""


class PeerLost(Exception):
    """The connection was not made, or is closed."""


class _MediaTransport(RTCDtlsTransport):
    """Passes decrypted RTP on as bytes."""

    on_rtp: Callable[[bytes], None] = staticmethod(lambda _: None)

    async def _handle_rtp_data(self, data: bytes, arrival_time_ms: int) -> None:  # noqa: ARG002
        self.on_rtp(data)

    async def _handle_rtcp_data(self, data: bytes) -> None:
        """Reports of the client change nothing."""


class _DataTransport(RTCSctpTransport):
    """Drops what exceeds the window announced to the client, in bytes and in pieces."""

    async def _receive_data_chunk(self, chunk: DataChunk) -> None:
        if 0 < len(chunk.user_data) <= self._advertised_rwnd and self._has_place(chunk):
            await super()._receive_data_chunk(chunk)

    def _has_place(self, chunk: DataChunk) -> bool:
        streams = self._inbound_streams
        if len(streams) >= _MOST_STREAMS and chunk.stream_id not in streams:
            return False
        early, last = self._sack_misordered, self._last_received_tsn
        is_next = last is not None and chunk.tsn == tsn_plus_one(last)
        pieces = sum(len(stream.reassembly) for stream in streams.values())
        return pieces < _MOST_PIECES and (is_next or len(early) < _MOST_PIECES)


class CallPeer:
    """Answers one offer. `connect` follows `answer`; `close` may be called at any time."""

    def __init__(self, offer: Offer, places: UdpPlaces) -> None:
        self._offer = offer
        self._gatherer = CallGatherer(places)
        self._ice = RTCIceTransport(self._gatherer)
        self._dtls = _MediaTransport(self._ice, [RTCCertificate.generateCertificate()])
        self._sctp = _DataTransport(self._dtls)
        self._channel: asyncio.Future[RTCDataChannel] = asyncio.get_running_loop().create_future()
        self._ssrc = secrets.randbits(32)
        self._early: list[str | bytes] = []
        self._on_message = self._early.append
        self.lost = asyncio.Event()
        self._sctp.on("datachannel", self._open_channel)
        self._dtls.on("statechange", self._watch)
        self._ice.on("statechange", self._watch)

    async def answer(self) -> str:
        """Open the socket, and describe it. Raises NoFreePort."""
        await self._gatherer.gather()
        mine = self._gatherer.getLocalParameters()
        prints = self._dtls.getLocalParameters().fingerprints
        assert mine.usernameFragment
        assert mine.password
        local = Local(
            self._gatherer.announced,
            mine.usernameFragment,
            mine.password,
            [(each.algorithm, each.value) for each in prints if each.algorithm == _DIGEST],
            self._ssrc,
        )
        return write_answer(self._offer, local)

    async def connect(self) -> None:
        """Return once the data channel is open. Raises PeerLost; waits as long as the client does nothing."""
        offer = self._offer
        await self._ice.start(RTCIceParameters(offer.username, offer.password))
        if self._ice.state != "completed":
            raise PeerLost(f"ICE: {self._ice.state}")
        prints = [RTCDtlsFingerprint(name, value) for name, value in offer.fingerprints]
        await self._dtls.start(RTCDtlsParameters(prints))
        if self._dtls.state != "connected":
            raise PeerLost(f"DTLS: {self._dtls.state}")
        caps = RTCSctpCapabilities(maxMessageSize=offer.message_bytes)
        await self._sctp.start(caps, offer.sctp_port)
        await self._channel

    @property
    def channel(self) -> RTCDataChannel:
        """Of a connection that is made."""
        return self._channel.result()

    def pass_messages(self, receive: Callable[[str | bytes], None]) -> None:
        """Pass the messages on, first those that came together with the opening of the channel."""
        self._on_message = receive
        for message in self._early:
            receive(message)
        self._early.clear()

    async def stream(self, player: CallPlayer, put_sound: Callable[[bytes], None]) -> None:
        """Send the player's packets when they are due, and pass on what the client says. Runs forever."""
        loop = asyncio.get_running_loop()
        receiver = SoundReceiver(self._offer.payload_type, put_sound, loop.time())
        self._dtls.on_rtp = lambda data: receiver.receive(data, loop.time())
        sender = _Sender(self._dtls, self._offer.payload_type, self._ssrc)
        due = loop.time()
        while True:
            payload, frames = player.next_packet()
            if self._offer.hears:
                await sender.send(payload, frames)
            receiver.fill(loop.time())
            due += frames * FRAME_S
            late = loop.time() - due
            if late > _LATE_S:
                due += late
            await asyncio.sleep(max(0.0, due - loop.time()))

    async def close(self) -> None:
        """Also closes the connection at the client."""
        self._dtls.on_rtp = lambda _: None
        async with AsyncExitStack() as stack:  # an error in one does not keep the port
            for part in (self._ice, self._dtls, self._sctp):
                stack.push_async_callback(part.stop)

    def _open_channel(self, channel: RTCDataChannel) -> None:
        if channel.label == CHANNEL and not self._channel.done():
            channel.on("message", lambda message: self._on_message(message))
            self._channel.set_result(channel)

    def _watch(self) -> None:
        if "closed" in (states := (self._dtls.state, self._ice.state)) or "failed" in states:
            self.lost.set()
            if not self._channel.done():
                self._channel.set_exception(PeerLost("the connection was closed"))
                self._channel.exception()  # perhaps nothing waits for it


class _Sender:
    """Numbers the packets, and reports them once in a while."""

    def __init__(self, transport: _MediaTransport, payload_type: int, ssrc: int) -> None:
        self._transport = transport
        self._payload_type = payload_type
        self._ssrc = ssrc
        self._number = secrets.randbits(15)
        self._timestamp = secrets.randbits(32)
        self._packets = self._bytes = 0
        self._silent = True
        self._report_at = 0.0

    async def send(self, payload: bytes, frames: int) -> None:
        """Nothing is sent once the connection is closed."""
        if self._transport.state != "connected":
            return
        silent = payload is SILENCE
        packet = RtpPacket(self._payload_type, self._number, self._timestamp, self._ssrc, payload)
        data = packet_bytes(packet, first=self._silent and not silent)
        self._silent = silent
        try:
            await self._transport._send_rtp(data)  # noqa: SLF001 - its public sender encodes by itself
            if (now := time.monotonic()) >= self._report_at:
                self._report_at = now + _REPORT_S
                await self._transport._send_rtp(bytes(self._report()))  # noqa: SLF001
        except ConnectionError:
            return
        self._number = self._number + 1 & 0xFFFF
        self._timestamp = self._timestamp + frames * _FRAME & 0xFFFFFFFF
        self._packets += 1
        self._bytes += len(payload)

    def _report(self) -> RtcpSrPacket:
        info = RtcpSenderInfo(
            current_ntp_time(),
            self._timestamp,
            self._packets & 0xFFFFFFFF,
            self._bytes & 0xFFFFFFFF,
        )
        return RtcpSrPacket(ssrc=self._ssrc, sender_info=info)
