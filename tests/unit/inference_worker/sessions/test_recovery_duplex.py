"""Recovery of a full-duplex session from its streams."""

import numpy as np
import pytest
from msgspec.structs import replace

from antiphon.inference_worker.engines.types import PastUnit
from antiphon.inference_worker.sessions.conversation_past import FinishedStep, encode_steps
from antiphon.inference_worker.sessions.recovery import StreamHistory, Unrecoverable, recover_duplex
from antiphon.shared_schemas.audio import float_bytes
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.entries import (
    ChunkIn,
    Entry,
    ErrorOut,
    OutEntry,
    PastSteps,
    PausedOut,
    PauseIn,
    PlaybackIn,
    PreparedOut,
    PrepareIn,
    ResultOut,
    ResumedOut,
    StreamPosition,
)
from antiphon.shared_schemas.unit_result import UnitResult

PREPARE = PrepareIn(system_prompt="be brief", config=DuplexConfig(temperature=0.2))


def saved(n: int) -> tuple[StreamPosition, PrepareIn]:
    """The accepted `prepare`, which was the input `n`."""
    return StreamPosition(5, 1, 1), replace(PREPARE, input_n=n)


def placed(entries: list[Entry]) -> list[tuple[StreamPosition, Entry]]:
    return [(StreamPosition(5, 1, n), entry) for n, entry in enumerate(entries, start=1)]


def chunk(level: float) -> ChunkIn:
    return ChunkIn(audio=float_bytes(np.full(160, level, dtype=np.float32)))


def answer(n: int, text: str = "", **fields: object) -> ResultOut:
    result = UnitResult(is_listen=not text, text=text, current_time=n * 1000, memo={"n": n})
    context = {"received_at": 0.0, "read_at": 0.0, "prefill_ms": 0.0, "wall_clock_ms": 0.0}
    return ResultOut.of(result, input_n=n, **context, **fields)


def test_a_new_conversation_recovers_nothing() -> None:
    state = recover_duplex(StreamHistory((), ()))
    assert state.prepare is None
    assert state.position is None
    assert state.units == ()


def test_units_join_input_and_result_and_later_input_is_pending() -> None:
    inputs = placed([PREPARE, chunk(0.1), chunk(0.2), chunk(0.3)])
    outputs = placed([PreparedOut(input_n=1, prompt_length=9), answer(2), answer(3, "Hi")])
    state = recover_duplex(StreamHistory(inputs, outputs))
    assert state.prepare == PREPARE
    assert state.position == StreamPosition(5, 1, 3)
    assert [unit.text for unit in state.units] == ["", "Hi"]
    first, second = (unit.audio for unit in state.units)
    assert first is not None
    assert second is not None
    assert np.allclose(first, 0.1)
    assert np.allclose(second, 0.2)
    assert state.units[1].memo == {"n": 3}
    assert state.current_time == 3000
    assert state.paused_until is None


def test_each_unit_has_the_playback_position_before_it() -> None:
    acks = [PlaybackIn(played_ms=ms) for ms in (100, 900, 1500, 2000)]
    inputs = placed([PREPARE, chunk(0.1), acks[0], acks[1], chunk(0.2), chunk(0.3), acks[2]])
    inputs += [(StreamPosition(5, 1, 8), PauseIn(timeout_s=7)), (StreamPosition(5, 1, 9), acks[3])]
    outputs = placed([PreparedOut(input_n=1, prompt_length=9), *(answer(n) for n in (2, 5, 6))])
    state = recover_duplex(StreamHistory(inputs, outputs))
    assert [unit.played_ms for unit in state.units] == [None, 900, None]
    assert state.played_ms is None  # the entries after the last answer are still to be read
    paused = [*outputs, (StreamPosition(5, 1, 5), PausedOut(input_n=8, timeout_s=7.0))]
    assert recover_duplex(StreamHistory(inputs, paused)).played_ms == 1500


def test_trimmed_input_is_none() -> None:
    outputs = placed([PreparedOut(input_n=1, prompt_length=9), answer(2)])
    state = recover_duplex(StreamHistory([(StreamPosition(5, 1, 1), PREPARE)], outputs))
    assert state.units[0].audio is None
    assert state.position is None


def test_a_current_pause_keeps_its_deadline() -> None:
    inputs = placed([PREPARE, PauseIn(timeout_s=7)])
    outputs: list[OutEntry] = [
        PreparedOut(input_n=1, prompt_length=9),
        PausedOut(input_n=2, timeout_s=7.0, at=1000.0),
    ]
    state = recover_duplex(StreamHistory(inputs, placed([*outputs])))
    assert state.paused_until == 8000.0
    resumed = recover_duplex(StreamHistory(inputs, placed([*outputs, ResumedOut(input_n=3)])))
    assert resumed.paused_until is None


def test_an_unanswered_prepare_is_pending() -> None:
    state = recover_duplex(StreamHistory(placed([PREPARE]), ()))
    assert state.prepare is None
    assert state.position is None


def test_a_trimmed_session_keeps_its_prepare_and_the_newest_units() -> None:
    inputs = placed([PREPARE, *(chunk(n / 10) for n in range(2, 7))])
    published = placed(
        [PreparedOut(input_n=1, prompt_length=9), *(answer(n, str(n)) for n in range(2, 6))]
    )
    stored = saved(1)
    state = recover_duplex(StreamHistory(inputs[3:], published[3:], stored))
    assert state.prepare == stored[1]
    assert [unit.text for unit in state.units] == ["4", "5"]
    assert (state.paused_until, state.current_time, state.shortened) == (None, 5000, True)
    assert state.position == StreamPosition(5, 1, 5)
    only_inputs_trimmed = recover_duplex(StreamHistory(inputs[3:], published, stored))
    assert (only_inputs_trimmed.prepare, only_inputs_trimmed.shortened) == (stored[1], False)


def test_a_session_without_its_prepare_is_unrecoverable() -> None:
    published = placed([PreparedOut(input_n=1, prompt_length=9), answer(2), answer(3)])
    for outputs in (published, published[1:]):
        with pytest.raises(Unrecoverable, match="prepare"):
            recover_duplex(StreamHistory(placed([PREPARE, chunk(0.1), chunk(0.2)])[1:], outputs))


def test_a_stored_prepare_that_was_not_published_is_pending() -> None:
    refused = placed([ErrorOut(input_n=1, code="x", message="no")])
    state = recover_duplex(StreamHistory(placed([PREPARE, PREPARE]), refused, saved(2)))
    assert state.prepare is None
    assert state.position == StreamPosition(5, 1, 1)


def stored(n: int, unit: int) -> tuple[StreamPosition, PastSteps]:
    """The past up to the result of chunk `unit`; it is the `n`-th entry after the `prepare`."""
    position = StreamPosition(5, 1, unit)
    past = PastUnit(audio=None, is_listen=False, text=str(unit), end_of_turn=False)
    step = FinishedStep(past, position, position, unit * 1000)
    return StreamPosition(5, 1, n + 1), encode_steps([step], with_audio=False)


def test_the_stored_past_comes_before_the_units_in_the_streams() -> None:
    inputs = placed([PREPARE, *(chunk(n / 10) for n in range(2, 7))])
    outputs = placed(
        [PreparedOut(input_n=1, prompt_length=9), *(answer(n, str(n)) for n in range(2, 6))]
    )
    prepare = saved(1)
    past = [stored(1, 2), stored(2, 3)]
    state = recover_duplex(StreamHistory(inputs[3:], outputs[3:], prepare, past))
    assert [unit.text for unit in state.units] == ["2", "3", "4", "5"]
    assert [step.last_input.n for step in state.recent] == [4, 5]
    assert [step.last_output.n for step in state.recent] == [4, 5]
    assert (state.position, state.current_time) == (StreamPosition(5, 1, 5), 5000)
    assert (state.prepare, state.shortened) == (prepare[1], False)


def test_everything_may_be_in_the_stored_past() -> None:
    prepare = saved(1)
    state = recover_duplex(StreamHistory((), (), prepare, [stored(1, 2)]))
    assert [unit.text for unit in state.units] == ["2"]
    assert (state.position, state.current_time) == (StreamPosition(5, 1, 2), 2000)
    assert (state.recent, state.shortened) == ((), False)


@pytest.mark.parametrize("numbers", [[2], [1, 3]])
def test_a_gap_in_the_stored_past_is_noticed(numbers: list[int]) -> None:
    past = [stored(n, n + 1) for n in numbers]
    history = StreamHistory((), (), saved(1), past)
    assert recover_duplex(history).shortened
