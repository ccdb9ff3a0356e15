"""Half duplex: a frame becomes a command."""

from typing import Any

import numpy as np
import orjson
import pybase64
import pytest

from antiphon.edge.protocols.half_duplex import HalfDuplexDecoder
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.content import AudioPart, TextPart
from antiphon.shared_schemas.entries import ChunkIn, HalfDuplexPrepareIn
from antiphon.shared_schemas.errors import InvalidInput


def _audio(samples: int, value: float = 0.5) -> str:
    return pybase64.b64encode_as_string(np.full(samples, value, "<f4").tobytes())


async def _read(message: object, **settings: Any) -> Any:
    return await HalfDuplexDecoder(EdgeSettings(**settings)).decode(orjson.dumps(message).decode())


async def _prepare(**fields: Any) -> HalfDuplexPrepareIn:
    entry = await _read({"type": "prepare", **fields})
    assert isinstance(entry, HalfDuplexPrepareIn)
    return entry


async def test_a_prepare_of_the_reference_client() -> None:
    entry = await _prepare(
        system_prompt="Be brief.",
        config={
            "vad": {"threshold": 0.6, "min_silence_duration_ms": 500},
            "generation": {"max_new_tokens": 64, "temperature": 0.1},
            "tts": {"enabled": False},
            "session": {"timeout_s": 60},
        },
        ref_audio_base64=_audio(100),
    )
    assert entry.system().parts == (TextPart("Be brief."),)
    assert (entry.config.vad.threshold, entry.config.vad.min_silence_duration_ms) == (0.6, 500)
    assert entry.config.vad.speech_pad_ms == 30
    assert (entry.config.generation.max_new_tokens, entry.config.tts.enabled) == (64, False)
    assert entry.config.session.timeout_s == 60
    assert len(entry.ref_audio) == 400


async def test_defaults_are_those_of_the_reference_client() -> None:
    entry = await _prepare()
    assert entry.system().text == "You are a helpful assistant."
    assert entry.config.model_dump() == {
        "vad": {
            "threshold": 0.8,
            "min_speech_duration_ms": 128,
            "min_silence_duration_ms": 800,
            "speech_pad_ms": 30,
        },
        "generation": {
            "max_new_tokens": 256,
            "length_penalty": 1.1,
            "temperature": 0.7,
            "top_p": 0.8,
            "top_k": None,
        },
        "tts": {"enabled": True, "voice": ""},
        "session": {"timeout_s": 180.0},
        "greeting": "",
        "interim_transcripts": False,
        "barge_in": False,
        "end_on_goodbye": False,
        "time_zone": "",
        "record": True,
    }
    assert entry.ref_audio == b""


async def test_the_other_name_of_the_prompt() -> None:
    assert (await _prepare(prefix_system_prompt="Hm.")).system().text == "Hm."


async def test_a_system_content_list_and_its_voice() -> None:
    content = [
        {"type": "text", "text": "Mimic the voice."},
        {"type": "audio", "data": _audio(50)},
        {"type": "text", "text": "Be kind."},
    ]
    entry = await _prepare(system_prompt="ignored", system_content=content)
    voice = np.full(50, 0.5, "<f4").tobytes()
    parts = (TextPart("Mimic the voice."), AudioPart(voice), TextPart("Be kind."))
    assert entry.system().parts == parts
    assert entry.ref_audio == voice
    other = await _prepare(system_content=content, ref_audio_base64=_audio(10, 0.25))
    assert len(other.ref_audio) == 40


@pytest.mark.parametrize(
    "content", [None, [], [{"type": "text", "text": ""}, {"type": "audio", "data": None}]]
)
async def test_an_empty_content_list_counts_as_none(content: object) -> None:
    entry = await _prepare(system_prompt="Be brief.", system_content=content)
    assert entry.system().text == "Be brief."


@pytest.mark.parametrize("name", ["audio_base64", "audio"])
@pytest.mark.parametrize("samples", [1, 8000, 80_000])
async def test_chunks_of_any_length_up_to_the_limit(name: str, samples: int) -> None:
    entry = await _read({"type": "audio_chunk", name: _audio(samples)})
    assert isinstance(entry, ChunkIn)
    assert len(entry.audio) == 4 * samples


BAD = {
    "no type": ({}, "type"),
    "another protocol's type": ({"type": "pause"}, "type"),
    "no audio": ({"type": "audio_chunk"}, "audio_base64"),
    "bad base64": ({"type": "audio_chunk", "audio_base64": "!"}, "audio_base64"),
    "too long": ({"type": "audio_chunk", "audio_base64": _audio(80_001)}, "audio_base64"),
    "threshold": ({"type": "prepare", "config": {"vad": {"threshold": 2}}}, "config.vad.threshold"),
    "greeting": ({"type": "prepare", "config": {"greeting": "x" * 301}}, "config.greeting"),
    "a word for a number": (
        {"type": "prepare", "config": {"generation": {"max_new_tokens": "many"}}},
        "config.generation.max_new_tokens",
    ),
    "timeout": (
        {"type": "prepare", "config": {"session": {"timeout_s": 0}}},
        "config.session.timeout_s",
    ),
    "a part without a kind": (
        {"type": "prepare", "system_content": [{"text": "hi"}]},
        "system_content.0",
    ),
    "a picture": (
        {"type": "prepare", "system_content": [{"type": "image", "data": ""}]},
        "system_content.0",
    ),
    "text is a number": (
        {"type": "prepare", "system_content": [{"type": "text", "text": 5}]},
        "system_content.0.text",
    ),
    "audio of three bytes": (
        {"type": "prepare", "system_content": [{"type": "audio", "data": "AAAA"}]},
        "system_content.0.data",
    ),
    "voice": ({"type": "prepare", "ref_audio_base64": "AAAA"}, "ref_audio_base64"),
}


@pytest.mark.parametrize(("message", "field"), BAD.values(), ids=BAD.keys())
async def test_bad_input_names_its_field(message: object, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        await _read(message)
    assert refused.value.field == field
    assert field in refused.value.message
