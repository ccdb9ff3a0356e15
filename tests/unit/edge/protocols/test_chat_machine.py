"""Chat: every message in every phase, and the messages of a worker's entries, on the socket and over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.edge.errors import Close
from antiphon.edge.protocols.chat import LEGAL, ChatHttpMachine, ChatMachine, Phase
from antiphon.edge.protocols.machine import Finish, Forward, QueuePlace
from antiphon.shared_schemas.config import ChatOptions
from antiphon.shared_schemas.entries import (
    ChatDoneOut,
    ChatIn,
    DeltaOut,
    ErrorOut,
    PrefillDoneOut,
    StopIn,
    VadOut,
)
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.registry import SessionCommand
from antiphon.shared_schemas.states import EndReason, WaitReason
from support.protocol_driver import run_sequence, wires_of
from support.tools import calls_weather

STREAMED = ChatIn(content=[], options=ChatOptions())
WHOLE = ChatIn(content=[], options=ChatOptions(streaming=False))
PLACE = QueuePlace("7", 2, 3, 4.5, first=True)
WITHOUT_WORKER = QueuePlace("7", 1, 1, None, first=True, reason=WaitReason.NO_WORKER)
DONE = ChatDoneOut(
    text="Hi.", audio=b"\0\0\0\0", generated_tokens=2, input_tokens=9, duration_ms=12.5
)

WAYS: dict[Phase, Callable[[ChatMachine], object]] = {
    Phase.QUEUED: lambda _: None,
    Phase.ACTIVE: lambda m: m.granted(),
    Phase.STOPPING: lambda m: (m.granted(), m.receive(StopIn())),
    Phase.OVER: lambda m: (m.granted(), m.deliver(DONE, 0)),
}


def _machine(phase: Phase, request: ChatIn = STREAMED) -> ChatMachine:
    machine = ChatMachine(request, "rec")
    WAYS[phase](machine)
    assert machine.phase is phase
    return machine


@pytest.mark.parametrize("phase", list(LEGAL))
def test_stop_in_every_phase(phase: Phase) -> None:
    machine = _machine(phase)
    if phase is Phase.ACTIVE:
        assert machine.receive(StopIn()) == [Forward(StopIn())]
        assert machine.phase is Phase.STOPPING
    elif phase is Phase.QUEUED:
        *messages, finish = machine.receive(StopIn())
        assert [(wire["type"], wire["stopped"]) for wire in wires_of(messages)] == [("done", True)]
        assert finish == Finish(Close.NORMAL, EndReason.STOPPED)
    else:
        with pytest.raises(InvalidInput) as refused:
            machine.receive(StopIn())
        assert refused.value.code is ErrorCode.NOT_READY


@pytest.mark.parametrize("phase", list(LEGAL))
def test_a_page_may_stop_the_current_answer(phase: Phase) -> None:
    machine = _machine(phase)
    answering = phase is Phase.ACTIVE
    assert machine.commanded(SessionCommand.INTERRUPT) == ([Forward(StopIn())] if answering else [])
    assert machine.phase is (Phase.STOPPING if answering else phase)


def test_no_queue_messages_without_a_wait() -> None:
    assert ChatMachine(STREAMED, "rec").granted() == [Forward(STREAMED)]


def test_queue_messages_with_a_wait() -> None:
    machine = ChatMachine(STREAMED, "rec")
    assert [wire["type"] for wire in wires_of(machine.placed(PLACE))] == ["queued"]
    messages, forwarded = machine.granted()
    assert wires_of([messages]) == [{"type": "queue_done"}]
    assert forwarded == Forward(STREAMED)


def test_a_streamed_answer() -> None:
    machine = _machine(Phase.ACTIVE)
    prefill = PrefillDoneOut(input_tokens=9)
    assert wires_of(machine.deliver(prefill, 0)) == [{"type": "prefill_done", "input_tokens": 9}]
    assert machine.deliver(prefill, 0) == []  # another worker read it again
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
    done = ChatDoneOut(text="Hi.", audio=audio, generated_tokens=2, input_tokens=9, duration_ms=1)
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
    done = replace(DONE, text="", tool_calls=calls)
    for request in (STREAMED, WHOLE):
        (wire,) = wires_of(_machine(Phase.ACTIVE, request).deliver(done, 0))
        assert (wire["type"], wire["text"], wire["tool_calls"]) == ("done", "", calls)
    machine = ChatHttpMachine(WHOLE, "rec")
    machine.granted()
    (body,) = wires_of(machine.deliver(done, 0))
    assert body["tool_calls"] == calls


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


@pytest.mark.parametrize("reason", [*EndReason, None])
@pytest.mark.parametrize("kind", [ChatMachine, ChatHttpMachine])
def test_every_end_is_reported_and_closes(
    kind: type[ChatMachine], reason: EndReason | None
) -> None:
    machine = kind(WHOLE, "rec")
    machine.granted()
    *messages, finish = machine.ended(reason)
    assert len(messages) == 1
    assert isinstance(finish, Finish)
    assert finish.close is not Close.NORMAL


def test_entries_of_other_protocols_are_a_defect() -> None:
    with pytest.raises(TypeError, match="vad"):
        _machine(Phase.ACTIVE).deliver(VadOut(input_n=1, speaking=True), 0)


def test_over_http_there_is_one_body() -> None:
    now = 100.0
    machine = ChatHttpMachine(WHOLE, "rec", lambda: now)
    assert machine.placed(PLACE) == []
    now = 101.5
    assert machine.granted() == [Forward(WHOLE)]
    assert machine.deliver(PrefillDoneOut(input_tokens=9), 0) == []
    assert machine.deliver(DeltaOut(text_delta="Hi"), 0) == []
    actions = machine.deliver(DONE, 0)
    assert wires_of(actions) == [
        {
            "text": "Hi.",
            "audio_path": None,
            "audio_data": "AAAAAA==",
            "audio_sample_rate": 24_000,
            "tokens_generated": 2,
            "duration_ms": 12.5,
            "prompt": None,
            "token_stats": {
                "cached_tokens": 0,
                "input_tokens": 9,
                "generated_tokens": 2,
                "total_tokens": 11,
            },
            "recording_session_id": "rec",
            "error": None,
            "success": True,
            "queue_wait_ms": 1500,
            "estimated_queue_wait_s": 4.5,
        }
    ]
    assert actions[-1] == Finish(Close.NORMAL, EndReason.STOPPED)


def test_over_http_a_request_without_a_worker_is_refused_after_a_while() -> None:
    now = 100.0
    machine = ChatHttpMachine(WHOLE, "rec", lambda: now, grace_s=5.0)
    looks = machine.deadlines()
    assert next(looks).at == 105.0
    machine.placed(WITHOUT_WORKER)
    now = 104.0
    machine.placed(WITHOUT_WORKER)  # still the same wait
    due = next(looks)
    assert (due.at, due.act()) == (105.0, [])
    now = 105.0
    [wire] = wires_of(refused := list(due.act()))
    assert (wire["code"], wire["error"]) == ("no_worker", "no worker is connected; try again later")
    assert refused[-1] == Finish(Close.TRY_LATER, EndReason.ERROR)
    assert list(looks) == []


@pytest.mark.parametrize(
    "place", [PLACE, replace(WITHOUT_WORKER, reason=WaitReason.WORKER_LOADING)]
)
def test_over_http_a_worker_that_comes_is_waited_for(place: QueuePlace) -> None:
    now = 100.0
    machine = ChatHttpMachine(WHOLE, "rec", lambda: now, grace_s=5.0)
    looks = machine.deadlines()
    machine.placed(WITHOUT_WORKER)
    now = 104.0
    machine.placed(place)
    now = 109.0
    due = next(looks)
    assert (due.at, due.act()) == (114.0, [])
    machine.granted()
    assert list(looks) == []


def test_over_http_errors_have_the_usual_fields() -> None:
    machine = ChatHttpMachine(WHOLE, "rec")
    machine.granted()
    [wire] = wires_of(machine.deliver(_refused("invalid_field"), 0))
    assert wire == {
        "success": False,
        "text": "",
        "error": "bad",
        "message": "bad",
        "detail": "bad",
        "code": "invalid_field",
        "field": "messages.0.content.1",
        "retryable": False,
    }


STEPS = st.sampled_from(
    [
        StopIn(),
        PLACE,
        "granted",
        PrefillDoneOut(input_tokens=9),
        DeltaOut(text_delta="Hi"),
        DONE,
        _refused("inference_error"),
        EndReason.WORKER_LOST,
    ]
)


@given(st.lists(STEPS, max_size=30), st.sampled_from([ChatMachine, ChatHttpMachine]))
def test_any_sequence_has_at_most_one_end(steps: list[object], kind: type[ChatMachine]) -> None:
    _, rejected = run_sequence(kind(STREAMED, "rec"), steps)
    assert rejected <= {ErrorCode.NOT_READY}
