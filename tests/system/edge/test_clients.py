"""The Python clients against a real edge, in text and in both binary forms; the test plays the worker."""

import asyncio
from typing import Any

import numpy as np
import pytest

from antiphon.client.chat import ask
from antiphon.client.duplex import connect_duplex
from antiphon.client.errors import InvalidAudio, ServerError, SessionOver
from antiphon.client.half_duplex import Event, connect_half_duplex
from antiphon.client.options import ClientOptions
from antiphon.client.realtime import Listen, Spoken, connect_realtime
from antiphon.client.results import Piece
from antiphon.shared_schemas.audio import (
    INPUT_RATE,
    PcmFormat,
    Samples,
    float_bytes,
    samples_from_bytes,
)
from antiphon.shared_schemas.content import (
    AudioPart,
    ConversationMessage,
    ImagePart,
    Role,
    TextPart,
    VideoPart,
)
from antiphon.shared_schemas.entries import (
    ChatDoneOut,
    ChatIn,
    ChunkIn,
    DeltaOut,
    ErrorOut,
    GeneratingOut,
    PlaybackIn,
    PrefillDoneOut,
    ProgressOut,
    StopIn,
    StoppedOut,
    TurnDoneOut,
    VadOut,
)
from antiphon.shared_schemas.messages.chat import ChatTts
from antiphon.shared_schemas.messages.half_duplex import Generating, TurnDone, VadState
from antiphon.shared_schemas.states import EndReason
from support.edge_harness import (
    SPEECH,
    PlayedSession,
    PlayedWorker,
    RunningEdge,
    picture,
    result,
)
from support.tools import WEATHER, asks_weather, calls_weather, weather_result

SECOND = np.linspace(-0.5, 0.5, INPUT_RATE, dtype=np.float32)
MOVIE = b"\x00\x00\x00\x18ftypmp42 a short film"
FORMS: dict[str, ClientOptions] = {
    "text": {},
    "float32": {"binary": True},
    "16-bit": {"binary": True, "pcm": PcmFormat.S16},
}


in_every_form = pytest.mark.parametrize("how", FORMS.values(), ids=FORMS)
in_16_bits = pytest.mark.parametrize("how", [FORMS["16-bit"]], ids=["16-bit"])
"""It differs most from text, and one module writes and reads the forms for all clients."""


def equal(received: Samples, sent: Samples, how: ClientOptions) -> bool:
    """16-bit audio is rounded, the other forms are exact."""
    close = 1 / 32767 if how.get("pcm") is PcmFormat.S16 else 0.0
    return np.allclose(received, sent, rtol=0, atol=close)


async def stopped(session: PlayedSession) -> None:
    await session.expect(StopIn)
    await session.publish(StoppedOut())
    await session.end(EndReason.STOPPED)


@in_every_form
async def test_duplex(edge: RunningEdge, worker: PlayedWorker, how: ClientOptions) -> None:
    jpeg = picture()
    async with connect_duplex(edge.ws, video=True, **how) as client:
        session = await worker.claim()
        await client.wait_for_turn()
        preparing = asyncio.create_task(client.prepare("Be brief.", ref_audio=SECOND))
        entry = await session.prepare()
        assert equal(np.frombuffer(entry.ref_audio, "<f4"), SECOND, how)
        assert (await preparing).prompt_length == 42
        assert client.binary is how.get("binary", False)

        await client.send_audio(SECOND, frames=[jpeg], force_listen=True)
        chunk = await session.answer()
        assert chunk.pcm is how.get("pcm", PcmFormat.F32)
        assert equal(samples_from_bytes(chunk.audio, chunk.pcm), SECOND, how)
        assert (chunk.frames, chunk.force_listen) == ((jpeg,), True)
        unit = await anext(client.results())
        assert unit.text == "hi"
        assert equal(unit.audio, SPEECH, how)

        await client.playback_ack(750)
        assert (await session.expect(PlaybackIn)).played_ms == 750
        stopping = asyncio.create_task(client.stop())
        await stopped(session)
        await stopping
        assert client.ended_by == "stopped"


@in_16_bits
async def test_half_duplex(edge: RunningEdge, worker: PlayedWorker, how: ClientOptions) -> None:
    async with connect_half_duplex(edge.ws, **how) as client:
        session = await worker.claim()
        await client.wait_for_turn()
        preparing = asyncio.create_task(
            client.prepare(["Speak like this:", SECOND], greeting="Hello!")
        )
        entry = await session.prepare_half_duplex()
        assert entry.config.greeting == "Hello!"
        assert [type(part) for part in entry.system().parts] == [TextPart, AudioPart]
        assert equal(np.frombuffer(entry.ref_audio, "<f4"), SECOND, how)
        assert (await preparing).timeout_s == 180

        await client.send_audio(SECOND)
        chunk = await session.expect(ChunkIn)
        assert equal(samples_from_bytes(chunk.audio, chunk.pcm), SECOND, how)
        await session.publish(VadOut(input_n=2, speaking=False))
        await session.publish(GeneratingOut(input_n=2, turn_index=0, speech_duration_ms=900))
        await session.publish(DeltaOut(text_delta="Hello", audio=float_bytes(SPEECH)))
        await session.publish(TurnDoneOut(input_n=2, turn_index=0, text="Hello"))
        received: list[Event] = []
        async for event in client.events():
            received.append(event)
            if isinstance(event, TurnDone):
                break
        assert [type(event) for event in received] == [VadState, Generating, Piece, TurnDone]
        assert isinstance(received[2], Piece)
        assert equal(received[2].audio, SPEECH, how)
        closing = asyncio.create_task(client.stop())
        await stopped(session)
        assert (await closing).session_id == client.session_id


async def test_audio_that_the_edge_refuses_is_not_sent(
    edge: RunningEdge, worker: PlayedWorker
) -> None:
    """Of a chunk and of a voice; the session continues."""
    long = np.zeros(10 * INPUT_RATE, np.float32)
    chunk = "audio has 10 s, this edge takes at most 5 s in one message: send it in parts"
    async with connect_duplex(edge.ws) as duplex:
        session = await worker.claim()
        await duplex.wait_for_turn()
        with pytest.raises(InvalidAudio, match="audio has 70 s, this edge takes at most 60 s"):
            await duplex.prepare(ref_audio=np.zeros(70 * INPUT_RATE, np.float32))
        preparing = asyncio.create_task(duplex.prepare())
        await session.prepare()
        await preparing
        with pytest.raises(InvalidAudio, match=chunk):
            await duplex.send_audio(long)
        await duplex.send_audio(SECOND)
        assert (await session.answer()).audio == float_bytes(SECOND)
        stopping = asyncio.create_task(duplex.stop())
        await stopped(session)
        await stopping


async def test_half_duplex_and_realtime_audio_that_the_edge_refuses_is_not_sent(
    edge: RunningEdge, worker: PlayedWorker
) -> None:
    long = np.zeros(6 * INPUT_RATE, np.float32)
    async with connect_half_duplex(edge.ws) as half_duplex:
        session = await worker.claim()
        await half_duplex.wait_for_turn()
        with pytest.raises(InvalidAudio, match="audio has 6 s"):
            await half_duplex.send_audio(long)
        stopping = asyncio.create_task(half_duplex.stop())
        await stopped(session)
        await stopping
    async with connect_realtime(edge.ws) as realtime:
        session = await worker.claim()
        await realtime.wait_for_turn()
        creating = asyncio.create_task(realtime.update())
        await session.prepare()
        await creating
        with pytest.raises(InvalidAudio, match="audio has 6 s"):
            await realtime.append(long)
        with pytest.raises(InvalidAudio, match="audio has 3999 samples, at least 4000 are needed"):
            await realtime.append(SECOND[:3999])
        closing = asyncio.create_task(realtime.stop())
        await stopped(session)
        await closing


@pytest.mark.parametrize("how", [FORMS["text"], FORMS["16-bit"]], ids=["text", "16-bit"])
async def test_chat(edge: RunningEdge, worker: PlayedWorker, how: ClientOptions) -> None:
    progress: list[float] = []
    parts = (
        TextPart("What is this?"),
        AudioPart(float_bytes(SECOND)),
        ImagePart(picture()),
        VideoPart(MOVIE, 2),
    )
    history = [
        ConversationMessage(Role.SYSTEM, (TextPart("Be brief."),)),
        ConversationMessage(Role.USER, parts),
    ]
    tts = ChatTts(enabled=True)
    async with ask(edge.ws, history, tts=tts, on_progress=progress.append, **how) as answer:
        session = await worker.claim()
        request: ChatIn = await session.expect(ChatIn)
        assert list(request.messages()) == history
        assert request.options.tts.enabled
        await session.publish(ProgressOut(done=0.5))
        await session.publish(PrefillDoneOut(input_tokens=9))
        await session.publish(DeltaOut(text_delta="Hi"))
        await session.publish(DeltaOut(text_delta="", audio=float_bytes(SPEECH)))
        done = {"generated_tokens": 1, "input_tokens": 9, "duration_ms": 1.0}
        await session.publish(ChatDoneOut(text="Hi", **done))
        pieces = [piece async for piece in answer.pieces()]
        assert [piece.text for piece in pieces] == ["Hi", ""]
        assert equal(pieces[1].audio, SPEECH, how)
        assert (progress, answer.input_tokens, answer.ended_by) == ([0.5], 9, "done")
        assert (answer.done.text, answer.done.generated_tokens) == ("Hi", 1)


@in_16_bits
async def test_a_non_streaming_chat_and_a_refused_one(
    edge: RunningEdge, worker: PlayedWorker, how: ClientOptions
) -> None:
    history = [ConversationMessage(Role.USER, (TextPart("Hello"),))]
    done = {"text": "Hi", "generated_tokens": 1, "input_tokens": 9, "duration_ms": 1.0}
    async with ask(edge.ws, history, streaming=False, **how) as answer:
        session = await worker.claim()
        await session.expect(ChatIn)
        await session.publish(ChatDoneOut(audio=float_bytes(SPEECH), streaming=False, **done))
        whole = await answer.whole()
        assert whole.audio_data is not None
        assert equal(np.frombuffer(whole.audio_data, "<f4"), SPEECH, how)
        await session.end(EndReason.STOPPED)
    bad = [ConversationMessage(Role.USER, (ImagePart(b"GIF89a"),))]
    async with ask(edge.ws, bad, **how) as answer:
        with pytest.raises(ServerError) as refused:
            await answer.whole()
        assert refused.value.field == "messages.0.content.0.data"


@in_16_bits
async def test_a_chat_with_tools(
    edge: RunningEdge, worker: PlayedWorker, how: ClientOptions
) -> None:
    history = [asks_weather("Rome"), calls_weather("Rome"), weather_result("Rome")]
    calls = [call.wire() for call in calls_weather("Paris").tool_calls]
    done: dict[str, Any] = {"generated_tokens": 1, "input_tokens": 9, "duration_ms": 1.0}
    async with ask(edge.ws, history, tools=[WEATHER], **how) as answer:
        session = await worker.claim()
        request = await session.expect(ChatIn)
        assert list(request.messages()) == history
        assert request.options.tools == [WEATHER]
        await session.publish(ChatDoneOut(text="", tool_calls=calls, **done))
        assert (await answer.whole()).tool_calls == calls
        await session.end(EndReason.STOPPED)


async def test_a_chat_that_is_stopped(edge: RunningEdge, worker: PlayedWorker) -> None:
    async with ask(edge.ws, [ConversationMessage(Role.USER, (TextPart("Hello"),))]) as answer:
        session = await worker.claim()
        await session.expect(ChatIn)
        await answer.stop()
        await session.expect(StopIn)
        done = {"text": "", "generated_tokens": 0, "input_tokens": 9, "duration_ms": 1.0}
        await session.publish(ChatDoneOut(stopped=True, **done))
        assert (await answer.whole()).stopped is True


@in_16_bits
async def test_realtime(edge: RunningEdge, worker: PlayedWorker, how: ClientOptions) -> None:
    jpeg = picture()
    async with connect_realtime(edge.ws, playback_ack=True, **how) as client:
        session = await worker.claim()
        await client.wait_for_turn()
        await client.append(SECOND)
        with pytest.raises(ServerError) as early:
            await anext(client.events())
        assert early.value.code == "not_ready"
        creating = asyncio.create_task(client.update("Be brief.", ref_audio=SECOND))
        assert equal(np.frombuffer((await session.prepare()).ref_audio, "<f4"), SECOND, how)
        assert (await creating).session_id == session.claim.sid
        assert client.recording_id == session.claim.recording

        await client.append(SECOND, frames=[jpeg])
        chunk = await session.answer()
        assert equal(samples_from_bytes(chunk.audio, chunk.pcm), SECOND, how)
        assert chunk.frames == (jpeg,)
        await session.publish(result(3, speak=False))
        spoken, listening = [await anext(client.events()) for _ in range(2)]
        assert isinstance(spoken, Spoken)
        assert isinstance(listening, Listen)
        assert equal(spoken.audio, SPEECH, how)

        await client.playback_ack(400)
        assert (await session.expect(PlaybackIn)).played_ms == 400
        await session.publish(ErrorOut(code="inference_error", message="no", fatal=True))
        with pytest.raises(ServerError, match="no"):
            await anext(client.events())
        assert [received async for received in client.events()] == []
        assert client.ended_by == "error"
        with pytest.raises(SessionOver, match="error"):
            await client.append(SECOND)
