from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.messages.duplex import (
    MAX_FRAMES,
    AudioChunk,
    ClientDiagnostic,
    Pause,
    Prepare,
    Resume,
    Stop,
    VideoFrame,
    parse_duplex_message,
)
from support.entry_strategies import json_values

TYPES = ["prepare", "audio_chunk", "video_frame", "pause", "resume", "stop", "client_diagnostic"]
FIELDS = [
    *("type", "audio", "audio_base64", "prefix_system_prompt", "system_prompt", "config", "frame"),
    *("ref_audio_path", "ref_audio_base64", "tts_ref_audio_base64", "deferred_finalize", "timeout"),
    *("max_slice_nums", "frame_base64_list", "force_listen", "metrics", "unknown"),
]


def refused(message: object) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        parse_duplex_message(message)
    return caught.value


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"type": "prepare"}, Prepare(type="prepare")),
        ({"type": "audio_chunk", "audio": "AA=="}, AudioChunk(type="audio_chunk", audio="AA==")),
        ({"type": "video_frame", "frame": "x"}, VideoFrame(type="video_frame", frame="x")),
        ({"type": "pause"}, Pause(type="pause")),
        ({"type": "pause", "timeout": 5}, Pause(type="pause", timeout=5.0)),
        ({"type": "resume"}, Resume(type="resume")),
        ({"type": "stop"}, Stop(type="stop")),
        ({"type": "client_diagnostic"}, ClientDiagnostic(type="client_diagnostic")),
    ],
    ids=lambda value: str(value)[:30],
)
def test_every_type_is_understood(message: dict[str, Any], expected: object) -> None:
    assert parse_duplex_message(message) == expected


@pytest.mark.parametrize(
    ("alias", "name", "extra"),
    [
        ("prefix_system_prompt", "system_prompt", {"type": "prepare"}),
        ("system_prompt", "system_prompt", {"type": "prepare"}),
        ("audio", "audio", {"type": "audio_chunk"}),
        ("audio_base64", "audio", {"type": "audio_chunk"}),
    ],
)
def test_both_names_of_a_field_are_understood(alias: str, name: str, extra: dict[str, Any]) -> None:
    assert getattr(parse_duplex_message({**extra, alias: "text"}), name) == "text"
    assert refused({**extra, alias: 5}).field == alias


def test_a_prepare_of_the_reference_client_is_decoded_in_full() -> None:
    config = {
        "generate_audio": True,
        "chunk_ms": 1000,
        "temperature": 0.7,
        "top_p": 0.8,
        "top_k": 20,
        "force_listen_count": 3,
        "max_new_speak_tokens_per_chunk": 20,
        "listen_prob_scale": 1.0,
        "ls_mode": "explicit",
        "sample_rate": 16000,
    }
    message = parse_duplex_message(
        {
            "type": "prepare",
            "prefix_system_prompt": "You are a fun assistant.",
            "config": config,
            "ref_audio_path": "assets/ref_audio/ref_minicpm_signature.wav",
        }
    )
    assert isinstance(message, Prepare)
    assert message.config.model_dump(include=config.keys()) == config
    assert message.config == DuplexConfig()
    assert message.ref_audio_path == "assets/ref_audio/ref_minicpm_signature.wav"


def test_unknown_fields_are_ignored_and_a_diagnostic_keeps_its_fields() -> None:
    assert parse_duplex_message({"type": "stop", "why": 1}) == Stop(type="stop")
    config = {"type": "prepare", "config": {"novelty": 1}}
    assert parse_duplex_message(config) == Prepare(type="prepare")
    kept = parse_duplex_message({"type": "client_diagnostic", "rtt": 3, "metrics": {"a": [1]}})
    assert kept.model_dump() == {"type": "client_diagnostic", "rtt": 3, "metrics": {"a": [1]}}


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({"type": "audio_chunk", "audio": 5}, "audio"),
        ({"type": "audio_chunk", "audio": None}, "audio"),
        ({"type": "audio_chunk", "audio": "", "force_listen": 1}, "force_listen"),
        ({"type": "audio_chunk", "audio": "", "force_listen": "yes"}, "force_listen"),
        ({"type": "audio_chunk", "audio": "", "max_slice_nums": 10}, "max_slice_nums"),
        ({"type": "audio_chunk", "audio": "", "frame_base64_list": "x"}, "frame_base64_list"),
        ({"type": "audio_chunk", "audio": "", "frame_base64_list": [5]}, "frame_base64_list.0"),
        (
            {"type": "audio_chunk", "audio": "", "frame_base64_list": [""] * (MAX_FRAMES + 1)},
            "frame_base64_list",
        ),
        ({"type": "video_frame", "frame": ["x"]}, "frame"),
        ({"type": "pause", "timeout": 0}, "timeout"),
        ({"type": "pause", "timeout": "60"}, "timeout"),
        ({"type": "pause", "timeout": float("inf")}, "timeout"),
        ({"type": "pause", "timeout": 10**400}, "timeout"),
        ({"type": "prepare", "prefix_system_prompt": ["x"]}, "prefix_system_prompt"),
        ({"type": "prepare", "prefix_system_prompt": "x" * 20_001}, "prefix_system_prompt"),
        ({"type": "prepare", "config": []}, "config"),
        ({"type": "prepare", "config": {"temperature": "hot"}}, "config.temperature"),
        ({"type": "prepare", "config": {"temperature": float("nan")}}, "config.temperature"),
        ({"type": "prepare", "config": {"top_p": 0}}, "config.top_p"),
        ({"type": "prepare", "config": {"top_k": 2.5}}, "config.top_k"),
        ({"type": "prepare", "config": {"ls_mode": "loud"}}, "config.ls_mode"),
        ({"type": "prepare", "config": {"sample_rate": 44100}}, "config.sample_rate"),
        ({"type": "prepare", "config": {"generate_audio": 1}}, "config.generate_audio"),
        ({"type": "prepare", "config": {"greeting": "x" * 301}}, "config.greeting"),
        ({"type": "prepare", "config": {"greeting": None}}, "config.greeting"),
        ({"type": "client_diagnostic", "metrics": 5}, "metrics"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_wrong_value_is_refused_by_name(message: dict[str, Any], field: str) -> None:
    error = refused(message)
    assert (error.field, error.code) == (field, ErrorCode.INVALID_FIELD)
    assert error.message.startswith(f"{field}: ")


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({}, "type"),
        ({"audio": "x"}, "type"),
        ({"type": "audio_chunk"}, "audio"),
        ({"type": "video_frame"}, "frame"),
    ],
)
def test_a_missing_field_is_named(message: dict[str, Any], field: str) -> None:
    error = refused(message)
    assert (error.field, error.code) == (field, ErrorCode.MISSING_FIELD)
    assert error.message.startswith(f"{field} is required")


@pytest.mark.parametrize("unknown", ["shout", "", "Prepare", None, 5, [], {}, "x" * 10_000])
def test_an_unknown_type_is_refused_with_the_known_ones(unknown: object) -> None:
    error = refused({"type": unknown})
    assert (error.field, error.code) == ("type", ErrorCode.UNKNOWN_TYPE)
    assert "audio_chunk" in error.message
    assert len(error.message) < 250


@pytest.mark.parametrize("value", [None, 5, 1.5, True, "prepare", [], [{"type": "stop"}]])
def test_anything_but_an_object_is_refused(value: object) -> None:
    assert refused(value).field == "type"


def nearly_messages() -> st.SearchStrategy[dict[str, Any]]:
    """Objects with the right names and any values: most fail deep inside the checks."""
    shapes = st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=6)
    kinds = st.sampled_from(TYPES)
    return st.builds(lambda fields, kind: {**fields, "type": kind}, shapes, kinds)


@settings(max_examples=400)
@given(value=json_values | nearly_messages())
def test_any_json_value_gives_a_message_or_a_refusal(value: object) -> None:
    try:
        outcome: object = parse_duplex_message(value)
    except InvalidInput as error:
        outcome = error
    assert getattr(outcome, "type", None) in TYPES or getattr(outcome, "field", None)
