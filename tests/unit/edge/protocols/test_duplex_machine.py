"""What a duplex session holds, forwards and sends. `test_message_table.py` has every command in every phase."""

import re

import pytest
from msgspec.structs import replace

from antiphon.edge.protocols.duplex import (
    CameraFrame,
    DuplexMachine,
    ResultExtras,
)
from antiphon.edge.protocols.machine import Action, Finish, Forward, Phase, Send
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.entries import (
    ChunkIn,
    ErrorOut,
    OutEntry,
    PausedOut,
    PauseIn,
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
from support.protocol_driver import ENDINGS, advance, wires_of

PREPARE = PrepareIn(system_prompt="Hi.", config=DuplexConfig())
CHUNK = ChunkIn(audio=b"abcd")
FRAME = CameraFrame(b"jpeg")
PAUSE = PauseIn(timeout_s=60)
RESUME = ResumeIn()
STOP = StopIn()
PREPARED = PreparedOut(input_n=1, prompt_length=7)

SESSION = ["granted", PREPARE, PREPARED, PAUSE, STOP, StoppedOut()]


def _machine(phase: Phase) -> DuplexMachine:
    machine = DuplexMachine("adx_1", "rec")
    advance(machine, phase, SESSION)
    return machine


def _types(actions: list[Action]) -> list[str]:
    return [action.message.type for action in actions if isinstance(action, Send)]


def _forwarded(actions: list[Action]) -> list[object]:
    return [action.entry for action in actions if isinstance(action, Forward)]


@pytest.mark.parametrize(
    ("phase", "code", "allowed"),
    [
        (Phase.ASSIGNED, ErrorCode.NOT_READY, {"prepare", "stop", "client_diagnostic"}),
        (Phase.PAUSED, ErrorCode.PAUSED, {"resume", "playback_ack", "stop", "client_diagnostic"}),
    ],
)
def test_a_refusal_says_what_is_allowed(phase: Phase, code: ErrorCode, allowed: set[str]) -> None:
    with pytest.raises(InvalidInput, match=r"^audio_chunk") as refused:
        _machine(phase).receive(CHUNK)
    error = refused.value
    assert (error.code, error.field) == (code, "type")
    assert set(re.findall(r"\w+", error.message.partition("allowed now: ")[2])) == allowed
    assert ("paused" in error.message) is (phase is Phase.PAUSED)


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


def test_a_prepared_session_is_active() -> None:
    machine = _machine(Phase.PREPARING)
    [sent] = machine.deliver(PREPARED, 0)
    assert isinstance(sent, Send)
    assert sent.message.wire() == {
        "type": "prepared",
        "prompt_length": 7,
        "recording_session_id": "rec",
    }
    assert machine.phase is Phase.ACTIVE


@pytest.mark.parametrize("timing", [True, False])
def test_results_carry_their_times(timing: bool) -> None:
    machine = DuplexMachine("adx_1", "rec", extras=ResultExtras(timing=timing))
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
    [with_option] = DuplexMachine("adx_1", "rec", extras=ResultExtras(transcript=True)).deliver(
        result, 0
    )
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
    [sent] = wires_of(
        DuplexMachine("adx_1", "rec", extras=ResultExtras(transcript=True)).deliver(RESULT, 0)
    )
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
    [with_option] = wires_of(
        DuplexMachine("adx_1", "rec", extras=ResultExtras(word_times=True)).deliver(result, 0)
    )
    [without] = wires_of(DuplexMachine("adx_1", "rec").deliver(result, 0))
    assert with_option.get("words") == sent
    assert "words" not in without


def test_the_answer_to_a_goodbye_is_marked_if_the_engine_marks_it() -> None:
    for memo, sent in (({"goodbye": True}, True), ({}, None)):
        [message] = DuplexMachine("adx_1", "rec").deliver(replace(RESULT, memo=memo), 0)
        assert isinstance(message, Send)
        assert message.message.wire().get("goodbye") is sent


def test_a_result_that_cut_an_answer_says_so() -> None:
    for interrupted, sent in ((True, True), (False, None)):
        [message] = DuplexMachine("adx_1", "rec").deliver(
            replace(RESULT, interrupted=interrupted), 0
        )
        assert isinstance(message, Send)
        assert message.message.wire().get("interrupted") is sent


@pytest.mark.parametrize("phase", [Phase.QUEUED, Phase.ACTIVE, Phase.STOPPING])
def test_the_end_reason_when_the_client_leaves(phase: Phase) -> None:
    expected = EndReason.STOPPED if phase is Phase.STOPPING else EndReason.CLIENT_GONE
    assert _machine(phase).client_gone() is expected
