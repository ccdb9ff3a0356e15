"""What results say about the units before them, also after another worker continues."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.inference_worker.sessions.unit_sequence import UnitSequence
from antiphon.shared_schemas.entries import ResultOut
from antiphon.shared_schemas.unit_result import UnitResult

SOUND = np.zeros(10, np.float32)
STAMPS: dict[str, Any] = {
    "input_n": 1,
    "received_at": 0.0,
    "read_at": 0.0,
    "prefill_ms": 0.0,
    "wall_clock_ms": 0.0,
}


def listen(**fields: Any) -> UnitResult:
    return UnitResult(is_listen=True, **fields)


def speak(text: str = "", *, sound: bool = True, **fields: Any) -> UnitResult:
    return UnitResult(is_listen=False, text=text, audio=SOUND if sound else SOUND[:0], **fields)


def published(units: list[UnitResult], sequence: UnitSequence) -> list[ResultOut]:
    return [ResultOut.of(unit, **STAMPS, **sequence.next(unit)) for unit in units]


def test_turns_begin_with_speech_after_listening_or_after_an_end() -> None:
    units = [listen(), speak("a"), speak("b", end_of_turn=True), speak("c"), listen(), speak("d")]
    results = published(units, UnitSequence(8192))
    assert [result.unit for result in results] == [0, 1, 2, 3, 4, 5]
    assert [result.turn for result in results] == [0, 1, 1, 2, 2, 3]


def test_words_without_audio_are_repeated_until_there_is_audio() -> None:
    units = [
        speak("Hello", sound=False, memo={"user": "Hi."}),
        speak(" there", sound=False),
        speak("!"),
        speak("Well", sound=False, memo={"user": "So?"}),
        listen(),
        listen(),
    ]
    results = published(units, UnitSequence(8192))
    assert [r.text_before for r in results] == ["", "Hello", "Hello there", "", "Well", ""]
    assert [r.user_text_before for r in results] == ["", "Hi.", "Hi.", "", "So?", ""]


@pytest.mark.parametrize(
    ("lengths", "expected", "continues"),
    [
        ([100 * n for n in range(40, 56)], [29.9], False),
        ([100 * n for n in range(1, 20)], [], True),
        ([7000] * 12, [], True),
        ([6000, 6500, 6000, 6500, 7000, 7500, 8000], [], False),
    ],
    ids=["growing", "far from full", "constant", "sliding"],
)
def test_a_context_that_is_nearly_full_is_reported_once(
    lengths: list[int], expected: list[float], continues: bool
) -> None:
    units = [listen(current_time=1000 * n, kv_cache_length=t) for n, t in enumerate(lengths)]
    results = published(units, UnitSequence(8192))
    assert [r.context_left_s for r in results if r.context_left_s is not None] == expected
    assert results[-1].context_forecast is continues


@pytest.mark.parametrize(("tokens", "expected"), [(4096, [29.9]), (16384, [])])
def test_the_context_is_that_of_the_engine(tokens: int, expected: list[float]) -> None:
    lengths = [100 * n + 6 for n in range(16)]
    units = [listen(current_time=1000 * n, kv_cache_length=t) for n, t in enumerate(lengths)]
    results = published(units, UnitSequence(tokens))
    assert [r.context_left_s for r in results if r.context_left_s is not None] == expected
    assert {r.context_tokens for r in results} == {tokens}


UNITS = st.builds(
    lambda speaks, text, sound, ends, said, tokens: (
        speak(text, sound=sound, end_of_turn=ends, memo=said, kv_cache_length=tokens)
        if speaks
        else listen(memo=said, kv_cache_length=tokens)
    ),
    st.booleans(),
    st.sampled_from(["", "a", "b"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([{}, {"user": "Hi."}]),
    st.sampled_from([0, 0, 0, 1, 10, 60]),
)


@pytest.mark.parametrize(
    "lengths",
    [[0] + [400] * 300, [0, 200] + [600] * 300, [400 + n // 50 * 40 for n in range(300)]],
    ids=["a history", "a history and a question", "short turns"],
)
def test_a_history_that_is_read_at_once_is_no_growth(lengths: list[int]) -> None:
    """In units of a fifth of a second. The context has 2048 tokens, and is not nearly full."""
    units = [listen(current_time=200 * n, kv_cache_length=t) for n, t in enumerate(lengths)]
    results = published(units, UnitSequence(2048))
    assert {result.context_left_s for result in results} == {None}
    assert results[-1].context_forecast


def test_growth_after_a_history_is_reported_in_time() -> None:
    lengths = [0] + [400] * 100 + [400 + 4 * n for n in range(400)]
    units = [listen(current_time=200 * n, kv_cache_length=t) for n, t in enumerate(lengths)]
    reported = [r.context_left_s for r in published(units, UnitSequence(2048)) if r.context_left_s]
    assert reported == [pytest.approx(30.0, abs=0.3)]


def placed(units: list[UnitResult]) -> list[UnitResult]:
    """At a fifth of a second each, with contexts that grow by the tokens of `units`."""
    tokens = itertools.accumulate(unit.kv_cache_length for unit in units)
    return [
        replace(unit, current_time=200 * n, kv_cache_length=length)
        for n, (unit, length) in enumerate(zip(units, tokens, strict=True))
    ]


@given(units=st.lists(UNITS, max_size=200), place=st.integers(0, 200))
def test_another_worker_continues_from_the_newest_results(
    units: list[UnitResult], place: int
) -> None:
    before, after = placed(units)[:place], placed(units)[place:]
    first, second = UnitSequence(4096), UnitSequence(4096)
    results = published(before, first)
    second.restore(results[-51:])
    assert published(after, first) == published(after, second)
