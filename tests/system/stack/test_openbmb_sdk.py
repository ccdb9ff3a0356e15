"""The official SDK of the model makers, unmodified, against real processes."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
from openbmb_realtime import (
    AudioDelta,
    AudioSession,
    ErrorEvent,
    Interrupted,
    Paused,
    RealtimeClient,
    RealtimeConfig,
    RealtimeError,
    Resumed,
    SessionClosed,
    SessionQueued,
    SessionReady,
    TextDelta,
    TurnCompleted,
    UsageEvent,
    UserTranscript,
    VideoSession,
    WorkerAssigned,
)

from antiphon.shared_schemas.audio import INPUT_RATE, Samples, float_bytes
from support.edge_harness import picture
from support.speech import say, seconds, share_voiced, words
from support.stack import Stack, new_stack
from support.synthetic_speech import ITALY

KEY = "the-key-of-the-sdk"
SILENCE = bytes(4 * INPUT_RATE)
QUICK = (
    '{"slots": 1, "cycle_units": 4, "prepare_ms": 0, "prefill_ms": 0, "listen_ms": 0, "speak_ms": 0,'
    ' "finalize_ms": 0}'
)


class Calls:
    """Opens sessions, and keeps what they have sent."""

    def __init__(self, stack: Stack, key: str = KEY) -> None:
        self._client = RealtimeClient(api_key=key, base_url=f"{stack.http_url}/v1")
        self.events: list[Any] = []
        self.socket: Any = None

    @asynccontextmanager
    async def audio(self, **config: Any) -> AsyncIterator[AudioSession]:
        session = await self._client.audio.connect(model="any", config=RealtimeConfig(**config))
        async with session:
            self.socket = session._socket
            yield session

    @asynccontextmanager
    async def video(self, **config: Any) -> AsyncIterator[VideoSession]:
        session = await self._client.video.connect(model="any", config=RealtimeConfig(**config))
        async with session:
            yield session

    async def until(self, session: AudioSession | VideoSession, kind: type[Any]) -> Any:
        """The next event of this kind."""
        async for event in session:
            self.events.append(event)
            if isinstance(event, kind):
                return event
        raise AssertionError(f"no {kind.__name__} in {self.events}")

    async def turn(self, session: AudioSession) -> list[Any]:
        """The events of the next answer, in a session that is silent."""
        begin = len(self.events)
        while True:
            await session.send_audio(SILENCE)
            event = await self.until(session, TurnCompleted | TextDelta)
            if isinstance(event, TextDelta):
                break
        while not isinstance(await self.until(session, TurnCompleted | AudioDelta), TurnCompleted):
            await session.send_audio(SILENCE)
        return self.events[begin:]


@pytest.fixture(scope="module")
def quick_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with new_stack(tmp_path_factory.mktemp("sdk")) as running:
        running.edge(api_keys=KEY)
        running.worker(engine_options=QUICK, slots=1)
        yield running


async def test_an_answer_is_complete(quick_stack: Stack) -> None:
    calls = Calls(quick_stack)
    async with calls.audio() as session:
        assert calls.socket.subprotocol == "map.realtime"
        assert isinstance(await calls.until(session, WorkerAssigned), WorkerAssigned)
        ready = await calls.until(session, SessionReady)
        assert ready.session_id == session.id
        turn = await calls.turn(session)
        assert sum(isinstance(event, AudioDelta) for event in turn) == 2
        assert [event.text for event in turn if isinstance(event, TextDelta)] == [
            "unit 4",
            " unit 5",
        ]
    assert not [event for event in calls.events if isinstance(event, ErrorEvent)]
    assert (await calls.until(session, SessionClosed)).reason == "client_closed"


async def test_pause_and_interruption(quick_stack: Stack) -> None:
    calls = Calls(quick_stack)
    async with calls.audio() as session:
        session.pause()
        await session.send_audio(SILENCE)  # dropped by the SDK
        session.resume()
        await calls.until(session, Paused)
        await calls.until(session, Resumed)
        while True:
            await session.send_audio(SILENCE)
            if isinstance(await calls.until(session, TurnCompleted | AudioDelta), AudioDelta):
                break
        session.interrupt()
        await session.send_audio(SILENCE)
        await calls.until(session, Interrupted)
        await calls.until(session, TurnCompleted)


async def test_settings_have_their_effect(quick_stack: Stack) -> None:
    calls = Calls(quick_stack)
    async with calls.audio(
        tts_enabled=False, max_tokens=1, max_kv_tokens=8192, temperature=0.0, vision_hd=False
    ) as session:
        while True:
            await session.send_audio(SILENCE)
            event = await calls.until(session, TurnCompleted | TextDelta)
            if isinstance(event, TextDelta):
                break
        assert event.text == "unit"
    assert not [event for event in calls.events if isinstance(event, AudioDelta)]


async def test_what_has_no_effect_is_refused_by_name(quick_stack: Stack) -> None:
    with pytest.raises(RealtimeError, match=r"payload\.config\.max_kv_tokens: .*8192"):
        async with Calls(quick_stack).audio(max_kv_tokens=100):
            pass
    with pytest.raises(RealtimeError):
        async with Calls(quick_stack, "a-wrong-key-of-16").audio():
            pass


async def test_video_and_the_queue(quick_stack: Stack) -> None:
    first, second = Calls(quick_stack), Calls(quick_stack)
    async with first.video(vision_hd=True) as session:
        await session.send_audio_video(SILENCE, picture())
        await first.until(session, TurnCompleted)
        waiting = asyncio.create_task(_queued(second))
        await asyncio.wait([waiting], timeout=0.2)
        assert not waiting.done()
    place = await waiting
    assert (place.position, place.queue_length) == (1, 1)


async def _queued(calls: Calls) -> Any:
    async with calls.audio() as session:
        return await calls.until(session, SessionQueued)


async def _speak(session: AudioSession) -> None:
    for audio in seconds(1.0, say(ITALY), 60.0):
        await session.send_audio(float_bytes(audio))
        await asyncio.sleep(0.3)


@pytest.mark.extended
@pytest.mark.speech
async def test_a_spoken_question(local_stack: Stack) -> None:
    calls = Calls(local_stack)
    sound: list[Samples] = []
    async with calls.audio(temperature=0.0) as session:
        microphone = asyncio.create_task(_speak(session))
        transcript = await calls.until(session, UserTranscript)
        assert "italy" in words(transcript.text)
        usages = 0
        while not (sound and isinstance(calls.events[-1], TurnCompleted)):
            event = await calls.until(session, AudioDelta | TurnCompleted | UsageEvent)
            if isinstance(event, AudioDelta):
                sound.append(np.frombuffer(event.audio, "<f4"))
            usages += isinstance(event, UsageEvent)
        microphone.cancel()
        assert usages >= len(sound)  # one for each unit with sound
        before = session.usage
    text = "".join(event.text for event in calls.events if isinstance(event, TextDelta))
    assert "rome" in words(text)
    assert await asyncio.to_thread(share_voiced, text, np.concatenate(sound)) >= 0.7
    assert before is not None
    assert session.usage is not None
    assert session.usage.total_tokens >= before.total_tokens > 0
