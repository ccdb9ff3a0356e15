from typing import Any

import pytest

from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.messages.duplex import (
    MAX_FRAMES,
    Prepare,
    Stop,
    parse_duplex_message,
)


def refused(message: object) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        parse_duplex_message(message)
    return caught.value


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
