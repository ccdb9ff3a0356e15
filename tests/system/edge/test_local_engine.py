"""The local engine behind a real edge and a real Redis, in a worker of this process."""

from __future__ import annotations

import functools
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import numpy as np
import pybase64
import pytest

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.inference_worker.engines.local import duplex, half_duplex, transcription
from antiphon.inference_worker.engines.local.chat import LocalChatView
from antiphon.inference_worker.engines.local.duplex import LocalDuplexView
from antiphon.inference_worker.engines.local.half_duplex import LocalHalfDuplexView
from antiphon.inference_worker.engines.local.options import LocalOptions
from antiphon.inference_worker.engines.local.processor import LocalProcessor
from antiphon.inference_worker.engines.types import Delta
from antiphon.inference_worker.settings import WorkerSettings
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples, float_bytes
from support.edge_harness import Client, RunningEdge, base64_audio
from support.speech import say, words
from support.synthetic_speech import ITALY, JAPAN, silence, units_of
from support.worker_harness import worker_loops

pytestmark = pytest.mark.speech

STORY = "Tell me a long story about a cat."
CALM = {"temperature": 0.0, "max_new_tokens": 60}


@pytest.fixture(scope="module")
def engine() -> Iterator[LocalProcessor]:
    processor = LocalProcessor(LocalOptions(slots=1, context_tokens=768))
    processor.load(lambda _: None)
    yield processor
    processor.close()


@pytest.fixture(autouse=True)
async def _local_worker(
    engine: LocalProcessor, broker: Broker, settings: BrokerSettings
) -> AsyncIterator[None]:
    own = WorkerSettings(**{**settings.model_dump(), "slots": 1})
    async with worker_loops(engine, broker, own):
        yield


# Voices


async def _upload(edge: RunningEdge) -> tuple[str, Samples]:
    """The path of an uploaded voice, and its samples."""
    tone = 0.5 * np.sin(np.arange(INPUT_RATE) * 2 * np.pi * 440 / INPUT_RATE).astype(np.float32)
    audio = pybase64.b64encode_as_string(float_bytes(tone))
    async with httpx.AsyncClient(base_url=edge.url) as http:
        made = await http.post("/api/assets/ref_audio", json={"name": "A", "audio_base64": audio})
    return str(made.json()["path"]), tone


def _keep_voices(
    monkeypatch: pytest.MonkeyPatch, view: type[Any], method: str, index: int
) -> list[Samples | None]:
    """The argument `index` of every call of `method`, which works as before."""
    kept: list[Samples | None] = []
    original = getattr(view, method)

    @functools.wraps(original)
    def keeping(self: Any, *arguments: Any) -> Any:
        kept.append(arguments[index])
        return original(self, *arguments)

    monkeypatch.setattr(view, method, keeping)
    return kept


def _is_the_voice(received: list[Samples | None], uploaded: Samples) -> bool:
    """Whether exactly this voice arrived; an upload is kept with 16 bits."""
    [voice] = received
    assert voice is not None
    return voice == pytest.approx(uploaded, abs=1e-4)


async def test_an_uploaded_voice_reaches_a_call(
    edge: RunningEdge, monkeypatch: pytest.MonkeyPatch
) -> None:
    received = _keep_voices(monkeypatch, LocalDuplexView, "prepare", 2)
    path, uploaded = await _upload(edge)
    async with edge.client("adx_voice") as client:
        await client.expect("queue_done", skip=("queued", "queue_update"))
        await client.send("prepare", ref_audio_path=path)
        await client.expect("prepared")
        assert _is_the_voice(received, uploaded)
        await client.send("audio_chunk", audio=base64_audio())
        assert (await client.expect("result"))["is_listen"] is True
        await client.send("stop")
        await client.expect("stopped")


async def test_an_uploaded_voice_reaches_a_chat(
    edge: RunningEdge, monkeypatch: pytest.MonkeyPatch
) -> None:
    received = _keep_voices(monkeypatch, LocalChatView, "prefill", 2)
    path, uploaded = await _upload(edge)
    async with edge.open("/ws/chat") as client:
        tts = {"enabled": True, "ref_audio_path": path}
        await _ask(client, "What is the capital of France?", tts=tts)
        done = await client.expect("done", skip=("queued", "queue_done", "prefill_done", "chunk"))
        assert _is_the_voice(received, uploaded)
        assert "paris" in words(done["text"])


async def test_an_uploaded_voice_reaches_a_half_duplex_session(
    edge: RunningEdge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page sends the samples of the voice."""
    received = _keep_voices(monkeypatch, LocalHalfDuplexView, "prepare", 2)
    path, uploaded = await _upload(edge)
    async with (
        httpx.AsyncClient(base_url=edge.url) as http,
        edge.open("/ws/half_duplex/hdx_voice") as client,
    ):
        voice = await http.get(f"/api/assets/ref_audio/{path.removeprefix('uploaded:')}")
        await _prepare(client, ref_audio_base64=voice.json()["base64"])
        assert _is_the_voice(received, uploaded)


# Greeting


async def test_a_call_begins_with_a_greeting_and_the_question_is_answered(
    edge: RunningEdge,
) -> None:
    greeting = "Hello! How can I help you?"
    async with edge.client("adx_greeting") as client:
        await client.expect("queue_done", skip=("queued", "queue_update"))
        await client.send("prepare", config={"greeting": greeting, "temperature": 0.0})
        await client.expect("prepared")
        assert await _turn(client, silence(1.0)) == greeting
        assert await _turn(client, say(ITALY)) == "The capital of Italy is Rome."
        await client.send("stop")
        await client.expect("stopped")


async def test_a_half_duplex_session_begins_with_a_greeting(edge: RunningEdge) -> None:
    greeting = "Hello! How can I help you?"
    async with edge.open("/ws/half_duplex/hdx_greeting") as client:
        await _prepare(client, config={"greeting": greeting, "generation": CALM})
        assert (await client.expect("generating"))["speech_duration_ms"] == 0
        done = await client.expect("turn_done", skip=("chunk",))
        assert (done["turn_index"], done["text"]) == (0, greeting)
        await _speak(client, say(ITALY))
        done = await client.expect("turn_done", skip=("vad_state", "generating", "chunk"))
        assert done["turn_index"] == 1
        assert "rome" in words(done["text"])
        await client.send("stop")
        await client.expect("stopped")


async def _turn(client: Client, sound: Samples) -> str:
    """Send `sound` and silence until the model's turn ends; returns its text."""
    results: list[Any] = []
    chunks = iter(units_of(sound))
    while not (results and results[-1]["end_of_turn"]):
        await _send_unit(client, next(chunks, silence(1.0)))
        results.append(await client.expect("result"))
        assert len(results) < 40
    assert all(bool(result["text"]) <= bool(result["audio_data"]) for result in results)
    return "".join(result["text"] for result in results)


# Words of both sides while they are spoken


@pytest.fixture
def _tireless(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recogniser does not rest after interim work, and units wait for it.

    These tests speak faster than a user.
    """
    monkeypatch.setattr(transcription, "_SHARE_IN_PASSING", 1.0)
    monkeypatch.setattr(duplex, "_INTERIM_SHARE", 60.0)
    monkeypatch.setattr(half_duplex, "_INTERIM_PATIENCE_S", 60.0)


@pytest.mark.usefixtures("_tireless")
async def test_the_words_of_a_call_are_sent_while_they_are_spoken(edge: RunningEdge) -> None:
    async with edge.open("/ws/duplex/adx_words?word_times=1") as client:
        await _prepare(client, config={"interim_transcripts": True, "temperature": 0.0})
        results: list[Any] = []
        chunks = iter(units_of(say(ITALY)))
        while not (results and results[-1]["end_of_turn"]):
            await _send_unit(client, next(chunks, silence(1.0)))
            results.append(await client.expect("result"))
            assert len(results) < 40
    end = next(n for n, result in enumerate(results) if "user_text" in result)
    assert "Italy" in results[end]["user_text"]
    interim = [result["interim_user_text"] for result in results]
    assert any("capital" in text for text in interim[:end])
    assert not any(interim[end:])
    spoken = [result for result in results if result["text"]]
    assert "Rome" in spoken[-1]["text"]
    for result in spoken:
        times, texts = zip(*result["words"], strict=True)
        assert "".join(texts) == result["text"]
        assert list(times) == sorted(times)
        sound = pybase64.b64decode(result["audio_data"])
        assert 0 <= times[0] <= times[-1] <= len(sound) / 4 / OUTPUT_RATE * 1000


@pytest.mark.usefixtures("_tireless")
async def test_the_words_of_a_half_duplex_turn_are_sent_while_they_are_spoken(
    edge: RunningEdge,
) -> None:
    async with edge.open("/ws/half_duplex/hdx_words") as client:
        asked = {"interim_transcripts": True, "generation": CALM, "tts": {"enabled": False}}
        await _prepare(client, config=asked)
        for _ in range(2):  # the input of each turn begins at sample 0 again
            await _speak(client, say(JAPAN))
            states = []
            while (state := await client.message())["type"] == "vad_state":
                states.append(state)
            first, *between, last = states
            assert (first, last["speaking"]) == ({"type": "vad_state", "speaking": True}, False)
            assert all(state["speaking"] for state in between)
            interim = [state["interim_user_text"] for state in between]
            assert "capital" in interim[-1]
            assert len(interim) == len(set(interim)) > 1
            done = await client.expect("turn_done", skip=("generating", "chunk"))
            assert "Japan" in done["user_text"]


# Stopping one answer


class HeldAnswer:
    """Holds an answer of `view` after its first piece until the client's stop reaches the engine."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, view: type[Any], stop: str) -> None:
        self.first: Delta | None = None
        self._stopped = threading.Event()
        generate, end = view.generate, getattr(view, stop)

        def generating(view: Any) -> Iterator[Delta]:
            for delta in generate(view):
                yield delta
                if self.first is None:
                    self.first = delta
                    assert self._stopped.wait(60)

        def stopping(view: Any) -> None:
            end(view)
            self._stopped.set()

        monkeypatch.setattr(view, "generate", generating)
        monkeypatch.setattr(view, stop, stopping)


async def test_one_half_duplex_answer_is_stopped_and_the_next_question_is_answered(
    edge: RunningEdge, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = HeldAnswer(monkeypatch, LocalHalfDuplexView, "set_break")
    async with (
        edge.open("/ws/half_duplex/hdx_stop") as client,
        httpx.AsyncClient(base_url=edge.url) as http,
    ):
        await _prepare(client, config={"generation": CALM, "tts": {"enabled": False}})
        await _speak(client, say(STORY))
        chunk = await client.expect("chunk", skip=("vad_state", "generating"))
        answer = await http.post("/api/half_duplex/stop", json={"session_id": "hdx_stop"})
        assert answer.json()["success"] is True
        done = await client.expect("turn_done")
        assert held.first is not None
        assert done["text"] == chunk["text_delta"] == held.first.text
        await _speak(client, say(ITALY))
        done = await client.expect("turn_done", skip=("vad_state", "generating", "chunk"))
        assert done["turn_index"] == 1
        assert "rome" in words(done["text"])


async def test_a_chat_answer_is_stopped_and_the_next_question_is_answered(
    edge: RunningEdge, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = HeldAnswer(monkeypatch, LocalChatView, "stop")
    async with edge.open("/ws/chat") as client:
        await _ask(client, STORY)
        skipped = ("queued", "queue_done", "prefill_done")
        chunk = await client.expect("chunk", skip=skipped)
        await client.send("stop")
        done = await client.expect("done")
        assert done["stopped"] is True
        assert held.first is not None
        assert done["text"] == chunk["text_delta"] == held.first.text
        assert await client.close_code() == 1000
    async with edge.open("/ws/chat") as client:
        await _ask(client, ITALY)
        done = await client.expect("done", skip=(*skipped, "chunk"))
        assert "rome" in words(done["text"])


async def _send_unit(client: Client, sound: Samples) -> None:
    audio = pybase64.b64encode_as_string(sound.astype("<f4").tobytes())
    await client.send("audio_chunk", audio=audio)


async def _ask(client: Client, question: str, **fields: Any) -> None:
    messages = [{"role": "user", "content": question}]
    await client.send("chat", messages=messages, generation=CALM, **fields)


async def _prepare(client: Client, **fields: Any) -> None:
    await client.expect("queue_done", skip=("queued", "queue_update"))
    await client.send("prepare", **fields)
    await client.expect("prepared")


async def _speak(client: Client, speech: Samples) -> None:
    parts = [silence(0.7), speech, silence(1.6)]
    for chunk in units_of(np.concatenate(parts), INPUT_RATE // 2):
        audio = pybase64.b64encode_as_string(chunk.astype("<f4").tobytes())
        await client.send("audio_chunk", audio_base64=audio)
