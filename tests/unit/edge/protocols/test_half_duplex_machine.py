"""Every half-duplex command in every phase, and the messages of a worker's entries."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.edge.protocols.half_duplex import (
    LEGAL,
    WIRE_NAMES,
    HalfDuplexCommand,
    HalfDuplexMachine,
)
from antiphon.edge.protocols.machine import Finish, Forward, Phase, QueuePlace, Send
from antiphon.shared_schemas.config import HalfDuplexConfig
from antiphon.shared_schemas.entries import (
    BreakIn,
    ChunkIn,
    DeltaOut,
    ErrorOut,
    GeneratingOut,
    HalfDuplexPrepareIn,
    OutEntry,
    PreparedOut,
    ResumedOut,
    StopIn,
    StoppedOut,
    TimeoutOut,
    TurnDoneOut,
    VadOut,
)
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.registry import SessionCommand
from antiphon.shared_schemas.states import EndReason
from support.protocol_driver import ENDINGS, run_sequence, wires_of

PREPARE = HalfDuplexPrepareIn(content=[], config=HalfDuplexConfig())
CHUNK = ChunkIn(audio=b"abcd")
STOP = StopIn()
COMMANDS: list[HalfDuplexCommand] = [PREPARE, CHUNK, STOP]
PREPARED = PreparedOut(input_n=1, prompt_length=7)
PHASES = [phase for phase in Phase if phase is not Phase.PAUSED]

WAYS: dict[Phase, Callable[[HalfDuplexMachine], object]] = {
    Phase.QUEUED: lambda _: None,
    Phase.QUEUED_PREPARED: lambda m: m.receive(PREPARE),
    Phase.ASSIGNED: lambda m: m.granted(),
    Phase.PREPARING: lambda m: (m.granted(), m.receive(PREPARE)),
    Phase.ACTIVE: lambda m: (m.granted(), m.receive(PREPARE), m.deliver(PREPARED, 0)),
    Phase.STOPPING: lambda m: (m.granted(), m.receive(STOP)),
    Phase.OVER: lambda m: m.receive(STOP),
}

TABLE = {
    (Phase.QUEUED, "prepare"): Phase.QUEUED_PREPARED,
    (Phase.QUEUED, "stop"): Phase.OVER,
    (Phase.QUEUED_PREPARED, "stop"): Phase.OVER,
    (Phase.ASSIGNED, "prepare"): Phase.PREPARING,
    (Phase.ASSIGNED, "stop"): Phase.STOPPING,
    (Phase.PREPARING, "stop"): Phase.STOPPING,
    (Phase.ACTIVE, "audio_chunk"): Phase.ACTIVE,
    (Phase.ACTIVE, "stop"): Phase.STOPPING,
}
"""Legal commands and the phase after each; all others are `not_ready` and change nothing."""


def _machine(phase: Phase) -> HalfDuplexMachine:
    machine = HalfDuplexMachine("hdx_1", "rec")
    WAYS[phase](machine)
    assert machine.phase is phase
    return machine


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: WIRE_NAMES[type(c)])
def test_every_command_in_every_phase(phase: Phase, command: HalfDuplexCommand) -> None:
    machine, name = _machine(phase), WIRE_NAMES[type(command)]
    if (phase, name) in TABLE:
        machine.receive(command)
        assert machine.phase is TABLE[phase, name]
        return
    with pytest.raises(InvalidInput) as refused:
        machine.receive(command)
    assert machine.phase is phase
    assert (refused.value.code, refused.value.field) == (ErrorCode.NOT_READY, "type")
    for legal in LEGAL[phase]:
        assert WIRE_NAMES[legal] in refused.value.message.partition("allowed now: ")[2]


def test_a_held_prepare_follows_the_grant() -> None:
    machine = _machine(Phase.QUEUED_PREPARED)
    sent, forwarded = machine.granted()
    assert wires_of([sent]) == [{"type": "queue_done"}]
    assert forwarded == Forward(PREPARE)
    assert machine.phase is Phase.PREPARING


ANSWERS: list[tuple[OutEntry, list[dict[str, object]]]] = [
    (VadOut(input_n=2, speaking=True), [{"type": "vad_state", "speaking": True}]),
    (VadOut(input_n=2, speaking=False), [{"type": "vad_state", "speaking": False}]),
    (
        GeneratingOut(input_n=2, turn_index=0, speech_duration_ms=1200),
        [{"type": "generating", "speech_duration_ms": 1200}],
    ),
    (
        DeltaOut(text_delta="Hi", audio=b"\0\0\0\0"),
        [{"type": "chunk", "text_delta": "Hi", "audio_data": "AAAAAA=="}],
    ),
    (DeltaOut(text_delta="Hi"), [{"type": "chunk", "text_delta": "Hi", "audio_data": ""}]),
    (DeltaOut(text_delta=""), []),
    (
        TurnDoneOut(input_n=2, turn_index=0, text="Hi there."),
        [{"type": "turn_done", "turn_index": 0, "text": "Hi there."}],
    ),
    (StoppedOut(), [{"type": "stopped", "session_id": "hdx_1"}]),
    (
        TimeoutOut(reason="silent", elapsed_s=61.26),
        [{"type": "timeout", "elapsed_s": 61.3, "reason": "silent"}],
    ),
    (TimeoutOut(reason="silent"), [{"type": "timeout", "elapsed_s": 180.0, "reason": "silent"}]),
]


@pytest.mark.parametrize(("entry", "sent"), ANSWERS)
def test_entries_become_the_reference_messages(
    entry: OutEntry, sent: list[dict[str, object]]
) -> None:
    assert wires_of(_machine(Phase.ACTIVE).deliver(entry, 0)) == sent


def test_prepared_repeats_the_timeout_and_is_sent_once() -> None:
    machine = _machine(Phase.PREPARING)
    assert wires_of(machine.deliver(PREPARED, 0)) == [
        {
            "type": "prepared",
            "session_id": "hdx_1",
            "timeout_s": 180.0,
            "recording_session_id": "rec",
            "prompt_length": 7,
        }
    ]
    assert machine.deliver(PREPARED, 0) == []


@pytest.mark.parametrize("phase", PHASES)
def test_a_break_reaches_active_sessions_only(phase: Phase) -> None:
    expected = [Forward(BreakIn())] if phase is Phase.ACTIVE else []
    assert _machine(phase).commanded(SessionCommand.INTERRUPT) == expected


@pytest.mark.parametrize(("entry", "finish"), ENDINGS)
def test_final_entries_end_the_session(entry: OutEntry, finish: Finish) -> None:
    machine = _machine(Phase.ACTIVE)
    assert machine.deliver(entry, 0)[-1] == finish
    assert machine.phase is Phase.OVER


def test_a_failed_turn_does_not_end_the_session() -> None:
    machine = _machine(Phase.ACTIVE)
    [sent] = machine.deliver(ErrorOut(code="inference_error", message="bad"), 0)
    assert isinstance(sent, Send)
    assert sent.message.type == "error"
    assert machine.receive(CHUNK) == [Forward(CHUNK)]


@pytest.mark.parametrize("reason", [*EndReason, None])
def test_every_end_is_reported_and_closes(reason: EndReason | None) -> None:
    machine = _machine(Phase.ACTIVE)
    *sent, finish = machine.ended(reason)
    assert len(sent) == 1
    assert isinstance(finish, Finish)
    assert finish.reason is (reason or EndReason.ERROR)


def test_entries_of_other_protocols_are_a_defect() -> None:
    with pytest.raises(TypeError, match="resumed"):
        _machine(Phase.ACTIVE).deliver(ResumedOut(input_n=1), 0)


def test_places_are_sent() -> None:
    machine = _machine(Phase.QUEUED)
    [first] = wires_of(machine.placed(QueuePlace("7", 2, 3, 4.5, first=True)))
    assert first == {
        "type": "queued",
        "ticket_id": "7",
        "position": 2,
        "queue_length": 3,
        "eta_seconds": 4.5,
        "estimated_wait_s": 4.5,
    }
    [second] = wires_of(machine.placed(QueuePlace("7", 1, 3, 4.5, first=False)))
    assert second["type"] == "queue_update"


STEPS = st.sampled_from(
    [
        *COMMANDS,
        PREPARED,
        *(entry for entry, _ in ANSWERS),
        SessionCommand.INTERRUPT,
        "granted",
        EndReason.ERROR,
    ]
)


@given(st.lists(STEPS, max_size=40))
def test_any_sequence_has_at_most_one_end(steps: list[object]) -> None:
    run_sequence(HalfDuplexMachine("hdx_1", "rec"), steps)


def test_the_transcript_of_a_turn_is_sent_on_request() -> None:
    done = TurnDoneOut(input_n=2, turn_index=0, text="Rome.", memo={"user": "Which city?"})
    [with_option] = HalfDuplexMachine("hdx_1", "rec", transcript=True).deliver(done, 0)
    [without] = HalfDuplexMachine("hdx_1", "rec").deliver(done, 0)
    sent = {"type": "turn_done", "turn_index": 0, "text": "Rome."}
    assert wires_of([with_option]) == [{**sent, "user_text": "Which city?"}]
    assert wires_of([without]) == [sent]


def test_a_session_that_asks_for_interim_words_gets_the_final_ones_too() -> None:
    machine = HalfDuplexMachine("hdx_1", "rec")
    machine.granted()
    asked = HalfDuplexConfig(interim_transcripts=True)
    machine.receive(HalfDuplexPrepareIn(content=[], config=asked))
    interim = VadOut(input_n=2, speaking=True, interim_user_text="Which ci")
    assert wires_of(machine.deliver(interim, 0)) == [
        {"type": "vad_state", "speaking": True, "interim_user_text": "Which ci"}
    ]
    done = TurnDoneOut(input_n=2, turn_index=0, text="Rome.", memo={"user": "Which city?"})
    resumed = HalfDuplexMachine("hdx_1", "rec")
    resumed.restore(json.loads(json.dumps(machine.snapshot())), [])
    for one in (machine, resumed):
        assert wires_of(one.deliver(done, 0))[0]["user_text"] == "Which city?"
