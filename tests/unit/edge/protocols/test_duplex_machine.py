"""Every client command in every phase, and the messages of a worker's entries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.edge.errors import Close
from antiphon.edge.protocols.duplex import (
    LEGAL,
    WIRE_NAMES,
    CameraFrame,
    DuplexCommand,
    DuplexMachine,
)
from antiphon.edge.protocols.machine import MAX_HELD, Action, Finish, Forward, Phase, Send
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.entries import (
    ChunkIn,
    DiagnosticIn,
    ErrorOut,
    OutEntry,
    PausedOut,
    PauseIn,
    PlaybackIn,
    PreparedOut,
    PrepareIn,
    ResultOut,
    ResumedOut,
    ResumeIn,
    StopIn,
    StoppedOut,
    TimeoutOut,
)
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.states import EndReason
from antiphon.shared_schemas.unit_result import UnitResult
from support.protocol_driver import ENDINGS, run_sequence, wires_of

PREPARE = PrepareIn(system_prompt="Hi.", config=DuplexConfig())
CHUNK = ChunkIn(audio=b"abcd")
FRAME = CameraFrame(b"jpeg")
PAUSE = PauseIn(timeout_s=60)
RESUME = ResumeIn()
STOP = StopIn()
DIAGNOSTIC = DiagnosticIn(metrics={})
PLAYED = PlaybackIn(played_ms=1200)
COMMANDS: list[DuplexCommand] = [PREPARE, CHUNK, FRAME, PAUSE, RESUME, PLAYED, STOP, DIAGNOSTIC]
PREPARED = PreparedOut(input_n=1, prompt_length=7)

WAYS: dict[Phase, Callable[[DuplexMachine], object]] = {
    Phase.QUEUED: lambda _: None,
    Phase.QUEUED_PREPARED: lambda m: m.receive(PREPARE),
    Phase.ASSIGNED: lambda m: m.granted(),
    Phase.PREPARING: lambda m: (m.granted(), m.receive(PREPARE)),
    Phase.ACTIVE: lambda m: (m.granted(), m.receive(PREPARE), m.deliver(PREPARED, 0)),
    Phase.PAUSED: lambda m: (
        m.granted(),
        m.receive(PREPARE),
        m.deliver(PREPARED, 0),
        m.receive(PAUSE),
    ),
    Phase.STOPPING: lambda m: (m.granted(), m.receive(STOP)),
    Phase.OVER: lambda m: m.receive(STOP),
}

AFTER = {
    (Phase.QUEUED, PrepareIn): Phase.QUEUED_PREPARED,
    (Phase.QUEUED, StopIn): Phase.OVER,
    (Phase.QUEUED_PREPARED, StopIn): Phase.OVER,
    (Phase.ASSIGNED, PrepareIn): Phase.PREPARING,
    (Phase.ASSIGNED, StopIn): Phase.STOPPING,
    (Phase.PREPARING, StopIn): Phase.STOPPING,
    (Phase.ACTIVE, PauseIn): Phase.PAUSED,
    (Phase.ACTIVE, StopIn): Phase.STOPPING,
    (Phase.PAUSED, ResumeIn): Phase.ACTIVE,
    (Phase.PAUSED, StopIn): Phase.STOPPING,
}
"""The phase after each legal command; other commands do not change the phase."""


def _machine(phase: Phase, **options: bool) -> DuplexMachine:
    machine = DuplexMachine("adx_1", "rec", **options)
    WAYS[phase](machine)
    assert machine.phase is phase
    return machine


def _types(actions: list[Action]) -> list[str]:
    return [action.message.type for action in actions if isinstance(action, Send)]


def _forwarded(actions: list[Action]) -> list[object]:
    return [action.entry for action in actions if isinstance(action, Forward)]


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: WIRE_NAMES[type(c)])
def test_every_command_in_every_phase(phase: Phase, command: DuplexCommand) -> None:
    machine = _machine(phase)
    if type(command) in LEGAL[phase]:
        machine.receive(command)
        assert machine.phase is AFTER.get((phase, type(command)), phase)
        return
    with pytest.raises(InvalidInput) as refused:
        machine.receive(command)
    error = refused.value
    assert machine.phase is phase
    assert error.field == "type"
    assert error.code is (ErrorCode.PAUSED if phase is Phase.PAUSED else ErrorCode.NOT_READY)
    assert ("paused" in error.message) is (phase is Phase.PAUSED)
    assert error.message.startswith(WIRE_NAMES[type(command)])
    for legal in LEGAL[phase]:
        assert WIRE_NAMES[legal] in error.message.partition("allowed now: ")[2]


def test_legal_commands_by_phase() -> None:
    """The table, written out a second time as a reader would."""
    spoken = {
        phase: {WIRE_NAMES[kind] for kind in legal} - {"client_diagnostic"}
        for phase, legal in LEGAL.items()
    }
    assert spoken == {
        Phase.QUEUED: {"prepare", "stop"},
        Phase.QUEUED_PREPARED: {"stop"},
        Phase.ASSIGNED: {"prepare", "stop"},
        Phase.PREPARING: {"stop"},
        Phase.ACTIVE: {"audio_chunk", "video_frame", "pause", "playback_ack", "stop"},
        Phase.PAUSED: {"resume", "playback_ack", "stop"},
        Phase.STOPPING: set(),
        Phase.OVER: set(),
    }


def test_active_commands_go_to_the_worker_in_order() -> None:
    machine = _machine(Phase.ACTIVE)
    entries = [
        entry
        for command in (CHUNK, DIAGNOSTIC, PAUSE, RESUME, CHUNK, STOP)
        for entry in _forwarded(machine.receive(command))
    ]
    assert entries == [CHUNK, DIAGNOSTIC, PAUSE, RESUME, CHUNK, STOP]


def test_messages_held_in_the_queue_follow_the_grant() -> None:
    machine = _machine(Phase.QUEUED)
    assert machine.receive(DIAGNOSTIC) == []
    assert machine.receive(PREPARE) == []
    actions = machine.granted()
    assert _types(actions[:1]) == ["queue_done"]
    assert _forwarded(actions) == [DIAGNOSTIC, PREPARE]
    assert machine.phase is Phase.PREPARING


def test_at_most_a_few_messages_are_held() -> None:
    machine = _machine(Phase.QUEUED)
    for _ in range(MAX_HELD):
        machine.receive(DIAGNOSTIC)
    with pytest.raises(InvalidInput) as refused:
        machine.receive(PREPARE)
    assert refused.value.code is ErrorCode.INPUT_BACKPRESSURE
    assert machine.phase is Phase.QUEUED


def test_frames_wait_for_their_chunk_and_the_newest_are_kept() -> None:
    machine = _machine(Phase.ACTIVE)
    for name in (b"1", b"2", b"3"):
        assert machine.receive(CameraFrame(name)) == []
    chunk = ChunkIn(audio=b"abcd", frames=(b"4", b"5"), force_listen=True)
    [forward] = machine.receive(chunk)
    assert isinstance(forward, Forward)
    assert isinstance(forward.entry, ChunkIn)
    assert forward.entry.frames == (b"2", b"3", b"4", b"5")
    assert forward.entry.force_listen
    assert _forwarded(machine.receive(CHUNK)) == [CHUNK]


def test_a_frame_from_before_a_pause_is_dropped() -> None:
    machine = _machine(Phase.ACTIVE)
    for command in (FRAME, PAUSE, RESUME):
        machine.receive(command)
    assert _forwarded(machine.receive(CHUNK)) == [CHUNK]


def test_stop_in_the_queue_is_answered_at_once() -> None:
    actions = _machine(Phase.QUEUED).receive(STOP)
    assert _types(actions) == ["stopped"]
    assert actions[-1] == Finish(Close.NORMAL, EndReason.STOPPED)


RESULT = ResultOut.of(
    UnitResult(is_listen=False, text="hi", simulated=True),
    input_n=1,
    received_at=1000.0,
    read_at=1003.5,
    prefill_ms=1.0,
    wall_clock_ms=20.0,
)

ANSWERS: list[tuple[OutEntry, list[str]]] = [
    (RESULT, ["result"]),
    (PausedOut(input_n=1, timeout_s=5), ["paused"]),
    (ResumedOut(input_n=1), ["resumed"]),
    (StoppedOut(), ["stopped"]),
    (TimeoutOut(reason="late"), ["timeout"]),
    (ErrorOut(code="inference_error", message="bad"), ["error"]),
    (ErrorOut(code="inference_error", message="bad", fatal=True), ["error"]),
]


@pytest.mark.parametrize("phase", [Phase.ACTIVE, Phase.PAUSED, Phase.STOPPING])
@pytest.mark.parametrize(("entry", "sent"), ANSWERS)
def test_entries_become_messages(phase: Phase, entry: OutEntry, sent: list[str]) -> None:
    assert _types(_machine(phase).deliver(entry, 0)) == sent


@pytest.mark.parametrize(("entry", "finish"), ENDINGS)
def test_final_entries_end_the_session(entry: OutEntry, finish: Finish) -> None:
    machine = _machine(Phase.ACTIVE)
    assert machine.deliver(entry, 0)[-1] == finish
    assert machine.phase is Phase.OVER


def test_prepared_is_sent_once() -> None:
    machine = _machine(Phase.PREPARING)
    [sent] = machine.deliver(PREPARED, 0)
    assert isinstance(sent, Send)
    assert sent.message.wire() == {
        "type": "prepared",
        "prompt_length": 7,
        "recording_session_id": "rec",
    }
    assert machine.deliver(PREPARED, 0) == []


def test_a_prepare_that_failed_may_be_repeated() -> None:
    machine = _machine(Phase.PREPARING)
    assert _types(machine.deliver(ErrorOut(code="inference_error", message="bad"), 0)) == ["error"]
    assert _forwarded(machine.receive(PREPARE)) == [PREPARE]


@pytest.mark.parametrize("timing", [True, False])
def test_results_carry_their_times(timing: bool) -> None:
    machine = DuplexMachine("adx_1", "rec", timing=timing)
    [sent] = machine.deliver(RESULT, 1_700_000_000_123.4)
    assert isinstance(sent, Send)
    wire = sent.message.wire()
    assert wire["server_send_ts"] == 1_700_000_000.123
    assert wire["simulated"] is True
    assert ("timing" in wire) is timing
    if timing:
        assert wire["timing"]["edge_to_worker_ms"] == 3.5
        assert wire["timing"]["engine_ms"] == 20.0


@pytest.mark.parametrize(
    ("memo", "sent"), [({"user": "Hello?", "until": 3}, "Hello?"), ({"user": 7}, None), ({}, None)]
)
def test_the_transcript_is_sent_on_request(memo: dict[str, object], sent: str | None) -> None:
    result = replace(RESULT, memo=memo)
    [with_option] = DuplexMachine("adx_1", "rec", transcript=True).deliver(result, 0)
    [without_option] = DuplexMachine("adx_1", "rec").deliver(result, 0)
    assert isinstance(with_option, Send)
    assert isinstance(without_option, Send)
    assert with_option.message.wire().get("user_text") == sent
    assert "user_text" not in without_option.message.wire()
    assert "memo" not in with_option.message.wire()


def test_interim_words_come_with_the_final_ones() -> None:
    """The session asks for them in its config. A client need not ask for transcripts as well."""
    result = replace(RESULT, memo={"user": "Hello?"}, interim_user_text="And")
    [sent] = wires_of(DuplexMachine("adx_1", "rec").deliver(result, 0))
    assert (sent["user_text"], sent["interim_user_text"]) == ("Hello?", "And")
    [sent] = wires_of(
        DuplexMachine("adx_1", "rec").deliver(replace(result, interim_user_text=""), 0)
    )
    assert sent["interim_user_text"] == ""
    [sent] = wires_of(DuplexMachine("adx_1", "rec", transcript=True).deliver(RESULT, 0))
    assert "interim_user_text" not in sent


@pytest.mark.parametrize(
    ("memo", "sent"),
    [
        ({"word_times": [[0.0, "Rome"], [412.5, " is"]]}, [[0.0, "Rome"], [412.5, " is"]]),
        ({"word_times": []}, None),
        ({"word_times": [1]}, None),
        ({"word_times": [[0.0, "Rome"], ["1", 2]]}, None),
        ({"word_times": "Rome"}, None),
        ({}, None),
    ],
)
def test_the_times_of_words_are_sent_on_request(memo: dict[str, object], sent: object) -> None:
    result = replace(RESULT, memo=memo)
    [with_option] = wires_of(DuplexMachine("adx_1", "rec", word_times=True).deliver(result, 0))
    [without] = wires_of(DuplexMachine("adx_1", "rec").deliver(result, 0))
    assert with_option.get("words") == sent
    assert "words" not in without


def test_the_answer_to_a_goodbye_is_marked_if_the_engine_marks_it() -> None:
    for memo, sent in (({"goodbye": True}, True), ({}, None)):
        [message] = DuplexMachine("adx_1", "rec").deliver(replace(RESULT, memo=memo), 0)
        assert isinstance(message, Send)
        assert message.message.wire().get("goodbye") is sent


@pytest.mark.parametrize("reason", [*EndReason, None])
def test_every_end_is_reported_and_closes(reason: EndReason | None) -> None:
    machine = _machine(Phase.ACTIVE)
    *sent, finish = machine.ended(reason)
    assert len(_types(sent)) == 1
    assert isinstance(finish, Finish)
    assert finish.reason is (reason or EndReason.ERROR)
    assert machine.phase is Phase.OVER


@pytest.mark.parametrize("phase", list(Phase))
def test_the_end_reason_when_the_client_leaves(phase: Phase) -> None:
    expected = EndReason.STOPPED if phase is Phase.STOPPING else EndReason.CLIENT_GONE
    assert _machine(phase).client_gone() is expected


STEPS = st.sampled_from(
    [*COMMANDS, PREPARED, *(entry for entry, _ in ANSWERS), "granted", EndReason.WORKER_LOST]
)


@given(st.lists(STEPS, max_size=40))
def test_any_sequence_has_at_most_one_end(steps: list[object]) -> None:
    run_sequence(DuplexMachine("adx_1", "rec"), steps)
