"""What a successor concludes from a half-duplex session's streams."""

from __future__ import annotations

import numpy as np
import pytest

from antiphon.inference_worker.sessions.recovery import (
    GUARD_SAMPLES,
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
    TurnDoneOut,
    VadOut,
)
from antiphon.shared_schemas.stream_position import StreamPosition

PREPARE = HalfDuplexPrepareIn(content=[{"role": "system", "parts": []}], config=HalfDuplexConfig())
PREPARED = PreparedOut(input_n=1, prompt_length=3)
TEN_SECONDS = ChunkIn(audio=b"\0" * (20 * INPUT_RATE), pcm=PcmFormat.S16)
UTTERANCE = float_bytes(np.full(160, 0.25, dtype=np.float32))


def stream(*entries: StreamEntry) -> list[StreamRecord]:
    return [(StreamPosition(7, 1, n), entry) for n, entry in enumerate(entries, 1)]


def generating(index: int, input_n: int) -> GeneratingOut:
    return GeneratingOut(input_n=input_n, turn_index=index, speech_duration_ms=10, audio=UTTERANCE)


def done(index: int, input_n: int, **fields: object) -> TurnDoneOut:
    text = f"answer {index}"
    return TurnDoneOut(input_n=input_n, turn_index=index, text=text, **fields)  # type: ignore[arg-type]


def recalled(*said: StreamEntry, chunks: int = 8) -> RecoveredHalfDuplex:
    return recover_half_duplex(
        StreamHistory(stream(PREPARE, *[TEN_SECONDS] * chunks), stream(*said))
    )


def test_nothing_was_said() -> None:
    assert recover_half_duplex(StreamHistory()) == RecoveredHalfDuplex()


def test_a_refused_prepare_is_not_tried_again() -> None:
    past = recalled(ErrorOut(input_n=1, code="x", message="too long"))
    assert past == RecoveredHalfDuplex(position=StreamPosition(7, 1, 1))


def test_a_session_that_only_listened_hears_everything_again() -> None:
    past = recalled(PREPARED, VadOut(input_n=4, speaking=True))
    assert past.prepare is PREPARE
    assert past.position == StreamPosition(7, 1, 1)
    assert (past.speaking, past.guard, past.next_index) == (True, GUARD_SAMPLES, 0)


def test_silence_from_long_ago_is_not_heard_again() -> None:
    past = recalled(PREPARED, chunks=30)
    assert past.position == StreamPosition(7, 1, 31 - 9)
    assert past.guard == 0


def test_finished_turns_are_replayed_and_listening_goes_on_behind_the_last() -> None:
    said = [generating(0, 3), DeltaOut(text_delta="answer 0"), done(0, 5, memo={"m": 1})]
    failed = [generating(1, 6), done(1, 6, failed=True)]
    past = recalled(PREPARED, *said, *failed)
    (turn,) = past.turns
    assert (turn.text, turn.memo) == ("answer 0", {"m": 1})
    assert turn.audio is not None
    assert float_bytes(turn.audio) == UTTERANCE
    assert past.open_turn is None
    assert past.position == StreamPosition(7, 1, 6)
    assert (past.next_index, past.guard, past.speaking) == (2, 0, False)


def test_an_answer_under_way_is_found_with_what_was_said_of_it() -> None:
    first = [generating(0, 3), DeltaOut(text_delta="gone"), done(0, 3)]
    second = [generating(1, 5), DeltaOut(text_delta="it"), DeltaOut(text_delta=" is")]
    past = recalled(PREPARED, *first, *second)
    assert past.open_turn is not None
    assert (past.open_turn.index, past.open_turn.input_n) == (1, 5)
    assert past.open_turn.said == "it is"
    assert float_bytes(past.open_turn.utterance) == UTTERANCE
    assert (past.position, past.next_index) == (StreamPosition(7, 1, 5), 2)
    assert len(past.turns) == 1


def test_of_a_session_longer_than_its_streams_the_newest_turns_are_left() -> None:
    turns = [
        entry
        for index in range(3)
        for entry in (generating(index, 3 + index), done(index, 3 + index))
    ]
    inputs, outputs = stream(PREPARE, *[TEN_SECONDS] * 6), stream(PREPARED, *turns)
    past = recover_half_duplex(
        StreamHistory(inputs[4:], outputs[4:], (StreamPosition(7, 1, 1), PREPARE))
    )
    assert past.prepare is PREPARE
    assert [turn.text for turn in past.turns] == ["answer 2"]
    assert (past.position, past.next_index) == (StreamPosition(7, 1, 5), 3)
    assert (past.guard, past.shortened) == (0, True)
    nothing_begun = recover_half_duplex(
        StreamHistory(inputs[4:], outputs[6:], (StreamPosition(7, 1, 1), PREPARE))
    )
    assert (nothing_begun.turns, nothing_begun.next_index) == ((), 3)


def test_an_answer_whose_question_is_gone_is_lost() -> None:
    outputs = stream(
        PREPARED, generating(0, 3), DeltaOut(text_delta="and"), DeltaOut(text_delta=" so")
    )
    with pytest.raises(Unrecoverable, match="question"):
        recover_half_duplex(
            StreamHistory(stream(PREPARE), outputs[2:], (StreamPosition(7, 1, 1), PREPARE))
        )
