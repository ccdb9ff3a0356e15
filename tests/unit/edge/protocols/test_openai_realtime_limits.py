"""What one client of OpenAI's Realtime API may keep in an edge, and what its small events cost."""

import base64
from typing import Any

import numpy as np
import pytest

from antiphon.edge.protocols.openai_realtime import machine as machines
from antiphon.edge.protocols.openai_realtime.input import MAX_BYTES, HeldInput
from antiphon.edge.protocols.openai_realtime.settings import (
    RealtimeState,
    new_session,
    updated_response,
    updated_session,
)
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, float_bytes
from antiphon.shared_schemas.config import TurnsConfig
from antiphon.shared_schemas.content import ConversationMessage, Role, TextPart, ToolCall, flatten
from antiphon.shared_schemas.entries import (
    ChunkIn,
    DeltaOut,
    GeneratingOut,
    InEntry,
    ItemIn,
    RespondIn,
    SettingsIn,
    TurnDoneOut,
)
from antiphon.shared_schemas.errors import InvalidInput
from support.openai_realtime_edge import RealtimeClient

LARGE: dict[str, Any] = {"x": [[]] * 25_000}
TOOL = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}
MIB = 1024 * 1024
RESTORED = 500
"""Items: more than the messages that may come at once."""


@pytest.fixture
def client() -> RealtimeClient:
    return RealtimeClient()


def error(events: list[dict[str, Any]]) -> dict[str, Any]:
    event = events[-1]
    assert event["type"] == "error"
    found: dict[str, Any] = event["error"]
    return found


def call_item(**fields: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}", **fields}


def test_settings_that_do_not_change_are_shared() -> None:
    state = RealtimeState(new_session("s", "m", 1))
    update = {
        "type": "realtime",
        "tools": [TOOL],
        "audio": {"input": {"transcription": {"model": "a", "prompt": "b"}}},
    }
    before = state.session
    state.session = after = updated_session(state, update)
    assert before["tools"] == []
    assert before["audio"]["input"]["transcription"] is None
    assert after["audio"]["output"] is before["audio"]["output"]
    assert after["audio"]["input"]["format"] is before["audio"]["input"]["format"]
    shown = updated_response(state, {"audio": {"output": {"voice": "marin"}}})
    assert shown["tools"] is after["tools"]
    assert shown["audio"]["input"] is after["audio"]["input"]
    assert shown["audio"]["output"]["voice"] == "marin"
    assert after["audio"]["output"]["voice"] == "alloy"


@pytest.mark.parametrize(
    ("update", "field"),
    [
        ({"audio": {"input": {"transcription": LARGE}}}, "audio.input.transcription"),
        ({"audio": {"input": {"noise_reduction": LARGE}}}, "audio.input.noise_reduction"),
        ({"tracing": LARGE}, "tracing"),
        ({"tracing": "x" * 20_000}, "tracing"),
        ({"truncation": LARGE}, "truncation"),
        ({"reasoning": LARGE}, "reasoning"),
        ({"include": ["x"] * 20_000}, "include"),
        ({"tools": [{**TOOL, "x": LARGE}]}, "tools"),
        ({"tools": [{**TOOL, "description": "x" * 2000}] * 40}, "tools"),
    ],
)
def test_a_setting_without_a_form_has_a_limit(
    client: RealtimeClient, update: dict[str, Any], field: str
) -> None:
    refused = error(client.update(**update))
    assert refused["param"] == f"session.{field}"
    assert "bytes of JSON" in refused["message"]
    assert client.update(instructions="A")[0]["type"] == "session.updated"


def test_a_number_that_no_event_can_carry_is_refused() -> None:
    state = RealtimeState(new_session("s", "m", 1))
    with pytest.raises(InvalidInput, match="more than 64 bits") as refused:
        updated_session(state, {"type": "realtime", "tracing": {"a": 10**30}})
    assert refused.value.field == "session.tracing"


@pytest.mark.parametrize(
    ("kind", "rate", "taken"),
    [
        ("audio/pcmu", 8000, True),
        ("audio/pcma", 8000, True),
        ("audio/pcma", None, True),
        ("audio/pcm", 24000, True),
        ("audio/pcm", 8000, False),
        ("audio/pcm", 16000, False),
        ("audio/pcmu", 16000, False),
    ],
)
def test_a_format_has_its_own_rate(
    client: RealtimeClient, kind: str, rate: int | None, taken: bool
) -> None:
    events = client.update(audio={"input": {"format": {"type": kind, "rate": rate}}})
    if taken:
        shown = events[-1]["session"]["audio"]["input"]["format"]
        assert shown["type"] == kind
    else:
        refused = error(events)
        assert refused["param"] == "session.audio.input.format.rate"
        own = "8000" if kind == "audio/pcmu" else "24000"
        assert f"input should be {own}" in refused["message"]


def test_an_empty_previous_item_is_none(client: RealtimeClient) -> None:
    item = {"type": "message", "role": "user", "content": []}
    client.send("conversation.item.create", item={**item, "id": "a"})
    events = client.send("conversation.item.create", item={**item, "id": "b"}, previous_item_id="")
    assert events[0]["type"] == "conversation.item.added"
    assert events[0]["previous_item_id"] == "a"


@pytest.mark.parametrize(
    "metadata",
    [{str(n): "" for n in range(17)}, {"a" * 65: ""}, {"a": "b" * 513}],
)
def test_metadata_has_the_limits_of_openai(
    client: RealtimeClient, metadata: dict[str, str]
) -> None:
    refused = error(client.send("response.create", response={"metadata": metadata}))
    assert refused["param"].startswith("response.metadata")
    most = {f"{n:064}": "é" * 512 for n in range(16)}
    [created] = client.send("response.create", response={"metadata": most})
    assert created["response"]["metadata"] == most


def test_a_conversation_is_restored_at_once(client: RealtimeClient) -> None:
    """Clients send all items without a pause, or delete and send them again."""
    client.grant()
    content = [{"type": "input_text", "text": "x" * 20}]
    item = {"type": "message", "role": "user", "content": content}
    for n in range(RESTORED):
        added = client.send("conversation.item.create", item={**item, "id": f"i{n}"})
        assert added[0]["type"] == "conversation.item.added"
    for n in range(RESTORED):
        [deleted] = client.send("conversation.item.delete", item_id=f"i{n}")
        assert deleted["type"] == "conversation.item.deleted"
    assert client.update(instructions="A")[0]["type"] == "session.updated"


def test_an_answer_that_is_removed_from_the_queue_gives_its_bytes_back(
    client: RealtimeClient,
) -> None:
    client.send("input_audio_buffer.clear")
    for _ in range(2 * MAX_BYTES // MIB):
        created = client.send("response.create", response={"instructions": "x" * (MIB - 1)})[-1]
        assert created["type"] == "response.created"
        client.send("response.cancel", response_id=created["response"]["id"])


def test_sound_that_is_removed_from_the_queue_makes_room_for_other_sound() -> None:
    held = HeldInput()
    second = ChunkIn(audio=bytes(2 * INPUT_RATE))
    for _ in range(2):
        for _ in range(60):
            held.add(second)
        assert held.dropped_ms == 0
        assert held.remove(lambda entry: isinstance(entry, ChunkIn))


CALL = ConversationMessage(Role.ASSISTANT, (), (ToolCall("c", "look", "x" * MIB),))
RESULT = ConversationMessage(Role.TOOL, (TextPart("x" * MIB),), tool_call_id="c")
TOOLS = TurnsConfig(tools=[{"type": "function", "function": {"name": "x" * MIB}}])


@pytest.mark.parametrize(
    "entry",
    [
        ItemIn(item_id="i", after=None, content=flatten([CALL])[0]),
        ItemIn(item_id="i", after=None, content=flatten([RESULT])[0]),
        RespondIn(response_id="r", config=TurnsConfig(), content=flatten([CALL])[0]),
        RespondIn(response_id="r", config=TurnsConfig(), refs=["x" * 128] * (MIB // 128)),
        RespondIn(response_id="r", config=TOOLS),
        SettingsIn(config=TOOLS),
    ],
)
def test_all_that_waits_is_counted(entry: InEntry) -> None:
    held = HeldInput()
    for _ in range(MAX_BYTES // MIB - 1):
        held.add(entry)
    with pytest.raises(InvalidInput, match="are kept while the session waits"):
        held.add(*[entry] * 2)


def spoken(transcript: str) -> dict[str, Any]:
    sound = base64.b64encode(bytes(480)).decode()
    part = {"type": "input_audio", "audio": sound, "transcript": transcript}
    return {"type": "message", "role": "user", "content": [part]}


@pytest.mark.parametrize(
    "item", [call_item(arguments=f'{{"a":"{"x" * 200_000}"}}'), spoken("x" * 200_000)]
)
def test_all_of_an_item_is_counted(client: RealtimeClient, item: dict[str, Any]) -> None:
    client.grant()
    most = machines.MAX_BYTES // 200_000
    for number in range(most):
        added = client.send("conversation.item.create", item={**item, "id": f"i{number}"})
        assert added[-1]["type"] == "conversation.item.done"
    refused = error(client.send("conversation.item.create", item=item))
    assert refused["message"].endswith("delete some")
    for number in range(most):
        client.send("conversation.item.delete", item_id=f"i{number}")
    assert client.machine._ledger.size == 0


@pytest.mark.parametrize(
    "fields",
    [{"name": "x" * 65}, {"name": "a b"}, {"arguments": f'{{"a":"{"x" * 300_000}"}}'}],
)
def test_a_call_has_the_name_of_a_function_and_arguments_of_a_limited_length(
    client: RealtimeClient, fields: dict[str, str]
) -> None:
    item = call_item(**fields)
    refused = error(client.send("conversation.item.create", item=item))
    assert refused["param"] == f"item.{min(fields)}"


def test_answers_that_are_not_done_have_a_limit(client: RealtimeClient) -> None:
    client.grant()
    beside = {"conversation": "none"}
    created = [client.send("response.create", response=beside)[-1] for _ in range(32)]
    assert {each["type"] for each in created} == {"response.created"}
    refused = error(client.send("response.create", response=beside, event_id="e33"))
    assert (refused["event_id"], refused["code"]) == ("e33", "rate_limit_exceeded")
    assert "at most 32" in refused["message"]
    assert len(client.forwarded) == 33  # the settings too
    first = created[0]["response"]["id"]
    client.deliver(TurnDoneOut(input_n=1, turn_index=0, text="", response_id=first))
    assert client.send("response.create", response=beside)[-1]["type"] == "response.created"


@pytest.mark.parametrize("conversation", ["auto", "none"])
def test_an_item_that_is_gone_leaves_nothing(client: RealtimeClient, conversation: str) -> None:
    client.grant()
    client.send("response.create", response={"conversation": conversation})
    [asked] = [each for each in client.forwarded if isinstance(each, RespondIn)]
    begun: dict[str, Any] = {"turn_index": 0, "speech_duration_ms": 0, "item_id": "item_1"}
    client.deliver(GeneratingOut(input_n=1, response_id=asked.response_id, **begun))
    said = DeltaOut(text_delta="a", audio=float_bytes(np.zeros(OUTPUT_RATE, np.float32)))
    client.deliver(said)
    client.send("conversation.item.truncate", item_id="item_1", audio_end_ms=500)
    client.send("conversation.item.delete", item_id="item_1")
    client.deliver(said)
    done = TurnDoneOut(input_n=1, turn_index=0, text="a", response_id=asked.response_id)
    client.deliver(done)
    ledger = client.machine._ledger
    assert (len(ledger), ledger._audio_ms, ledger._played_ms) == (0, {}, {})
