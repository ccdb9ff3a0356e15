"""What the user says to the tiny model, as clients and recordings have it: in real processes."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import orjson
import pytest
from openbmb_realtime import RealtimeClient, RealtimeConfig, TurnCompleted, UserTranscript

from antiphon.client.duplex import connect_duplex
from antiphon.client.half_duplex import TurnDone, connect_half_duplex
from antiphon.shared_schemas.audio import Samples, float_bytes
from antiphon.shared_schemas.config import DuplexConfig, HalfDuplexConfig
from antiphon.shared_schemas.recording import parse_meta
from support.edge_harness import picture
from support.fork_server import run_antiphon
from support.minicpmo.golden_set import CHECKPOINT
from support.speech import say, seconds, share_recognised
from support.stack import Stack, new_stack, until
from support.synthetic_speech import ITALY, silence

pytestmark = pytest.mark.speech

SILENT = DuplexConfig(generate_audio=False, temperature=0.0, force_listen_count=0)
BRIEF = HalfDuplexConfig.model_validate(
    {"generation": {"max_new_tokens": 8}, "tts": {"enabled": False}}
)
MOST_UNITS = 400
"""Of silence, until the words must have come."""

SendSecond = Callable[[Samples], Awaitable[str | None]]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with new_stack(tmp_path_factory.mktemp("words")) as running:
        running.edge()
        running.recorder()
        main = "support.patient_worker"
        options = {"engine_options": '{"device": "cpu"}', "model_path": CHECKPOINT}
        running.worker("minicpmo", main=main, slots=1, transcribe=True, **options)
        yield running


async def words_of_the_user(second: SendSecond) -> str:
    """Speak, then send silence until a result has the words. Each second waits for its result."""
    for audio in seconds(1.0, say(ITALY), 1.0):
        if text := await second(audio):
            return text
    for _ in range(MOST_UNITS):
        if text := await second(silence(1.0)):
            return text
        await asyncio.sleep(0.1)
    raise AssertionError("no result has the words")


async def shown(stack: Stack, recording: str) -> dict[str, Any]:
    """What `antiphon recordings show` prints once the recording is complete."""
    meta = stack.data_dir / "sessions" / recording / "meta.json"
    await until(lambda: meta.exists() and not parse_meta(meta.read_bytes()).is_busy)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANTIPHON_")}
    arguments = ["recordings", "show", recording, "--json", "--data-dir", str(stack.data_dir)]
    ran = await asyncio.to_thread(run_antiphon, *arguments, folder=stack.folder, environment=kept)
    assert ran.returncode == 0, ran.stderr
    document: dict[str, Any] = orjson.loads(ran.stdout)
    return document


def read_timeline(stack: Stack, recording: str) -> dict[str, Any]:
    path = stack.data_dir / "sessions" / recording / "recording.json"
    content: dict[str, Any] = orjson.loads(path.read_bytes())
    return content


async def test_full_duplex(stack: Stack) -> None:
    async with connect_duplex(stack.ws_url, transcript=True) as session:
        await session.wait_for_turn()
        await session.prepare("Be kind.", SILENT)
        units = session.results()

        async def second(audio: Samples) -> str | None:
            await session.send_audio(audio)
            return (await anext(units)).user_text

        text = await words_of_the_user(second)
        await session.stop()
    assert share_recognised(ITALY, text) > 0.6
    recording = session.recording_id or ""
    document = await shown(stack, recording)
    assert [row["user_said"] for row in document["rows"] if row["user_said"]] == [text]
    assert document["meta"]["first_words"] == text
    results = [chunk["result"] for chunk in read_timeline(stack, recording)["chunks"]]
    assert [result["user_text"] for result in results if result.get("user_text")] == [text]


async def test_half_duplex(stack: Stack) -> None:
    async with connect_half_duplex(stack.ws_url, transcript=True) as session:
        await session.wait_for_turn()
        await session.prepare("Be kind.", BRIEF)
        for audio in seconds(1.0, say(ITALY), 2.0):
            await session.send_audio(audio)
        done = await anext(event async for event in session.events() if isinstance(event, TurnDone))
        text = done.user_text or ""
        await session.stop()
    assert share_recognised(ITALY, text) > 0.6
    recording = session.recording_id or ""
    document = await shown(stack, recording)
    assert [row["user_said"] for row in document["rows"]] == [text]
    assert document["meta"]["first_words"] == text
    turns = read_timeline(stack, recording)["turns"]
    assert [turn["input"]["text"] for turn in turns] == [text]


async def test_the_sdk_of_the_model_makers(stack: Stack) -> None:
    """Video in version 2, in text only: the tiny checkpoint has no vocoder."""
    client = RealtimeClient(api_key="none", base_url=stack.http_url)
    config = RealtimeConfig(tts_enabled=False)
    session = await client.video.connect(model="any", system_prompt="Be kind.", config=config)
    frame = picture(size=(64, 48))

    async def second(audio: Samples) -> str | None:
        session.interrupt()  # one event for each input, besides those of the words
        await session.send_audio_video(float_bytes(audio), frame)
        async for event in session:
            if isinstance(event, UserTranscript):
                return event.text
            if isinstance(event, TurnCompleted):
                return None
        raise AssertionError("the session is over")

    assert share_recognised(ITALY, await words_of_the_user(second)) > 0.6
    await session.close()
    assert session.usage is not None
    assert session.usage.vision_input_tokens >= 64
    assert session.usage.audio_input_tokens > 0
