"""Connections of OpenAI's Live and Realtime APIs, for `antiphon bench`.

They are here because only this folder imports websockets.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import orjson
import pybase64
import soxr
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from antiphon.client.errors import ClientError
from antiphon.client.link import edge_address, open_socket
from antiphon.client.options import ClientOptions
from antiphon.client.results import read_frame
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples, pcm16_bytes


@dataclass(frozen=True, slots=True)
class OpenAiLink:
    """A connection. `append` is the message with sound."""

    socket: ClientConnection
    append: str

    async def send(self, kind: str, **fields: Any) -> None:
        try:
            await self.socket.send(orjson.dumps({"type": kind, **fields}).decode())
        except ConnectionClosed as closed:
            raise ClientError(f"the connection was closed: {closed}") from None

    async def speak(self, samples: Samples) -> None:
        """`samples`: float32 at 16 kHz."""
        data = pcm16_bytes(soxr.resample(samples, INPUT_RATE, OUTPUT_RATE))
        await self.send(self.append, audio=pybase64.b64encode_as_string(data))

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """Raises ClientError for an error of the server, for what is no event, and if it closes."""
        try:
            while True:
                event, _ = read_frame(await self.socket.recv())
                if event["type"] == "error":
                    raise ClientError(_words(event.get("error")))
                yield event
        except ConnectionClosed as closed:
            raise ClientError(f"the connection was closed: {closed}") from None

    async def until(self, kind: str) -> None:
        """Read up to the next event of this kind."""
        async for event in self.events():
            if event["type"] == kind:
                return


@asynccontextmanager
async def connect_live(url: str, how: ClientOptions) -> AsyncIterator[OpenAiLink]:
    """Raises ClientError. The session has begun."""
    socket = await _open(edge_address(url, "/v1/live/sessions"), how)
    async with socket:
        link = OpenAiLink(socket, "session.input_audio.append")
        await link.send("session.start", session={"model": "bench"})
        await link.until("session.started")
        yield link


@asynccontextmanager
async def connect_openai_realtime(url: str, how: ClientOptions) -> AsyncIterator[OpenAiLink]:
    """Raises ClientError. The session may still wait for a worker."""
    socket = await _open(edge_address(url, "/v1/realtime", model="bench"), how)
    async with socket:
        link = OpenAiLink(socket, "input_audio_buffer.append")
        await link.until("session.created")
        yield link


def _words(error: Any) -> str:
    words = error.get("message") if isinstance(error, dict) else error
    return str(words or "the server sent an error without a text")


async def _open(address: str, how: ClientOptions) -> ClientConnection:
    """These APIs have no binary messages."""
    return await open_socket(address, how | ClientOptions(binary=False))
