"""The served schema, the message classes and the public demo's schema agree."""

import json
import re
import typing
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from msgspec import structs

from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.messages.realtime import (
    ClosedReason,
    PlaybackEvent,
    RealtimeClientEvent,
    RealtimeCode,
    RealtimeServerEvent,
    SessionSettings,
    parse_realtime_event,
)
from antiphon.shared_schemas.states import WaitReason
from antiphon.shared_schemas.wire import ServerMessage
from support.realtime_schema import (
    CLIENT,
    OPTIONS,
    SCHEMA,
    SERVER,
    direction_of,
    is_valid,
    schema_for,
    served,
)

DEMANDS: dict[str, tuple[set[str], set[str]]] = {
    "session.queued": ({"position"}, {"estimated_wait_s", "ticket_id", "queue_length"}),
    "session.queue_update": ({"position"}, {"estimated_wait_s", "queue_length"}),
    "session.queue_done": (set(), set()),
    "session.created": ({"session_id"}, {"prompt_length"}),
    "response.output_audio.delta": ({"text", "audio", "end_of_turn", "kv_cache_length"}, set()),
    "response.listen": (set(), {"kv_cache_length"}),
    "session.closed": ({"reason"}, set()),
    "error": ({"error"}, set()),
}
"""Required and optional fields of the demo's server events; it accepts no others."""

ASKED_FOR = {
    "response.output_audio.delta": {"user_text", "interim_user_text"},
    "response.listen": {"user_text", "interim_user_text", "interrupted"},
    "session.queue_update": {"stale", "reason"},
    "session.queued": {"reason"},
    "session.created": {"recording_session_id"},
}
"""Fields that are sent only to clients that ask for notices or transcripts."""


@pytest.mark.parametrize("version", [1, 2])
def test_the_document_is_a_schema_of_known_options(version: int) -> None:
    document = served(version)
    Draft202012Validator.check_schema(document)
    assert set(re.findall(r'"x-option": "(\w+)"', json.dumps(document))) == OPTIONS
    queued = document["$defs"]["server"]["session.queued"]["properties"]
    assert queued["reason"]["enum"] == [str(reason) for reason in WaitReason]


@pytest.mark.parametrize("kind", typing.get_args(RealtimeServerEvent))
def test_server_classes_only_have_fields_of_both_schemas(kind: Any) -> None:
    ours = SCHEMA["$defs"]["server"][kind.type]
    asked_for = {field.name for field in structs.fields(ServerMessage)}
    asked_for |= ASKED_FOR.get(kind.type, set())
    sent = {field.name for field in structs.fields(kind)} - asked_for
    assert sent | {"type"} == set(ours["properties"])
    required, known = DEMANDS[kind.type]
    assert required <= set(ours["required"])
    assert sent == required | known


def test_client_classes_have_the_fields_of_the_schema() -> None:
    documented = set(typing.get_args(RealtimeClientEvent)) - {PlaybackEvent}
    assert len(documented) == len(SCHEMA["$defs"]["client"])
    for kind in documented:
        name = typing.get_args(kind.model_fields["type"].annotation)[0]
        assert set(kind.model_fields) == set(SCHEMA["$defs"]["client"][name]["properties"])
    settings = SCHEMA["$defs"]["client"]["session.update"]["properties"]["session"]
    assert set(SessionSettings.model_fields) == set(settings["properties"])


def test_codes_and_reasons_equal_those_of_the_document() -> None:
    error = SCHEMA["$defs"]["server"]["error"]["properties"]["error"]["properties"]
    assert set(error["code"]["enum"]) == set(RealtimeCode)
    assert {code.error_type for code in RealtimeCode} == set(error["type"]["enum"])
    closed = SCHEMA["$defs"]["server"]["session.closed"]["properties"]
    assert set(closed["reason"]["enum"]) == set(ClosedReason)


GOOD = [
    {"type": "session.update", "session": {"instructions": "Hi.", "max_slice_nums": 9}},
    {"type": "input_audio_buffer.append", "audio": "AAAA", "video_frames": ["AAAA"] * 4},
    {"type": "input_audio_buffer.append", "audio": "AAAA", "force_listen": True},
    {"type": "session.close", "reason": "user_stop"},
    {"type": "session.close"},
]
BAD = [
    {"type": "session.update", "session": {}},
    {"type": "session.update", "session": {"instructions": ""}},
    {"type": "session.update", "session": {"instructions": "Hi.", "max_slice_nums": 10}},
    {"type": "session.update", "session": {"instructions": "Hi.", "max_slice_nums": 1.5}},
    {"type": "input_audio_buffer.append"},
    {"type": "input_audio_buffer.append", "audio": "AAAA", "video_frames": ["AAAA"] * 5},
    {"type": "input_audio_buffer.append", "audio": "AAAA", "force_listen": 1},
    {"type": "session.close", "reason": 5},
    {"type": "response.create"},
]


@pytest.mark.parametrize("event", GOOD)
def test_events_that_the_schema_accepts_are_decoded(event: object) -> None:
    assert is_valid(event, CLIENT)
    assert not is_valid(event, SERVER)
    parse_realtime_event(event)


@pytest.mark.parametrize("event", BAD)
def test_events_that_the_schema_rejects_are_refused(event: object) -> None:
    assert not is_valid(event, CLIENT)
    with pytest.raises(InvalidInput):
        parse_realtime_event(event)


@pytest.mark.parametrize(
    ("asked", "event"),
    [
        ("resume", {"type": "session.queue_done", "seq": 1, "resume_token": "rt_1.x"}),
        ("resume", {"type": "resumed", "seq": 0, "resume_token": "rt_1.x"}),
        ("resume", {"type": "session.closed", "seq": 9, "reason": "stopped"}),
        ("notices", {"type": "session.notice", "limit": "duration", "seconds_left": 30.0}),
        ("notices", {"type": "session.queued", "position": 1, "reason": "no_worker"}),
        ("notices", {"type": "session.queue_update", "position": 1, "reason": "worker_loading"}),
        ("notices", {"type": "session.queue_update", "position": 0}),
        ("transcript", {"type": "response.listen", "kv_cache_length": 1, "user_text": "Hello?"}),
        ("capabilities", {"type": "session.queue_done", "capabilities": {"features": []}}),
    ],
)
def test_options_extend_the_schema(asked: str, event: dict[str, Any]) -> None:
    assert direction_of(schema_for(1, asked), "server_event").is_valid(event)
    assert not is_valid(event)


def test_playback_is_known_only_with_its_option() -> None:
    client = direction_of(schema_for(1, "playback_ack"), "client_event")
    event = {"type": "output_audio_buffer.playback_ack", "played_ms": 120}
    assert client.is_valid(event)
    assert not is_valid(event, CLIENT)
