"""The schema of version 2 and the message classes agree."""

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.messages.chat import ChatRequest
from antiphon.shared_schemas.messages.realtime_v2 import (
    ClosedReasonV2,
    DuplexInput,
    InitPayload,
    OutputDelta,
    ResponseDone,
    SdkConfig,
    SessionClosedV2,
    SessionCreatedV2,
    parse_chat_mode_event,
    parse_v2_event,
)
from antiphon.shared_schemas.wire import ServerMessage
from support.realtime_schema import (
    CLIENT_V2,
    SCHEMA_V2,
    SERVER_V2,
    direction_of,
    is_valid,
    schema_for,
)

EVENTS = SCHEMA_V2["$defs"]
PROTOCOLS_MD = Path(__file__).parents[4] / "docs" / "protocols.md"
_NAME = re.compile(r"`(\w+)`")


@pytest.mark.parametrize("kind", [OutputDelta, ResponseDone, SessionClosedV2, SessionCreatedV2])
def test_server_classes_have_the_fields_of_the_schema(kind: type[ServerMessage]) -> None:
    asked_for = {field.name for field in structs.fields(ServerMessage)}
    sent = {field.name for field in structs.fields(kind)} - asked_for
    sent -= {
        "recording_session_id",
        "user_text",
        "interim_user_text",
        "interrupted",
    }  # if the client asks
    assert sent | {"type"} == set(EVENTS["server"][kind.type]["properties"])


def test_client_classes_have_the_fields_of_the_schema() -> None:
    init = EVENTS["client"]["session.init"]["properties"]["payload"]["properties"]
    assert set(init) == set(InitPayload.model_fields)
    assert set(init["config"]["properties"]) == set(SdkConfig.model_fields)
    assert set(EVENTS["duplex_input"]["properties"]) == set(DuplexInput.model_fields)
    assert set(EVENTS["chat_input"]["properties"]) <= set(ChatRequest.model_fields)


def test_the_document_has_every_setting_with_its_default() -> None:
    section = PROTOCOLS_MD.read_text().split("### Settings of full duplex")[1].split("###")[0]
    rows = [row.split(" | ") for row in section.splitlines() if row.startswith("| `")]
    documented = {
        name: default.strip("`")
        for names, defaults, *_ in rows
        for name, default in zip(_NAME.findall(names), defaults.split(", "), strict=True)
    }
    stated = DuplexConfig().model_dump(mode="json")
    assert documented == {
        name: "none" if value in (None, "") else str(value).lower()
        for name, value in stated.items()
    }


def test_reasons_equal_those_of_the_classes() -> None:
    closed = EVENTS["server"]["session.closed"]["properties"]
    assert set(closed["reason"]["enum"]) == set(ClosedReasonV2)


GOOD: list[dict[str, Any]] = [
    {"type": "session.init"},
    {"type": "session.init", "payload": {"config": {"length_penalty": 1.05}, "other": 1}},
    {"type": "session.init", "payload": {"mode": "turn_based", "voice": {}}},
    {"type": "input.append", "input": {"audio": "AAAA", "hints": {"force_listen": True}}},
    {"type": "session.close", "reason": "user_stop"},
]
BAD: list[dict[str, Any]] = [
    {"type": "session.init", "payload": {"mode": "simplex"}},
    {"type": "session.init", "payload": {"config": {"top_p": 0}}},
    {"type": "session.init", "payload": {"voice": {"ref_audio_base64": 1}}},
    {"type": "input.append"},
    {"type": "input.append", "input": {"video_frames": ["AAAA"]}},
    {"type": "input.append", "input": {"audio": "AAAA", "hints": {"max_slice_nums": 10}}},
    {"type": "input_audio_buffer.append", "audio": "AAAA"},
]


@pytest.mark.parametrize("event", GOOD)
def test_events_that_the_schema_accepts_are_decoded(event: object) -> None:
    assert is_valid(event, CLIENT_V2)
    parse_v2_event(event)


@pytest.mark.parametrize("event", BAD)
def test_events_that_the_schema_rejects_are_refused(event: object) -> None:
    assert not is_valid(event, CLIENT_V2)
    with pytest.raises(InvalidInput):
        parse_v2_event(event)


def test_a_chat_request_is_an_input() -> None:
    chat = {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "image", "data": "AAAA"}]},
        ],
        "streaming": False,
        "generation": {"max_new_tokens": 64},
        "tts": {"enabled": True},
    }
    event: dict[str, Any] = {"type": "input.append", "input": chat}
    assert is_valid(event, CLIENT_V2)
    parse_chat_mode_event(event)
    chat["messages"] = []
    assert not is_valid(event, CLIENT_V2)


DELTA = {"type": "response.output.delta", "response_id": "resp_1", "session_id": "rt_1"}


@pytest.mark.parametrize(
    ("event", "valid"),
    [
        ({**DELTA, "kind": "listen", "text": ""}, True),
        ({**DELTA, "kind": "text", "text": ""}, True),
        ({**DELTA, "kind": "text"}, False),
        ({**DELTA, "kind": "text", "text": "", "audio": "AAAA"}, False),
        ({**DELTA, "kind": "listen", "text": "Hi"}, False),
        ({**DELTA, "kind": "audio", "audio": "AAAA"}, True),
        ({"type": "response.output.delta", "kind": "listen", "session_id": "rt_1"}, False),
        ({"type": "session.closed", "reason": "bored", "diagnostic": {"message": ""}}, False),
        ({"type": "session.closed", "reason": "error", "diagnostic": "text"}, False),
        ({"type": "session.notice", "limit": "context", "seconds_left": 1}, False),
    ],
)
def test_server_events(event: object, valid: bool) -> None:
    assert is_valid(event, SERVER_V2) is valid


def test_options_extend_the_schema() -> None:
    events = direction_of(schema_for(2, "resume", "notices", "transcript"), "server_event")
    assert events.is_valid({**DELTA, "kind": "listen", "seq": 4})
    said = {"user_text": "Hello?", "interim_user_text": "And"}
    assert events.is_valid({**DELTA, "kind": "listen", **said, "seq": 4})
    assert events.is_valid({"type": "session.queue_done"})  # of a connection with `mode=chat`
    assert events.is_valid({"type": "session.queue_done", "seq": 1, "resume_token": "chat_1-1.x"})
    done = {"type": "response.done", "text": "", "reason": "turn_end", "seq": 3}
    ids = {"response_id": "resp_1", "session_id": "chat_1", "recording_session_id": "8b1f"}
    assert events.is_valid({**done, **ids})
    assert events.is_valid(
        {"type": "session.notice", "limit": "context", "seconds_left": 1, "seq": 1}
    )
