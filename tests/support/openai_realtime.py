"""A client of the Realtime API made of OpenAI's SDK. It checks each event against the SDK's own type."""

import asyncio
import base64
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import soxr
from openai import AsyncOpenAI
from openai.resources.realtime.realtime import AsyncRealtimeConnection
from openai.types.realtime import RealtimeServerEvent
from pydantic import TypeAdapter

from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples, to_pcm16

_EVENTS: TypeAdapter[Any] = TypeAdapter(RealtimeServerEvent)
_WITHIN_S = 60


class RealtimeUser:
    """One connection. `events` has everything that was received."""

    def __init__(self, connection: AsyncRealtimeConnection) -> None:
        self.connection = connection
        self.events: list[Any] = []

    async def receive(self) -> Any:
        async with asyncio.timeout(_WITHIN_S):
            data = await self.connection.recv_bytes()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.events.append(_EVENTS.validate_json(data))
        return self.events[-1]

    async def until(self, kind: str, wanted: Callable[[Any], bool] = lambda _: True) -> Any:
        """The next event of this type that is wanted."""
        while True:
            event = await self.receive()
            if event.type == kind and wanted(event):
                return event

    async def send(self, kind: str, **fields: Any) -> None:
        event: Any = {"type": kind, **fields}
        await self.connection.send(event)

    async def update(self, **session: Any) -> Any:
        await self.send("session.update", session={"type": "realtime", **session})
        return await self.until("session.updated")

    async def add_text(self, text: str, **fields: Any) -> Any:
        content = [{"type": "input_text", "text": text}]
        item = {"type": "message", "role": "user", "content": content, **fields}
        await self.send("conversation.item.create", item=item)
        return await self.until("conversation.item.done")

    async def say(self, speech: Samples, silence_s: float = 1.0) -> None:
        """Speech at 16 kHz, in pieces of 40 ms as a microphone sends it, but faster."""
        quiet = np.zeros(int(silence_s * INPUT_RATE), np.float32)
        await self.append(pcm_24k(np.concatenate([speech, quiet])))

    async def append(self, data: bytes, piece: int = 1920) -> None:
        for start in range(0, len(data), piece):
            part = base64.b64encode(data[start : start + piece]).decode()
            await self.send("input_audio_buffer.append", audio=part)

    async def answer(self) -> "Answered":
        """Receive until the answer is complete."""
        begin = len(self.events)
        done = await self.until("response.done")
        return Answered(done.response, self.events[begin:])

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.events]


class Answered:
    """A complete answer, and the events since the one before it."""

    def __init__(self, response: Any, events: list[Any]) -> None:
        self.response = response
        self.events = events

    @property
    def sound(self) -> bytes:
        deltas = (e.delta for e in self.events if e.type == "response.output_audio.delta")
        return b"".join(map(base64.b64decode, deltas))

    @property
    def samples(self) -> Samples:
        """Of an answer in 16-bit PCM."""
        return np.frombuffer(self.sound, "<i2").astype(np.float32) / 32767

    @property
    def text(self) -> str:
        kinds = ("response.output_audio_transcript.delta", "response.output_text.delta")
        return "".join(e.delta for e in self.events if e.type in kinds)


def pcm_24k(speech: Samples) -> bytes:
    """16 kHz as the API takes it by default."""
    return to_pcm16(soxr.resample(speech, INPUT_RATE, OUTPUT_RATE)).tobytes()


@asynccontextmanager
async def realtime_user(
    http_url: str, *, key: str = "none", path: str = "/v1", **connect: Any
) -> AsyncIterator[RealtimeUser]:
    """Connected with the SDK, and greeted."""
    options = connect or {"model": "any"}
    async with (
        AsyncOpenAI(base_url=f"{http_url}{path}", api_key=key, max_retries=0) as client,
        client.realtime.connect(**options) as connection,
    ):
        user = RealtimeUser(connection)
        assert (await user.receive()).type == "session.created"
        yield user
