"""What a half-duplex session forwards and sends."""

import pytest

from antiphon.edge.protocols.half_duplex import (
    HalfDuplexMachine,
)
from antiphon.edge.protocols.machine import Finish, Forward, Phase, Send
from antiphon.shared_schemas.config import HalfDuplexConfig
from antiphon.shared_schemas.entries import (
    BreakIn,
    ChunkIn,
    DeltaOut,
    ErrorOut,
    GeneratingOut,
    HalfDuplexPrepareIn,
    InterruptedOut,
    OutEntry,
    PreparedOut,
    ResumedOut,
    StopIn,
    StoppedOut,
    TimeoutOut,
    TurnDoneOut,
    VadOut,
)
from antiphon.shared_schemas.registry import SessionCommand
from antiphon.shared_schemas.states import EndReason
from support.protocol_driver import advance, wires_of

PREPARE = HalfDuplexPrepareIn(content=[], config=HalfDuplexConfig())
CHUNK = ChunkIn(audio=b"abcd")
STOP = StopIn()
PREPARED = PreparedOut(input_n=1, prompt_length=7)
SESSION = ["granted", PREPARE, PREPARED, STOP, StoppedOut()]


def _machine(phase: Phase) -> HalfDuplexMachine:
    machine = HalfDuplexMachine("hdx_1", "rec")
    advance(machine, phase, SESSION)
    return machine


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
    (
        InterruptedOut(input_n=3, turn_index=0, played_ms=400, text="Hi"),
        [{"type": "interrupted", "turn_index": 0, "played_ms": 400, "text": "Hi"}],
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


def test_prepared_repeats_the_timeout() -> None:
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
    assert machine.phase is Phase.ACTIVE


@pytest.mark.parametrize("phase", [Phase.QUEUED, Phase.PREPARING, Phase.ACTIVE, Phase.STOPPING])
def test_a_break_reaches_active_sessions_only(phase: Phase) -> None:
    expected = [Forward(BreakIn())] if phase is Phase.ACTIVE else []
    assert _machine(phase).commanded(SessionCommand.INTERRUPT) == expected


def test_a_failed_turn_does_not_end_the_session() -> None:
    machine = _machine(Phase.ACTIVE)
    [sent] = machine.deliver(ErrorOut(code="inference_error", message="bad"), 0)
    assert isinstance(sent, Send)
    assert sent.message.type == "error"
    assert machine.receive(CHUNK) == [Forward(CHUNK)]


def test_the_transcript_of_a_turn_is_sent_on_request() -> None:
    done = TurnDoneOut(input_n=2, turn_index=0, text="Rome.", memo={"user": "Which city?"})
    [with_option] = HalfDuplexMachine("hdx_1", "rec", transcript=True).deliver(done, 0)
    [without] = HalfDuplexMachine("hdx_1", "rec").deliver(done, 0)
    sent = {"type": "turn_done", "turn_index": 0, "text": "Rome."}
    assert wires_of([with_option]) == [{**sent, "user_text": "Which city?"}]
    assert wires_of([without]) == [sent]


def test_the_end_of_a_goodbye_is_told() -> None:
    done = TurnDoneOut(input_n=2, turn_index=1, text="Goodbye!", memo={"goodbye": True})
    sent = {"type": "turn_done", "turn_index": 1, "text": "Goodbye!", "goodbye": True}
    assert wires_of(HalfDuplexMachine("hdx_1", "rec").deliver(done, 0)) == [sent]


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
    resumed.restore(HalfDuplexPrepareIn(content=[], config=asked), [], granted=True)
    for one in (machine, resumed):
        assert wires_of(one.deliver(done, 0))[0]["user_text"] == "Which city?"


@pytest.mark.parametrize("reason", [*EndReason, None])
def test_every_end_is_reported_and_closes(reason: EndReason | None) -> None:
    *sent, finish = _machine(Phase.ACTIVE).ended(reason)
    assert len(sent) == 1
    assert isinstance(finish, Finish)
    assert finish.reason is (reason or EndReason.ERROR)


def test_entries_of_other_protocols_are_a_defect() -> None:
    with pytest.raises(TypeError, match="resumed"):
        _machine(Phase.ACTIVE).deliver(ResumedOut(input_n=1), 0)
