"""A user of OpenAI's Live API: the SDK's own connection, a microphone that never stops, and all events."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import numpy as np
from openai import AsyncOpenAI
from openai.resources.live.live import AsyncLiveConnection
from openai.types.live import ServerEvent
from pydantic import TypeAdapter
from websockets.exceptions import ConnectionClosed

from antiphon.edge.media.audio_formats import AudioFormat, FormatDecoder, FormatEncoder
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples

_EVENTS: TypeAdapter[Any] = TypeAdapter(ServerEvent)
CHUNK_S = 0.1
WITHIN_S = 60.0


class LiveUser:
    """`pace`: the speed of its microphone, 1 in real time."""

    def __init__(
        self,
        connection: AsyncLiveConnection,
        audio_format: AudioFormat = AudioFormat.PCM_24K,
        *,
        pace: float = 1.0,
    ) -> None:
        self.connection = connection
        self.events: list[Any] = []
        self.close_code: int | None = None
        self.audible = True
        self._encoder = FormatEncoder(audio_format, INPUT_RATE)
        self._decoder = FormatDecoder(audio_format, OUTPUT_RATE)
        self._pace = pace
        self._to_say: list[Samples] = []
        self._changed = asyncio.Condition()

    def say(self, speech: Samples) -> None:
        """Float32 at 16 kHz, sent after what is being said."""
        size = int(INPUT_RATE * CHUNK_S)
        padded = np.pad(speech, (0, -len(speech) % size))
        self._to_say += np.split(padded, len(padded) // size)

    async def listen(self) -> None:
        """Keep every event, each as the SDK reads it and as its types demand."""
        try:
            while True:
                data = await self.connection.recv_bytes()
                event = self.connection.parse_event(data)
                _EVENTS.validate_json(data)
                async with self._changed:
                    self.events.append(event)
                    self._changed.notify_all()
        except ConnectionClosed as closed:
            self.close_code = closed.rcvd.code if closed.rcvd else None
            async with self._changed:
                self._changed.notify_all()

    async def speak(self) -> None:
        silence = np.zeros(int(INPUT_RATE * CHUNK_S), np.float32)
        with suppress(ConnectionClosed):
            while True:
                if self.audible:
                    samples = self._to_say.pop(0) if self._to_say else silence
                    audio = base64.b64encode(self._encoder.encode(samples)).decode()
                    await self.connection.session.input_audio.append(audio=audio)
                await asyncio.sleep(CHUNK_S / self._pace)

    async def until(self, met: Callable[[], object], within_s: float = WITHIN_S) -> None:
        async with asyncio.timeout(within_s), self._changed:
            await self._changed.wait_for(lambda: met() or self.close_code is not None)
        assert met(), [getattr(event, "type", event) for event in self.events][-8:]

    async def until_quiet(self) -> None:
        """No event tells that an answer is complete: until no sound has come for three seconds."""
        came, quiet = 0, 0
        while quiet < 3.0 / CHUNK_S:
            await asyncio.sleep(CHUNK_S)
            before, came = came, len(self.of("session.output_audio.delta"))
            quiet = quiet + 1 if came == before else 0

    def of(self, kind: str) -> list[Any]:
        return [event for event in self.events if event.type == kind]

    async def first(self, kind: str) -> Any:
        await self.until(lambda: self.of(kind))
        return self.of(kind)[0]

    @property
    def answer(self) -> str:
        return "".join(event.delta for event in self.of("session.output_transcript.delta"))

    @property
    def input_transcript(self) -> str:
        return "".join(event.delta for event in self.of("session.input_transcript.delta"))

    @property
    def errors(self) -> list[Any]:
        return [event.error for event in self.of("error")]

    def sound(self) -> Samples:
        """Everything that the model said, at 24 kHz. Call it once: the decoder has a state."""
        deltas = [event.delta for event in self.of("session.output_audio.delta")]
        parts = [self._decoder.decode(base64.b64decode(delta)) for delta in deltas]
        return np.concatenate([np.zeros(0, np.float32), *parts])


@asynccontextmanager
async def live_user(
    url: str,
    key: str,
    session: Any = None,
    audio_format: AudioFormat = AudioFormat.PCM_24K,
    *,
    pace: float = 1.0,
) -> AsyncIterator[LiveUser]:
    """A connected user; with `session`, one whose session has begun and whose microphone is on."""
    async with (
        AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as client,
        client.live.connect() as connection,
    ):
        user = LiveUser(connection, audio_format, pace=pace)
        tasks = [asyncio.create_task(user.listen())]
        try:
            if session is not None:
                await connection.session.start(session=session, event_id="start")
                await user.first("session.started")
                tasks.append(asyncio.create_task(user.speak()))
            yield user
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
