"""OpenAI's Python SDK, unmodified but for the address and the key, against real processes."""

import base64
import io
import json
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import av
import httpx
import numpy as np
import openai
import pytest
import soundfile as sf
import soxr
from openai import OpenAI

from antiphon.edge.media.sound_files import encode_sound
from antiphon.edge.media.sound_process import read_sound_file
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, float_bytes
from support.edge_harness import picture
from support.page_scripts import NODE
from support.speech import share_voiced, words
from support.stack import Stack, new_stack
from support.synthetic_speech import ITALY

KEY = "the-key-of-openai"
QUICK = '{"slots": 2, "answer_pieces": 4, "speak_ms": 0, "prefill_ms": 0}'
ROOT = Path(__file__).parents[3]
WEB = ROOT / "web"
QUESTION = ROOT / "antiphon" / "cli" / "assets" / "question.wav"
HELLO: Any = [{"role": "user", "content": "Hello"}]
TOOLS: Any = [
    {"type": "function", "function": {"name": "time", "parameters": {"type": "object"}}},
]


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    with new_stack(tmp_path_factory.mktemp("openai")) as running:
        running.edge(api_keys=KEY)
        running.worker(engine_options=QUICK, slots=2)
        with OpenAI(base_url=f"{running.http_url}/v1", api_key=KEY, max_retries=0) as client:
            yield client


def test_models(quick: OpenAI) -> None:
    assert [model.id for model in quick.models.list()] == ["simulated"]
    assert quick.models.retrieve("simulated").owned_by == "antiphon"
    alias = quick.with_options(base_url=str(quick.base_url).replace("/v1", "/openai/v1"))
    assert [model.id for model in alias.models.list()] == ["simulated"]
    with pytest.raises(openai.NotFoundError) as missing:
        quick.models.retrieve("other")
    assert missing.value.param == "model"


def test_an_answer_at_once_and_streamed(quick: OpenAI) -> None:
    whole = quick.chat.completions.create(model="m", messages=HELLO, top_p=0)
    assert whole.choices[0].message.content == "This is simulated. 2 3 4"
    assert (whole.model, whole.choices[0].finish_reason) == ("m", "stop")
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 4
    options: Any = {"include_usage": True}
    with quick.chat.completions.create(
        model="m", messages=HELLO, stream=True, stream_options=options, max_tokens=2
    ) as stream:
        *chunks, last = list(stream)
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == "This is simulated. 2"
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices[0].finish_reason == "length"
    assert last.usage is not None
    assert (last.choices, last.usage.completion_tokens) == ([], 2)


def test_a_spoken_answer(quick: OpenAI) -> None:
    modalities: Any = ["text", "audio"]
    whole = quick.chat.completions.create(
        model="m", messages=HELLO, modalities=modalities, audio={"voice": "fable", "format": "mp3"}
    )
    audio = whole.choices[0].message.audio
    assert audio is not None
    assert audio.transcript == "This is simulated. 2 3 4"
    assert seconds_of(base64.b64decode(audio.data)) == pytest.approx(2.0, abs=0.2)
    stream = quick.chat.completions.create(
        model="m",
        messages=HELLO,
        modalities=modalities,
        audio={"voice": "alloy", "format": "pcm16"},
        stream=True,
    )
    deltas = [chunk.choices[0].delta for chunk in stream]
    parts = [delta.audio for delta in deltas if delta.audio is not None]
    sound = b"".join(base64.b64decode(part.data or "") for part in parts)
    assert len(sound) == 2 * 2 * OUTPUT_RATE
    assert "".join(part.transcript or "" for part in parts) == "This is simulated. 2 3 4"


@pytest.mark.parametrize("form", ["mp3", "wav", "opus", "flac", "aac", "pcm"])
def test_speech(quick: OpenAI, form: Any) -> None:
    with quick.audio.speech.with_streaming_response.create(
        model="tts-1", voice="alloy", input="One two three four.", response_format=form
    ) as response:
        data = b"".join(response.iter_bytes())
    seconds = len(data) / (2 * OUTPUT_RATE) if form == "pcm" else seconds_of(data)
    assert seconds == pytest.approx(2.0, abs=0.2)


def test_speech_is_mp3_by_default(quick: OpenAI) -> None:
    spoken = quick.audio.speech.create(model="tts-1", voice="alloy", input="One.")
    assert spoken.response.headers["content-type"] == "audio/mpeg"
    assert seconds_of(spoken.content) > 0.4


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a tool by force": ({"tools": TOOLS, "tool_choice": "required"}, "tools"),
    "no tool to force": ({"tool_choice": "required"}, "tool_choice"),
    "a tool that is not there": (
        {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "x"}}},
        "tool_choice.function.name",
    ),
    "a choice of no form": ({"tools": TOOLS, "tool_choice": "always"}, "tool_choice"),
    "two answers": ({"n": 2}, "n"),
    "JSON": ({"response_format": {"type": "json_object"}}, "response_format"),
    "an unknown voice": (
        {"modalities": ["audio"], "audio": {"voice": "bob", "format": "pcm16"}},
        "audio.voice",
    ),
    "an address": (
        {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "image_url", "image_url": {"url": "http://a/b.png"}}],
                }
            ]
        },
        "messages.0.content.0.image_url.url",
    ),
    "no picture": (
        {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "image_url", "image_url": {"url": "data:,AAAA"}}],
                }
            ]
        },
        "messages.0.content.0.image_url.url",
    ),
    "no sound": (
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
                    ],
                }
            ]
        },
        "messages.0.content.0.input_audio.data",
    ),
}


@pytest.mark.parametrize(("fields", "param"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_not_possible_is_refused_by_name(
    quick: OpenAI, fields: dict[str, Any], param: str, stream: bool
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        quick.chat.completions.create(
            **{"model": "m", "messages": HELLO, **fields, "stream": stream}
        )
    assert refused.value.param == param
    assert refused.value.type == "invalid_request_error"


@pytest.mark.parametrize("choice", [{}, {"tool_choice": "auto"}, {"tool_choice": "none"}])
def test_an_engine_without_tools_answers_unless_one_must_be_called(
    quick: OpenAI, choice: Any
) -> None:
    answer = quick.chat.completions.create(model="m", messages=HELLO, tools=TOOLS, **choice)
    assert answer.choices[0].message.content == "This is simulated. 2 3 4"


def test_errors_have_the_form_of_the_api(quick: OpenAI) -> None:
    wrong = quick.with_options(api_key="a-wrong-key-of-16")
    with pytest.raises(openai.AuthenticationError) as refused:
        wrong.models.list()
    assert refused.value.code == "invalid_api_key"
    with pytest.raises(openai.NotFoundError) as unknown:
        quick.embeddings.create(model="m", input="text")
    assert unknown.value.code == "not_found"
    with pytest.raises(openai.BadRequestError, match="does not transcribe") as engine:
        quick.audio.transcriptions.create(model="whisper-1", file=QUESTION)
    assert engine.value.param == "file"
    response = httpx.post(
        f"{quick.base_url}chat/completions",
        content=b"{",
        headers={"Authorization": f"Bearer {KEY}"},
    )
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_json")


def in_javascript(address: str, key: str) -> dict[str, Any]:
    """What OpenAI's package for JavaScript finds."""
    program = Path(__file__).with_name("openai_client.mjs")
    command = [NODE, program, WEB, f"{address}/v1", key, QUESTION]
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return cast("dict[str, Any]", json.loads(done.stdout))


@pytest.mark.extended
def test_the_package_for_javascript(quick: OpenAI) -> None:
    found = in_javascript(str(quick.base_url).removesuffix("/v1/"), KEY)
    assert found["models"] == ["simulated"]
    assert found["answer"] == found["streamed"] == found["transcript"] == "This is simulated. 2 3 4"
    assert found["usage"] == 4
    assert found["streamedUsage"] > 4
    assert found["spokenBytes"] > 2 * 2 * OUTPUT_RATE
    assert found["speechType"] == "audio/mpeg"
    assert found["speechBytes"] > 1000
    bad = ["BadRequestError", 400, "invalid_field"]
    assert found["transcription"] == [*bad, "file"]
    assert found["refused"] == {
        "tools": [*bad, "tools"],
        "n": [*bad, "n"],
        "key": ["AuthenticationError", 401, "invalid_api_key", None],
        "path": ["NotFoundError", 404, "not_found", None],
    }


def seconds_of(file: bytes) -> float:
    return len(read_sound_file(file, "file", 60)) / (2 * INPUT_RATE)


def webm(samples: Any) -> bytes:
    """Opus in WebM, as browsers record."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="webm") as container:
        stream = container.add_stream("libopus", rate=48_000, layout="mono")
        frame = av.AudioFrame.from_ndarray(
            (np.repeat(samples, 3) * 32767).astype("<i2").reshape(1, -1), "s16", "mono"
        )
        frame.sample_rate = 48_000
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            container.mux(packet)
    return buffer.getvalue()


@pytest.mark.extended
@pytest.mark.speech
def test_the_local_engine(local_stack: Stack) -> None:
    with OpenAI(base_url=f"{local_stack.http_url}/v1", api_key="none", max_retries=0) as client:
        _hears_and_speaks(client)
    found = in_javascript(local_stack.http_url, "none")
    assert "italy" in words(found["transcript"])
    assert found["words"] == len(found["transcript"].split())
    assert found["vtt"].startswith("WEBVTT")


def _hears_and_speaks(client: OpenAI) -> None:
    question, _ = sf.read(QUESTION, dtype="float32")
    sound = float_bytes(soxr.resample(question, INPUT_RATE, OUTPUT_RATE))
    files = {"m.wav": QUESTION.read_bytes(), "m.webm": webm(question)}
    files |= {f"m.{form}": encode_sound(form, sound) for form in ("mp3", "opus", "flac")}
    for name, data in files.items():
        transcript = client.audio.transcriptions.create(model="whisper-1", file=(name, data))
        assert "italy" in words(transcript.text), name
    verbose = client.audio.transcriptions.create(
        model="whisper-1", file=QUESTION, response_format="verbose_json", language="en"
    )
    assert verbose.duration == pytest.approx(3.4, abs=0.1)
    assert verbose.segments
    assert verbose.segments[0].text == verbose.text
    timed = client.audio.transcriptions.create(
        model="whisper-1",
        file=QUESTION,
        response_format="verbose_json",
        timestamp_granularities=["word"],
    )
    assert timed.segments is None
    assert timed.words
    assert " ".join(word.word for word in timed.words) == timed.text
    assert all(a.end <= b.start for a, b in pairwise(timed.words))
    assert timed.words[-1].end <= timed.duration
    srt = client.audio.transcriptions.create(
        model="whisper-1", file=QUESTION, response_format="srt"
    )
    assert str(srt).startswith("1\n00:00:01,")
    vtt = client.audio.transcriptions.create(
        model="whisper-1", file=QUESTION, response_format="vtt"
    )
    assert str(vtt).startswith("WEBVTT\n\n00:00:01.")
    with pytest.raises(openai.BadRequestError, match="hears en only"):
        client.audio.transcriptions.create(model="whisper-1", file=QUESTION, language="de")
    plain = client.audio.transcriptions.create(
        model="whisper-1", file=QUESTION, response_format="text"
    )
    assert "italy" in words(plain)

    spoken = client.audio.speech.create(
        model="tts-1", voice="fable", input=f"{ITALY} It is Rome.", response_format="wav"
    )
    pcm = np.frombuffer(spoken.content[44:], "<i2").astype(np.float32) / 32767
    assert share_voiced(f"{ITALY} It is Rome.", pcm) >= 0.7

    data = base64.b64encode(QUESTION.read_bytes()).decode()
    asked: Any = [
        {
            "role": "user",
            "content": [{"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}],
        }
    ]
    answer = client.chat.completions.create(
        model="m",
        messages=asked,
        temperature=0,
        modalities=["text", "audio"],
        audio={"voice": "alloy", "format": "wav"},
    )
    audio = answer.choices[0].message.audio
    assert audio is not None
    assert "rome" in words(audio.transcript)
    assert seconds_of(base64.b64decode(audio.data)) > 0.5

    red = base64.b64encode(picture(size=(320, 240))).decode()
    shown: Any = [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What do you see?"},
                {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{red}"}},
            ],
        }
    ]
    seen = client.chat.completions.create(model="m", messages=shown, temperature=0)
    assert seen.choices[0].message.content
