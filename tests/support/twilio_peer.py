"""The far end of a Twilio Media Stream, as its public documents describe it.

https://www.twilio.com/docs/voice/media-streams/websocket-messages and
https://www.twilio.com/docs/usage/security#validating-requests. It plays at the speed of a telephone,
returns each mark when the sound before it was played, and returns all at once after `clear`.
"""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from antiphon.edge.access.guards import signature_of
from antiphon.edge.media.audio_formats import AudioFormat, FormatDecoder, FormatEncoder
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples

STREAM = "MZ18ad3ab5a668481ce02b83e7395059f0"
TOKEN = "12345678901234567890123456789012"
PACKET = 160
"""Bytes: 20 ms."""


class TwilioPeer:
    """`pace`: how much faster than a telephone it sends and plays."""

    def __init__(self, socket: ClientConnection, pace: float = 1.0) -> None:
        self.received: list[dict[str, Any]] = []
        self.played = bytearray()
        self.closed: int | None = None
        self._socket = socket
        self._pace = pace
        self._number = 0
        self._to_say = bytearray()
        self._playing: list[bytes | str] = []
        self._encoder = FormatEncoder(AudioFormat.PCMU, INPUT_RATE)

    async def send(self, event: str, **fields: Any) -> None:
        self._number += 1
        head = {"event": event, "sequenceNumber": str(self._number), "streamSid": STREAM}
        with suppress(ConnectionClosed):
            await self._socket.send(orjson.dumps({**head, **fields}).decode())

    async def begin(self, parameters: dict[str, str]) -> None:
        hello = {"event": "connected", "protocol": "Call", "version": "1.0.0"}
        await self._socket.send(orjson.dumps(hello).decode())
        media = {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1}
        await self.send(
            "start",
            start={
                "accountSid": "AC" + "0" * 32,
                "streamSid": STREAM,
                "callSid": "CA" + "0" * 32,
                "tracks": ["inbound"],
                "mediaFormat": media,
                "customParameters": parameters,
            },
        )

    def say(self, speech: Samples) -> None:
        """Float32 at 16 kHz."""
        self._to_say += self._encoder.encode(speech)

    async def press(self, digit: str) -> None:
        await self.send("dtmf", dtmf={"track": "inbound_track", "digit": digit})

    async def call(self) -> None:
        """Send 20 ms of sound and play 20 ms, for ever."""
        silence, chunk = b"\xff" * PACKET, 0
        while True:
            packet = bytes(self._to_say[:PACKET]).ljust(PACKET, b"\xff") or silence
            del self._to_say[:PACKET]
            chunk += 1
            payload = base64.b64encode(packet).decode()
            await self.send(
                "media",
                media={
                    "track": "inbound",
                    "chunk": str(chunk),
                    "timestamp": str(chunk * 20),
                    "payload": payload,
                },
            )
            await self._play()
            await asyncio.sleep(0.02 / self._pace)

    async def listen(self) -> None:
        try:
            async for text in self._socket:
                message = orjson.loads(text)
                assert message["streamSid"] == STREAM
                self.received.append(message)
                match message["event"]:
                    case "media":
                        self._playing.append(base64.b64decode(message["media"]["payload"]))
                    case "mark":
                        self._playing.append(message["mark"]["name"])
                    case "clear":
                        await self._clear()
                    case other:
                        raise AssertionError(other)
        except ConnectionClosed as closed:
            self.closed = closed.rcvd.code if closed.rcvd else None
        else:
            self.closed = self._socket.close_code

    def events(self, event: str) -> list[dict[str, Any]]:
        return [message for message in self.received if message["event"] == event]

    def played_samples(self) -> Samples:
        """What was played, at 24 kHz."""
        return FormatDecoder(AudioFormat.PCMU, OUTPUT_RATE).decode(bytes(self.played))

    async def _play(self) -> None:
        left = PACKET
        while self._playing and left:
            first = self._playing[0]
            if isinstance(first, str):
                self._playing.pop(0)
                await self.send("mark", mark={"name": first})
                continue
            self.played += first[:left]
            self._playing[0], left = first[left:], left - len(first[:left])
            if not self._playing[0]:
                self._playing.pop(0)

    async def _clear(self) -> None:
        waiting, self._playing = self._playing, []
        for item in waiting:
            if isinstance(item, str):
                await self.send("mark", mark={"name": item})


@asynccontextmanager
async def twilio_call(
    url: str, parameters: dict[str, str] | None = None, *, pace: float = 1.0
) -> AsyncIterator[TwilioPeer]:
    """A call that is on, with silence of the caller."""
    signature = signature_of(TOKEN, url)
    headers = {"X-Twilio-Signature": signature}
    async with connect(
        url, additional_headers=headers, user_agent_header="TwilioMediaStreams"
    ) as socket:
        peer = TwilioPeer(socket, pace)
        await peer.begin(parameters or {})
        tasks = [asyncio.create_task(peer.listen()), asyncio.create_task(peer.call())]
        try:
            yield peer
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert not [each for each in results if isinstance(each, AssertionError)], results
