"""A client of calls by WebRTC: aiortc's own connection, unlike the parts of it that the edge uses."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from fractions import Fraction
from typing import Any

import httpx
import numpy as np
import soxr
from aiortc import MediaStreamTrack, RTCPeerConnection, RTCSessionDescription
from aiortc.rtp import RtpPacket
from av import AudioFrame

from antiphon.edge.webrtc.opus import OpusDecoder, packet_samples
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples, to_pcm16

_FRAME_S = 0.02
_WITHIN_S = 180
_QUIET = OUTPUT_RATE // 2


class Microphone(MediaStreamTrack):
    """Silence, until `say` gives it speech at 16 kHz."""

    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self._speech = np.zeros(0, np.int16)
        self._sent = 0
        self._began = 0.0

    def say(self, speech: Samples) -> None:
        self._speech = np.concatenate([self._speech, to_pcm16(speech)])

    async def recv(self) -> AudioFrame:
        self._began = self._began or time.monotonic()
        await asyncio.sleep(self._began + self._sent * _FRAME_S - time.monotonic())
        size = int(INPUT_RATE * _FRAME_S)
        part, self._speech = self._speech[:size], self._speech[size:]
        samples = np.zeros(size, np.int16)
        samples[: len(part)] = part
        frame = AudioFrame.from_ndarray(samples[None], format="s16", layout="mono")
        frame.sample_rate, frame.pts = INPUT_RATE, self._sent * size
        frame.time_base = Fraction(1, INPUT_RATE)
        self._sent += 1
        return frame


class CallClient:
    """One call. `events` has everything that came.

    The jitter buffer of aiortc drops sound that comes late, much more than browsers do. So this client keeps
    the packets, and puts them in order in the end.
    """

    def __init__(self) -> None:
        self.connection = RTCPeerConnection()
        self.microphone = Microphone()
        self.connection.addTrack(self.microphone)
        self.channel = self.connection.createDataChannel("oai-events")
        self.events: list[dict[str, Any]] = []
        self._packets: dict[int, tuple[int, bytes]] = {}
        self.call_id = ""
        self.closed = asyncio.Event()
        self._next: Counter[str] = Counter()
        self._arrived = asyncio.Event()
        self.channel.on("message", self._receive)
        self.channel.on("close", self.closed.set)
        [receiver] = self.connection.getReceivers()
        receiver._handle_rtp_packet = self._hear  # type: ignore[method-assign]

    async def offer(self) -> str:
        await self.connection.setLocalDescription(await self.connection.createOffer())
        return self.connection.localDescription.sdp

    async def accept(self, answer: str) -> None:
        await self.connection.setRemoteDescription(RTCSessionDescription(answer, "answer"))

    async def call(self, url: str, key: str = "none", relay: Callable[[str], str] = str) -> None:
        """`relay` may change the answer's addresses."""
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/sdp"}
        async with httpx.AsyncClient() as http:
            response = await http.post(
                f"{url}/v1/realtime/calls", content=await self.offer(), headers=headers
            )
        assert response.status_code == 201, response.text
        assert response.headers["content-type"] == "application/sdp"
        self.call_id = response.headers["location"].rpartition("/")[2]
        await self.accept(relay(response.text))

    def send(self, kind: str, **fields: Any) -> None:
        self.channel.send(json.dumps({"type": kind, **fields}))

    async def until(
        self, kind: str, wanted: Callable[[dict[str, Any]], bool] = lambda _: True
    ) -> dict[str, Any]:
        """The next event of this type that is wanted. An error is an assertion.

        Events of other types are left for later calls: sound and text come in either order.
        """
        try:
            async with asyncio.timeout(_WITHIN_S):
                while True:
                    for position, event in enumerate(self.events):
                        assert event["type"] != "error", event
                        if event["type"] == kind and position >= self._next[kind]:
                            self._next[kind] = position + 1
                            if wanted(event):
                                return event
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            raise AssertionError(f"no {kind!r}; received: {self.types}") from None

    async def close(self) -> None:
        await self.connection.close()

    def sound(self) -> Samples:
        """What came, at 24 kHz. Silence is in place of what was lost."""
        pieces: list[bytes | int] = []
        due: int | None = None
        for _, (timestamp, payload) in sorted(self._packets.items()):
            if due is not None and timestamp > due:
                pieces.append(timestamp - due)
            pieces.append(payload)
            due = timestamp + (packet_samples(payload) or 0)
        pcm = OpusDecoder().decode(pieces) if pieces else b""
        samples = np.frombuffer(pcm, "<i2").astype(np.float32) / 32768
        return soxr.resample(samples, INPUT_RATE, OUTPUT_RATE)

    async def until_silent(self) -> Samples:
        """The sound, once its last half second is silent."""
        async with asyncio.timeout(_WITHIN_S):
            while True:
                await asyncio.sleep(0.1)
                sound = self.sound()
                if len(sound) > _QUIET and float(np.abs(sound[-_QUIET:]).max()) < 0.001:
                    return sound

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    def _receive(self, message: str) -> None:
        self.events.append(json.loads(message))
        self._arrived.set()

    async def _hear(self, packet: RtpPacket, arrival_time_ms: int) -> None:
        self._packets[packet.sequence_number] = packet.timestamp, packet.payload


@asynccontextmanager
async def calling(url: str, key: str = "none", **options: Any) -> AsyncIterator[CallClient]:
    """A call whose session is created."""
    client = CallClient()
    try:
        await client.call(url, key, **options)
        await client.until("session.created")
        yield client
    finally:
        await client.close()
