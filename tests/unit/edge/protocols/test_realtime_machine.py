"""The events that a realtime session sends, and how it closes."""

from dataclasses import replace
from typing import Any

import pybase64
import pytest
from msgspec import structs

from antiphon.broker.errors import BrokerUnavailable, QueueFull, StaleFence
from antiphon.edge.errors import Close, Draining, NotJson, explain
from antiphon.edge.protocols.machine import Finish, QueuePlace
from antiphon.edge.protocols.realtime import (
    Phase,
    RealtimeMachine,
)
from antiphon.edge.protocols.realtime_codec import encode_realtime_error
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.entries import (
    ChunkIn,
    ErrorOut,
    OutEntry,
    PausedOut,
    PreparedOut,
    PrepareIn,
    ResultOut,
    StopIn,
    StoppedOut,
    TimeoutOut,
)
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.states import EndReason, WaitReason
from antiphon.shared_schemas.unit_result import UnitResult
from support.edge_harness import result
from support.protocol_driver import advance, wires_of
from support.realtime_schema import is_valid, valid_wires

UPDATE = PrepareIn(system_prompt="Hi.", config=DuplexConfig())
APPEND = ChunkIn(audio=b"abcd")
CLOSE = StopIn()
PREPARED = PreparedOut(input_n=1, prompt_length=7)
SID = "rt_1714200000000"
RECORDING = "0" * 32

SESSION = ["granted", UPDATE, PREPARED, CLOSE]


def _machine(stage: Phase, **options: bool) -> RealtimeMachine:
    machine = RealtimeMachine(SID, RECORDING, **options)
    advance(machine, stage, SESSION)
    return machine


def test_the_queue_and_the_start() -> None:
    machine = RealtimeMachine(SID, RECORDING)
    assert valid_wires(machine.placed(QueuePlace("7", 2, 3, 4.5, first=True))) == [
        {
            "type": "session.queued",
            "position": 2,
            "estimated_wait_s": 4.5,
            "ticket_id": "7",
            "queue_length": 3,
        }
    ]
    assert valid_wires(machine.placed(QueuePlace("7", 1, 3, 2.0, first=False))) == [
        {"type": "session.queue_update", "position": 1, "estimated_wait_s": 2.0, "queue_length": 3}
    ]
    without_worker = QueuePlace("7", 1, 3, None, first=False, reason=WaitReason.NO_WORKER)
    assert valid_wires(machine.placed(without_worker)) == [
        {"type": "session.queue_update", "position": 1, "queue_length": 3}
    ]
    assert wires_of(RealtimeMachine(SID, RECORDING, notices=True).placed(without_worker)) == [
        {"type": "session.queue_update", "position": 1, "queue_length": 3, "reason": "no_worker"}
    ]
    assert valid_wires(machine.granted()) == [{"type": "session.queue_done"}]
    machine.receive(UPDATE)
    created = {"type": "session.created", "session_id": SID, "prompt_length": 7}
    assert valid_wires(machine.deliver(PREPARED, 0)) == [created]
    asking = RealtimeMachine(SID, RECORDING, notices=True)
    asking.granted()
    asking.receive(UPDATE)
    with_recording = {**created, "recording_session_id": RECORDING}
    assert wires_of(asking.deliver(PREPARED, 0)) == [with_recording]


def _unit(*, listen: bool = False, text: str = "", audio: int = 0, **fields: Any) -> ResultOut:
    unit = UnitResult(is_listen=listen, text=text)
    stamps = {"input_n": 1, "received_at": 0.0, "read_at": 0.0}
    entry = ResultOut.of(unit, **stamps, prefill_ms=0.0, wall_clock_ms=0.0)
    return structs.replace(entry, **{"audio": bytes(4 * audio), "kv_cache_length": 100, **fields})


def _deltas(machine: RealtimeMachine, unit: ResultOut) -> list[tuple[object, ...]]:
    """(text, samples, end of turn) of each delta; listening is ()."""
    found: list[tuple[object, ...]] = []
    for wire in valid_wires(machine.deliver(unit, 0)):
        if wire["type"] == "response.listen":
            assert wire["kv_cache_length"] == 100
            found.append(())
            continue
        samples = len(pybase64.b64decode(str(wire["audio"]))) // 4
        found.append((wire["text"], samples, wire["end_of_turn"]))
    return found


@pytest.mark.parametrize("notices", [True, False])
def test_clients_with_notices_are_told_that_an_answer_was_cut(notices: bool) -> None:
    machine = _machine(Phase.ACTIVE, notices=notices)
    cut = _unit(listen=True, interrupted=True, text_before="Once")
    rest, listen = wires_of(machine.deliver(cut, 0))
    assert "interrupted" not in rest
    assert listen.get("interrupted") is (True if notices else None)


def test_units_become_deltas_and_listening() -> None:
    machine = _machine(Phase.ACTIVE)
    assert _deltas(machine, _unit(listen=True)) == [()]
    assert _deltas(machine, _unit(text="Hi", audio=24_000)) == [("Hi", 24_000, False)]
    assert _deltas(machine, _unit(audio=100, end_of_turn=True)) == [("", 100, True)]


def test_text_without_audio_is_sent_with_the_next_delta() -> None:
    machine = _machine(Phase.ACTIVE)
    assert _deltas(machine, _unit(text="Hello there")) == []
    last = _unit(text=", you", audio=10, text_before="Hello there")
    assert _deltas(machine, last) == [("Hello there, you", 10, False)]


def test_text_at_the_end_of_a_turn_gets_ten_milliseconds_of_silence() -> None:
    machine = _machine(Phase.ACTIVE)
    assert _deltas(machine, _unit(text="Bye.", end_of_turn=True)) == [("Bye.", 240, True)]
    assert _deltas(machine, _unit(end_of_turn=True)) == [("", 240, True)]
    listen = _unit(listen=True, text_before="Well")
    assert _deltas(machine, listen) == [("Well", 240, True), ()]


@pytest.mark.parametrize(
    ("entry", "reason", "finish"),
    [
        (StoppedOut(), "stopped", Finish(Close.NORMAL, EndReason.STOPPED)),
        (TimeoutOut(reason="late"), "timeout", Finish(Close.NORMAL, EndReason.PAUSE_TIMEOUT)),
        (
            ErrorOut(code="context_full", message="full", fatal=True),
            "context_full",
            Finish(Close.NORMAL, EndReason.CONTEXT_FULL),
        ),
    ],
)
def test_final_entries(entry: OutEntry, reason: str, finish: Finish) -> None:
    actions = _machine(Phase.ACTIVE).deliver(entry, 0)
    assert valid_wires(actions) == [{"type": "session.closed", "reason": reason}]
    assert actions[-1] == finish


@pytest.mark.parametrize("tokens", [4096, 8192, 16384])
def test_a_session_ends_when_the_context_of_its_engine_is_full(tokens: int) -> None:
    machine, unit = _machine(Phase.ACTIVE), {"listen": True, "context_tokens": tokens}
    actions = machine.deliver(_unit(**unit, kv_cache_length=tokens - 1), 0)
    assert [wire["type"] for wire in valid_wires(actions)] == ["response.listen"]
    actions = machine.deliver(_unit(**unit, kv_cache_length=tokens), 0)
    assert [wire["type"] for wire in valid_wires(actions)] == ["response.listen", "session.closed"]
    assert actions[-1] == Finish(Close.NORMAL, EndReason.CONTEXT_FULL)


@pytest.mark.parametrize("stage", [Phase.QUEUED, Phase.PREPARING, Phase.ACTIVE, Phase.STOPPING])
def test_the_time_limit_applies_in_any_state(stage: Phase) -> None:
    actions = _machine(stage).overdue()
    assert valid_wires(actions) == [{"type": "session.closed", "reason": "timeout"}]
    assert actions[-1] == Finish(Close.NORMAL, EndReason.PAUSE_TIMEOUT)


def test_an_inference_error_does_not_close() -> None:
    machine = _machine(Phase.ACTIVE)
    actions = machine.deliver(ErrorOut(code="inference_error", message="bad unit"), 0)
    error = {"code": "inference_error", "message": "bad unit", "type": "server_error"}
    assert valid_wires(actions) == [{"type": "error", "error": error}]
    assert not isinstance(actions[-1], Finish)
    assert machine.receive(APPEND)


def test_a_fatal_error_is_followed_by_the_close() -> None:
    actions = _machine(Phase.ACTIVE).deliver(
        ErrorOut(code="inference_error", message="broken", fatal=True), 0
    )
    assert [wire["type"] for wire in valid_wires(actions)] == ["error", "session.closed"]
    assert actions[-1] == Finish(Close.INTERNAL, EndReason.ERROR)


ENDS = {
    EndReason.STOPPED: ("stopped", Close.NORMAL),
    EndReason.PAUSE_TIMEOUT: ("timeout", Close.NORMAL),
    EndReason.CONTEXT_FULL: ("context_full", Close.NORMAL),
    EndReason.SERVER_SHUTDOWN: ("server_shutdown", Close.RESTART),
    EndReason.CANCELLED: ("error", Close.POLICY),
    EndReason.ERROR: ("error", Close.INTERNAL),
    EndReason.CLIENT_GONE: ("error", Close.INTERNAL),
    EndReason.WORKER_LOST: ("worker_connect_failed", Close.TRY_LATER),
    EndReason.EDGE_LOST: ("service_unavailable", Close.TRY_LATER),
    None: ("service_unavailable", Close.TRY_LATER),
}


@pytest.mark.parametrize(("reason", "expected"), ENDS.items())
def test_every_end_is_reported_and_closes(
    reason: EndReason | None, expected: tuple[str, Close]
) -> None:
    *sent, finish = _machine(Phase.ACTIVE).ended(reason)
    [wire] = valid_wires(sent)
    error = wire.get("error")
    word = error["code"] if isinstance(error, dict) else wire["reason"]
    assert isinstance(finish, Finish)
    assert (word, finish.close) == expected


FAULTS = [
    (QueueFull(9), "queue_full"),
    (BrokerUnavailable("down"), "service_unavailable"),
    (Draining(), "service_unavailable"),
    (InvalidInput("bad", field="audio"), "invalid_payload"),
    (InvalidInput("bad", code=ErrorCode.MESSAGE_TOO_LARGE), "invalid_payload"),
    (InvalidInput("bad", code=ErrorCode.MISSING_FIELD), "missing_field"),
    (InvalidInput("bad", code=ErrorCode.UNKNOWN_TYPE), "unknown_event"),
    (InvalidInput("bad", code=ErrorCode.INPUT_BACKPRESSURE), None),
    (NotJson("bad"), None),
    (StaleFence("newer"), "closed: error"),
    (ZeroDivisionError("secret"), "closed: error"),
]


@pytest.mark.parametrize(("fault", "expected"), FAULTS)
def test_errors_have_the_documented_messages(fault: Exception, expected: str | None) -> None:
    sent = [message.wire() for message in encode_realtime_error(explain(fault))]
    assert all(is_valid(wire) for wire in sent)
    if expected is None:
        assert sent == []
    elif expected.startswith("closed"):
        assert sent == [{"type": "session.closed", "reason": "error"}]
    else:
        assert [wire["error"]["code"] for wire in sent] == [expected]


def test_a_shutdown_is_no_error() -> None:
    fault = replace(explain(Draining()), close=Close.RESTART)
    closed = {"type": "session.closed", "reason": "server_shutdown"}
    assert [message.wire() for message in encode_realtime_error(fault)] == [closed]


def test_entries_of_other_protocols_are_a_defect() -> None:
    with pytest.raises(TypeError, match="paused"):
        _machine(Phase.ACTIVE).deliver(PausedOut(input_n=1, timeout_s=1), 0)


@pytest.mark.parametrize("version", [1, 2])
def test_a_client_that_asks_receives_what_the_user_said(version: int) -> None:
    """In the next event: version 1 holds text without audio back."""
    unit = structs.replace(result(2), memo={"user": "And now?"}, user_text_before="Hello?")
    said = {1: "Hello? And now?", 2: "And now?"}[version]

    def words(entry: ResultOut, name: str, *, asked: bool = True) -> list[str | None]:
        machine = RealtimeMachine(SID, RECORDING, transcript=asked)
        machine._negotiation.version = version
        return [event.get(name) for event in wires_of(machine.deliver(entry, 0))]

    sent = words(unit, "user_text")
    assert sent == [said, *[None] * (len(sent) - 1)]
    assert set(words(unit, "user_text", asked=False)) == {None}
    interim = structs.replace(unit, interim_user_text="")
    assert words(interim, "user_text", asked=False)[0] == said
    assert words(interim, "interim_user_text", asked=False)[0] == ""
