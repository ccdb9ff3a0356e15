"""A request of `mode=chat`: what its client receives, and how it ends."""

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from antiphon.edge.errors import BudgetExceeded, Close, explain
from antiphon.edge.protocols.machine import Action, Finish, Forward, Phase, QueuePlace
from antiphon.edge.protocols.realtime_chat import (
    RealtimeChatMachine,
    decode_chat_event,
)
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.config import ChatOptions
from antiphon.shared_schemas.entries import (
    BreakIn,
    ChatDoneOut,
    ChatIn,
    DeltaOut,
    ErrorOut,
    OutEntry,
    PrefillDoneOut,
    ProgressOut,
    StopIn,
)
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.registry import SessionCommand
from antiphon.shared_schemas.states import EndReason
from antiphon.shared_schemas.unit_result import TokenUsage
from support.chat_mode_samples import CHAT_MODE
from support.edge_harness import base64_audio, no_uploaded_voices
from support.protocol_driver import Step, wires_of
from support.protocol_samples import GRANTED
from support.realtime_schema import CLIENT_V2, SERVER_V2, is_valid, valid_wires
from support.tools import WEATHER, calls_weather, weather_result

REQUEST = ChatIn(content=[], options=ChatOptions())
VOICE = base64_audio(8000)
IDS = {"response_id": "resp_7_2", "session_id": "chat_7"}


def _done(*, stopped: bool = False, audio: bytes = b"") -> ChatDoneOut:
    return ChatDoneOut(
        text="Hi.", audio=audio, generated_tokens=2, input_tokens=9, duration_ms=1, stopped=stopped
    )


def _machine(*, granted: bool = True) -> RealtimeChatMachine:
    machine = RealtimeChatMachine("chat_7", 2)
    if granted:
        assert machine.granted() == []
    return machine


_wires = partial(valid_wires, direction=SERVER_V2)


CLIENTS: dict[str, dict[str, Any]] = {
    "the documentation of the public demo": {
        "messages": [{"role": "user", "content": "Say: test"}],
        "streaming": True,
        "generation": {"max_new_tokens": 64, "length_penalty": 1.1},
        "image": {"max_slice_nums": 1},
        "omni_mode": False,
        "tts": {"enabled": False},
        "use_tts_template": False,
        "enable_thinking": False,
    },
    "a page that speaks its answers": {
        "messages": [{"role": "user", "content": "Say: test"}],
        "streaming": True,
        "generation": {"max_new_tokens": 64, "do_sample": True, "length_penalty": 1.1},
        "image": {"max_slice_nums": 1},
        "omni_mode": False,
        "tts": {"enabled": True, "mode": "audio_assistant", "ref_audio_data": VOICE},
        "use_tts_template": True,
    },
}


@pytest.mark.parametrize("name", CLIENTS)
async def test_the_requests_of_known_clients(name: str) -> None:
    event = {"type": "input.append", "input": CLIENTS[name]}
    assert is_valid(event, CLIENT_V2)
    request = await decode_chat_event(json.dumps(event), EdgeSettings(), no_uploaded_voices)
    assert isinstance(request, ChatIn)
    [message] = request.messages()
    assert message.text == "Say: test"
    assert (request.options.streaming, request.options.generation.max_new_tokens) == (True, 64)
    assert request.options.generation.length_penalty == 1.1
    assert request.options.tts.enabled is CLIENTS[name]["tts"]["enabled"]


def test_places_in_the_queue_are_not_reported() -> None:
    machine = _machine(granted=False)
    assert machine.placed(QueuePlace("7", 2, 3, 4.5, first=True)) == []


def test_a_client_that_may_resume_receives_its_place_and_the_grant() -> None:
    """Both have a token."""
    machine = RealtimeChatMachine("chat_7", 2, resumable=True)
    sent = [*machine.placed(QueuePlace("7", 2, 3, 4.5, first=True)), *machine.granted()]
    assert [wire["type"] for wire in _wires(sent)] == ["session.queued", "session.queue_done"]


def test_a_restored_request_ends_as_its_client_asked() -> None:
    machine = _machine()
    machine.receive(StopIn())
    again = RealtimeChatMachine("chat_7", 2, resumable=True)
    again.restore(None, [REQUEST, StopIn()], granted=True)
    [closed] = _wires(again.deliver(_done(stopped=True), 0))
    assert (closed["type"], closed["reason"], again.closing) == (
        "session.closed",
        "client_closed",
        True,
    )


def test_a_client_that_asks_receives_the_id_of_the_recording() -> None:
    machine = _machine()
    machine.recording = "8b1f"
    [done] = wires_of(machine.deliver(_done(), 0))
    assert done["recording_session_id"] == "8b1f"


@pytest.mark.parametrize(
    ("entry", "sent"),
    [
        (ProgressOut(done=0.5), []),
        (PrefillDoneOut(input_tokens=9), []),
        (DeltaOut(text_delta="Hi"), [{"kind": "text", "text": "Hi"}]),
        (
            DeltaOut(text_delta="Hi", audio=bytes(4)),
            [{"kind": "text", "text": "Hi"}, {"kind": "audio", "audio": "AAAAAA=="}],
        ),
    ],
)
def test_deltas_have_one_kind_of_output(entry: OutEntry, sent: list[dict[str, Any]]) -> None:
    expected = [{"type": "response.output.delta", **IDS, **each} for each in sent]
    assert _wires(_machine().deliver(entry, 0)) == expected


def test_an_answer_ends_with_its_text() -> None:
    machine = _machine()
    actions = machine.deliver(_done(audio=bytes(4)), 0)
    done = {"type": "response.done", **IDS, "text": "Hi.", "reason": "turn_end"}
    assert _wires(actions) == [{**done, "audio": "AAAAAA=="}]
    assert actions[-1] == Finish(Close.NORMAL, EndReason.STOPPED)
    machine.ended(EndReason.STOPPED)  # the row of the session says so a little later
    assert not machine.closing


def test_an_answer_has_the_tokens_of_its_request() -> None:
    entry = replace(_done(), usage=TokenUsage(input_text=9, input_vision=64, output_text=2))
    [done] = _wires(_machine().deliver(entry, 0))
    assert (done["usage"]["input_tokens"], done["usage"]["output_tokens"]) == (73, 2)
    details = done["usage"]["input_token_details"]
    assert (details["image_tokens"], details["video_tokens"]) == (64, 0)


def test_calls_of_tools_come_with_the_end() -> None:
    calls = [call.wire() for call in calls_weather("Rome", "Paris").tool_calls]
    [done] = _wires(_machine().deliver(replace(_done(), text="", tool_calls=calls), 0))
    assert (done["text"], done["tool_calls"]) == ("", calls)


async def test_a_request_with_tools() -> None:
    call = calls_weather("Rome").tool_calls[0]
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "weather Rome"},
        {"role": "assistant", "tool_calls": [call.wire()]},
        {"role": "tool", "tool_call_id": call.id, "content": "sunny"},
    ]
    event = {"type": "input.append", "input": {"messages": messages, "tools": [WEATHER]}}
    assert is_valid(event, CLIENT_V2)
    request = await decode_chat_event(json.dumps(event), EdgeSettings(), no_uploaded_voices)
    assert isinstance(request, ChatIn)
    assert request.options.tools == [WEATHER]
    assert request.messages()[2] == weather_result("Rome")
    event["input"]["tools"] = [{"type": "function", "function": {"name": "what time"}}]
    assert not is_valid(event, CLIENT_V2)
    with pytest.raises(InvalidInput) as refused:
        await decode_chat_event(json.dumps(event), EdgeSettings(), no_uploaded_voices)
    assert refused.value.field == "tools.0.function.name"


def test_an_answer_stopped_by_http_leaves_the_connection_open() -> None:
    machine = _machine()
    assert list(machine.commanded(SessionCommand.INTERRUPT)) == [Forward(BreakIn())]
    [done] = _wires(machine.deliver(_done(stopped=True), 0))
    assert (done["type"], done["reason"], machine.closing) == ("response.done", "stopped", False)


def test_a_close_ends_the_connection() -> None:
    waiting, active = _machine(granted=False), _machine()
    [closed] = _wires(waiting.receive(StopIn()))
    assert (closed["type"], waiting.phase) == ("session.closed", Phase.OVER)
    assert active.receive(StopIn()) == [Forward(StopIn())]
    assert active.receive(StopIn()) == []
    assert _wires(active.deliver(_done(stopped=True), 0)) == [closed]
    assert waiting.closing
    assert active.closing


@pytest.mark.parametrize(
    ("code", "kinds", "close"),
    [
        (ErrorCode.INVALID_FIELD, ["error", "session.closed"], Close.POLICY),
        (ErrorCode.INFERENCE_ERROR, ["error", "session.closed"], Close.INTERNAL),
        (ErrorCode.CONTEXT_FULL, ["session.closed"], Close.NORMAL),
    ],
)
def test_errors_of_the_worker_end_the_connection(
    code: ErrorCode, kinds: list[str], close: Close
) -> None:
    machine = _machine()
    actions = machine.deliver(ErrorOut(code=code, message="bad", fatal=True), 0)
    assert [wire["type"] for wire in _wires(actions)] == kinds
    assert actions[-1].close is close  # type: ignore[union-attr]
    assert machine.closing


@pytest.mark.parametrize("error", [InvalidInput("bad"), BudgetExceeded("full"), ValueError("x")])
def test_every_error_ends_the_connection(error: Exception) -> None:
    machine = _machine()
    actions = machine.report(explain(error))
    assert [wire["type"] for wire in _wires(actions)] == ["error", "session.closed"]
    assert isinstance(actions[-1], Finish)
    assert machine.closing


@pytest.mark.parametrize("reason", [*EndReason, None])
def test_every_end_is_reported(reason: EndReason | None) -> None:
    *_, closed = _wires(_machine().ended(reason))
    assert closed["type"] == "session.closed"


def test_a_request_that_comes_too_fast_is_refused() -> None:
    """Unlike audio: its client waits for the answer."""
    machine = _machine()
    fault = explain(InvalidInput("too fast", code=ErrorCode.INPUT_BACKPRESSURE))
    assert [wire["type"] for wire in _wires(machine.report(fault))] == ["error", "session.closed"]


_STEPS = st.sampled_from(
    [*CHAT_MODE.messages.values(), *CHAT_MODE.messages.values(), *CHAT_MODE.entries, GRANTED]
)
_MISTAKES = st.sampled_from([*CHAT_MODE.mistakes.values(), SessionCommand.INTERRUPT])


@given(
    way=st.sampled_from(list(CHAT_MODE.setup.values())),
    steps=st.lists(_STEPS | _STEPS | _MISTAKES, max_size=30),
)
async def test_a_connection_ends_once_and_answers_no_more_than_it_was_asked(
    way: list[Step], steps: list[Step]
) -> None:
    connection = CHAT_MODE.connection(CHAT_MODE)
    actions: list[Action] = []
    for step in [*way, *steps]:
        actions += await connection.step(step)
        if connection.closed:
            break
    wires = _wires(actions)
    requests = [a for a in actions if isinstance(a, Forward) and isinstance(a.entry, ChatIn)]
    sent = [wire["type"] for wire in wires]
    assert sent.count("response.done") <= len(requests)
    assert sent.count("session.closed") == int(connection.closed)
    assert sum(isinstance(action, Finish) for action in actions) == int(connection.closed)
    if connection.closed:
        assert (sent[-1], type(actions[-1])) == ("session.closed", Finish)
