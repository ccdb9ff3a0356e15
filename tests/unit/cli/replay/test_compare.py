"""Two runs compared: when they count as the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.cli.replay.compare import OutcomePair, ReplayOutcome, Tolerance, compare, similarity

LISTEN = ReplayOutcome(speaks=False, text="", ms=10.0)


def speech(text: str, ms: float = 100.0) -> ReplayOutcome:
    return ReplayOutcome(speaks=True, text=text, ms=ms)


def pairs(*runs: tuple[ReplayOutcome | None, ReplayOutcome | None]) -> list[OutcomePair]:
    return [OutcomePair(i, float(i), before, after) for i, (before, after) in enumerate(runs)]


def test_the_same_run_twice_has_no_differences() -> None:
    verdict = compare(pairs((LISTEN, LISTEN), (speech("Rome"), speech("Rome"))), Tolerance())
    assert (verdict.units, verdict.decisions, verdict.text) == (2, 1.0, 1.0)
    assert not verdict.differs
    assert verdict.before == verdict.after


def test_different_decisions_are_counted() -> None:
    runs = pairs((LISTEN, speech("uh")), (speech("Rome"), speech("Rome")), (LISTEN, LISTEN))
    verdict = compare(runs, Tolerance(text=0, slower=99))
    assert verdict.decisions == pytest.approx(2 / 3)
    assert [reason.split(":")[0] for reason in verdict.reasons] == ["decisions"]
    assert not compare(runs, Tolerance(text=0, decisions=0.6, slower=99)).differs


def test_a_unit_without_an_answer_never_agrees() -> None:
    verdict = compare(pairs((LISTEN, LISTEN), (LISTEN, None)), Tolerance())
    assert verdict.decisions == 0.5
    assert verdict.differs


def test_units_that_the_first_run_did_not_answer_are_no_difference() -> None:
    verdict = compare(pairs((None, LISTEN), (None, None), (LISTEN, LISTEN)), Tolerance())
    assert (verdict.units, verdict.decisions) == (1, 1.0)


def test_the_same_words_a_second_later_are_no_difference() -> None:
    runs = pairs(
        (speech("It is "), LISTEN), (speech("Rome."), speech("It is ")), (None, speech("Rome."))
    )
    verdict = compare(runs, Tolerance(decisions=0))
    assert verdict.text == 1.0
    assert not verdict.differs


@pytest.mark.parametrize(
    ("before", "after", "slower"),
    [(100, 190, False), (100, 210, True), (10, 55, False), (10, 70, True), (500, 90, False)],
)
def test_slower_by_a_factor_and_by_more_than_noise(
    before: float, after: float, slower: bool
) -> None:
    verdict = compare(pairs((speech("a", before), speech("a", after))), Tolerance())
    assert [reason.split(":")[0] for reason in verdict.reasons] == ["latency"] * slower


def test_two_empty_runs_are_the_same() -> None:
    verdict = compare([], Tolerance())
    assert (verdict.units, verdict.differs, verdict.before) == (0, False, None)


def test_similarity_compares_words() -> None:
    assert similarity("It is Rome.", "it is rome") == 1.0
    assert similarity("", "") == 1.0
    assert similarity("Rome", "") == 0.0
    assert similarity("It is Rome", "It is Paris") == pytest.approx(2 / 3)
    assert similarity("罗马 是 首都", "罗马 是 首都") == 1.0


@given(st.text(), st.text())
def test_similarity_is_a_share(one: str, other: str) -> None:
    assert 0.0 <= similarity(one, other) <= 1.0
    assert similarity(one, one) == 1.0
