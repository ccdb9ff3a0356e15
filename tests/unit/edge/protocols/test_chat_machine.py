"""What a chat sends on its socket."""

import pytest
from msgspec import structs

from antiphon.edge.errors import Close
from antiphon.edge.protocols.chat import LEGAL, ChatMachine, Phase
from antiphon.edge.protocols.machine import Finish, Forward, QueuePlace
from antiphon.shared_schemas.config import ChatOptions
from antiphon.shared_schemas.entries import (
    BreakIn,
    ChatDoneOut,
    ChatIn,
    DeltaOut,
    ErrorOut,
    PrefillDoneOut,
    StopIn,
)
from antiphon.shared_schemas.registry import SessionCommand
from antiphon.shared_schemas.states import EndReason
from support.protocol_driver import advance, wires_of
from support.tools import calls_weather

STREAMED = ChatIn(content=[], options=ChatOptions())
WHOLE = ChatIn(content=[], options=ChatOptions(streaming=False))
PLACE = QueuePlace("7", 2, 3, 4.5, first=True)
DONE = ChatDoneOut(
    text="Hi.", audio=b"\0\0\0\0", generated_tokens=2, input_tokens=9, duration_ms=12.5
)


def _machine(phase: Phase, request: ChatIn = STREAMED) -> ChatMachine:
    machine = ChatMachine("rec")
    machine.apply_input(request)
    advance(machine, phase, ["granted", StopIn(), DONE])
    return machine


@pytest.mark.parametrize("phase", list(LEGAL))
def test_a_page_may_stop_the_current_answer(phase: Phase) -> None:
    machine = _machine(phase)
    answering = phase is Phase.ACTIVE
    assert machine.commanded(SessionCommand.INTERRUPT) == (
        [Forward(BreakIn())] if answering else []
    )
    assert machine.phase is (Phase.STOPPING if answering else phase)


def test_a_stop_in_the_queue_ends_the_request() -> None:
    *messages, finish = _machine(Phase.QUEUED).receive(StopIn())
    assert [(wire["type"], wire["stopped"]) for wire in wires_of(messages)] == [("done", True)]
    assert finish == Finish(Close.NORMAL, EndReason.STOPPED)


def test_no_queue_messages_without_a_wait() -> None:
    assert ChatMachine("rec").granted() == []


def test_queue_messages_with_a_wait() -> None:
    machine = ChatMachine("rec")
    assert [wire["type"] for wire in wires_of(machine.placed(PLACE))] == ["queued"]
    assert wires_of(machine.granted()) == [{"type": "queue_done"}]


def test_a_streamed_answer() -> None:
    machine = _machine(Phase.ACTIVE)
    prefill = PrefillDoneOut(input_tokens=9)
    assert wires_of(machine.deliver(prefill, 0)) == [{"type": "prefill_done", "input_tokens": 9}]
    assert wires_of(machine.deliver(DeltaOut(text_delta="Hi"), 0)) == [
        {"type": "chunk", "text_delta": "Hi"}
    ]
    assert wires_of(machine.deliver(DeltaOut(text_delta="", audio=b"\0\0\0\0"), 0)) == [
        {"type": "chunk", "audio_data": "AAAAAA=="}
    ]
    assert machine.deliver(DeltaOut(text_delta=""), 0) == []
    actions = machine.deliver(DONE, 0)
    assert wires_of(actions) == [
        {
            "type": "done",
            "text": "Hi.",
            "generated_tokens": 2,
            "input_tokens": 9,
            "recording_session_id": "rec",
        }
    ]
    assert actions[-1] == Finish(Close.NORMAL, EndReason.STOPPED)


@pytest.mark.parametrize(("audio", "sent"), [(b"\0\0\0\0", "AAAAAA=="), (b"", None)])
def test_a_non_streaming_answer(audio: bytes, sent: str | None) -> None:
    machine = _machine(Phase.ACTIVE, WHOLE)
    done = structs.replace(DONE, audio=audio, streaming=False)
    assert wires_of(machine.deliver(done, 0)) == [
        {
            "type": "done",
            "text": "Hi.",
            "generated_tokens": 2,
            "input_tokens": 9,
            "recording_session_id": "rec",
            "audio_data": sent,
        }
    ]


def test_calls_of_tools_come_with_the_end() -> None:
    calls = [call.wire() for call in calls_weather("Rome").tool_calls]
    done = structs.replace(DONE, text="", tool_calls=calls)
    for request in (STREAMED, WHOLE):
        (wire,) = wires_of(_machine(Phase.ACTIVE, request).deliver(done, 0))
        assert (wire["type"], wire["text"], wire["tool_calls"]) == ("done", "", calls)


def _refused(code: str) -> ErrorOut:
    return ErrorOut(code=code, message="bad", field="messages.0.content.1", fatal=True)


@pytest.mark.parametrize(
    ("code", "finish"),
    [
        ("invalid_field", Finish(Close.POLICY, EndReason.ERROR)),
        ("context_full", Finish(Close.POLICY, EndReason.CONTEXT_FULL)),
        ("inference_error", Finish(Close.INTERNAL, EndReason.ERROR)),
    ],
)
def test_errors_close(code: str, finish: Finish) -> None:
    actions = _machine(Phase.ACTIVE).deliver(_refused(code), 0)
    [wire] = wires_of(actions)
    assert (wire["type"], wire["code"], wire["field"]) == ("error", code, "messages.0.content.1")
    assert actions[-1] == finish
