"""Recovery of a half-duplex session from its streams."""

import numpy as np
import pytest
from msgspec.structs import replace

from antiphon.inference_worker.engines.types import PastTurn
from antiphon.inference_worker.sessions.conversation_past import FinishedStep, encode_steps
from antiphon.inference_worker.sessions.recovery import (
    IGNORED_AFTER_PREPARE,
    RecoveredHalfDuplex,
    StreamHistory,
    StreamRecord,
    Unrecoverable,
    recover_half_duplex,
)
from antiphon.shared_schemas.audio import INPUT_RATE, PcmFormat, float_bytes
from antiphon.shared_schemas.config import HalfDuplexConfig
from antiphon.shared_schemas.entries import (
    ChunkIn,
    DeltaOut,
    ErrorOut,
    GeneratingOut,
    HalfDuplexPrepareIn,
    PreparedOut,
    StreamEntry,
    StreamPosition,
    TurnDoneOut,
    VadOut,
)

PREPARE = HalfDuplexPrepareIn(content=[{"role": "system", "parts": []}], config=HalfDuplexConfig())
PREPARED = PreparedOut(input_n=1, prompt_length=3)
SAVED = replace(PREPARE, input_n=1)
TEN_SECONDS = ChunkIn(audio=b"\0" * (20 * INPUT_RATE), pcm=PcmFormat.S16)
UTTERANCE = float_bytes(np.full(160, 0.25, dtype=np.float32))


def stream(*entries: StreamEntry) -> list[StreamRecord]:
    return [(StreamPosition(7, 1, n), entry) for n, entry in enumerate(entries, 1)]


def generating(index: int, input_n: int) -> GeneratingOut:
    return GeneratingOut(input_n=input_n, turn_index=index, speech_duration_ms=10, audio=UTTERANCE)


def done(index: int, input_n: int, **fields: object) -> TurnDoneOut:
    text = f"answer {index}"
    return TurnDoneOut(input_n=input_n, turn_index=index, text=text, **fields)  # type: ignore[arg-type]


def recovered(*said: StreamEntry, chunks: int = 8) -> RecoveredHalfDuplex:
    return recover_half_duplex(
        StreamHistory(stream(PREPARE, *[TEN_SECONDS] * chunks), stream(*said))
    )


def test_an_empty_history_recovers_nothing() -> None:
    assert recover_half_duplex(StreamHistory()) == RecoveredHalfDuplex()


def test_a_refused_prepare_is_not_tried_again() -> None:
    state = recovered(ErrorOut(input_n=1, code="x", message="too long"))
    assert state == RecoveredHalfDuplex(position=StreamPosition(7, 1, 1))


def test_a_session_without_a_turn_processes_all_input_again() -> None:
    state = recovered(PREPARED, VadOut(input_n=4, speaking=True))
    assert state.prepare is PREPARE
    assert state.position == StreamPosition(7, 1, 1)
    assert (state.speaking, state.ignored_samples, state.next_index) == (
        True,
        IGNORED_AFTER_PREPARE,
        0,
    )


def test_old_silence_is_not_processed_again() -> None:
    state = recovered(PREPARED, chunks=30)
    assert state.position == StreamPosition(7, 1, 31 - 9)
    assert state.ignored_samples == 0


def test_complete_turns_are_replayed_and_input_continues_after_the_last() -> None:
    said = [generating(0, 3), DeltaOut(text_delta="answer 0"), done(0, 5, memo={"m": 1})]
    failed = [generating(1, 6), done(1, 6, failed=True)]
    state = recovered(PREPARED, *said, *failed)
    (turn,) = state.turns
    assert (turn.text, turn.memo) == ("answer 0", {"m": 1})
    assert turn.audio is not None
    assert float_bytes(turn.audio) == UTTERANCE
    assert state.open_turn is None
    assert state.position == StreamPosition(7, 1, 6)
    assert (state.next_index, state.ignored_samples, state.speaking) == (2, 0, False)


def test_an_open_answer_is_recovered_with_its_published_text() -> None:
    first = [generating(0, 3), DeltaOut(text_delta="gone"), done(0, 3)]
    second = [generating(1, 5), DeltaOut(text_delta="it"), DeltaOut(text_delta=" is")]
    state = recovered(PREPARED, *first, *second)
    assert state.open_turn is not None
    assert (state.open_turn.index, state.open_turn.last_input.n) == (1, 5)
    assert state.open_turn.said == "it is"
    assert state.open_turn.utterance is not None
    assert float_bytes(state.open_turn.utterance) == UTTERANCE
    assert (state.position, state.next_index) == (StreamPosition(7, 1, 5), 2)
    assert len(state.turns) == 1


GREETING = GeneratingOut(input_n=1, turn_index=0, speech_duration_ms=0)


def test_a_greeting_is_recovered_before_in_and_after_it() -> None:
    before = recovered(PREPARED)
    assert (before.open_turn, before.prepared_at) == (None, StreamPosition(7, 1, 1))
    within = recovered(PREPARED, GREETING, DeltaOut(text_delta="Hel"))
    assert within.open_turn is not None
    assert (within.open_turn.utterance, within.open_turn.said) == (None, "Hel")
    assert (within.position, within.next_index) == (StreamPosition(7, 1, 1), 1)
    after = recovered(PREPARED, GREETING, DeltaOut(text_delta="Hello"), done(0, 3))
    [turn] = after.turns
    assert (turn.audio, turn.text) == (None, "answer 0")
    assert (after.position, after.ignored_samples) == (StreamPosition(7, 1, 3), 0)
    assert (within.prepared_at, after.prepared_at) == (None, None)


def test_a_trimmed_session_keeps_the_newest_turns() -> None:
    turns = [
        entry
        for index in range(3)
        for entry in (generating(index, 3 + index), done(index, 3 + index))
    ]
    inputs, outputs = stream(PREPARE, *[TEN_SECONDS] * 6), stream(PREPARED, *turns)
    state = recover_half_duplex(
        StreamHistory(inputs[4:], outputs[4:], (StreamPosition(7, 1, 1), SAVED))
    )
    assert state.prepare is SAVED
    assert [turn.text for turn in state.turns] == ["answer 2"]
    assert (state.position, state.next_index) == (StreamPosition(7, 1, 5), 3)
    assert (state.ignored_samples, state.shortened) == (0, True)
    nothing_begun = recover_half_duplex(
        StreamHistory(inputs[4:], outputs[6:], (StreamPosition(7, 1, 1), SAVED))
    )
    assert (nothing_begun.turns, nothing_begun.next_index) == ((), 3)


def test_an_answer_without_its_question_is_unrecoverable() -> None:
    outputs = stream(
        PREPARED, generating(0, 3), DeltaOut(text_delta="and"), DeltaOut(text_delta=" so")
    )
    with pytest.raises(Unrecoverable, match="question"):
        recover_half_duplex(
            StreamHistory(stream(PREPARE), outputs[2:], (StreamPosition(7, 1, 1), SAVED))
        )


def test_the_stored_past_comes_before_the_turns_in_the_streams() -> None:
    turn = PastTurn(audio=None, text="answer 0")
    steps = [
        FinishedStep(turn, StreamPosition(7, 1, 3), StreamPosition(7, 1, 4), 1),
        FinishedStep(None, StreamPosition(7, 1, 4), StreamPosition(7, 1, 6), 2),
    ]
    past = [(StreamPosition(7, 1, 1), encode_steps(steps, with_audio=False))]
    inputs = stream(PREPARE, *[TEN_SECONDS] * 8)[4:]
    said = stream(*[PREPARED] * 6, generating(2, 6), done(2, 6), generating(3, 8))[6:]
    prepare = (StreamPosition(7, 1, 1), SAVED)
    state = recover_half_duplex(StreamHistory(inputs, said, prepare, past))
    assert [turn.text for turn in state.turns] == ["answer 0", "answer 2"]
    assert [step.last_output.n for step in state.recent] == [8]
    assert state.open_turn is not None
    assert (state.open_turn.index, state.next_index, state.shortened) == (3, 4, False)
    assert state.position == StreamPosition(7, 1, 8)
    quiet = recover_half_duplex(StreamHistory(inputs, (), prepare, past))
    assert (quiet.next_index, quiet.position, quiet.ignored_samples) == (
        2,
        StreamPosition(7, 1, 4),
        0,
    )
