"""The measures on constructed tracks whose answers are known."""

import numpy as np
import pytest

from antiphon.cli.evaluate.metrics import Observation, estimates, observations
from antiphon.cli.evaluate.tracks import Aside, Case, Kind, ModelTurn, Span, UserTurn, sounds_in
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples


def tones(rate: int, seconds: float, *spans: Span) -> Samples:
    track = np.zeros(round(rate * seconds), np.float32)
    for span in spans:
        track[round(span.begin * rate) : round(span.end * rate)] = 0.3
    return track


def case(
    kind: Kind,
    *answers: ModelTurn,
    turns: tuple[UserTurn, ...] = (),
    aside: Span | None = None,
    sounds: tuple[Span, ...] | None = None,
    seconds: float = 20.0,
) -> Case:
    """`sounds`: where the model's sound plays; by default during all of its answers."""
    played = sounds if sounds is not None else tuple(answer.span for answer in answers)
    return Case(
        kind=kind,
        text="",
        voice="",
        user=tones(INPUT_RATE, seconds),
        model=tones(OUTPUT_RATE, seconds, *played),
        turns=turns,
        aside=Aside(kind=kind, span=aside) if aside else None,
        answers=answers,
    )


def answer(begin: float, end: float, text: str = "one two three four", **how: bool) -> ModelTurn:
    return ModelTurn(span=Span(begin, end), pieces=((begin, text),) if text else (), **how)


def turn(
    begin: float, end: float, kind: Kind = Kind.QUESTION, pause: Span | None = None
) -> UserTurn:
    return UserTurn(kind=kind, span=Span(begin, end), pause=pause)


def values(one: Case) -> dict[str, float]:
    return {
        found.measure: pytest.approx(float(found.value), abs=0.02) for found in observations(one)
    }


def faults(one: Case) -> set[str]:
    return {found.fault for found in observations(one)} - {""}


def test_silence_of_less_than_half_a_second_is_part_of_speech() -> None:
    track = tones(OUTPUT_RATE, 5.0, Span(1, 2), Span(2.4, 3), Span(3.6, 4), Span(4.9, 4.91))
    assert sounds_in(track) == [Span(1.0, 3.0), Span(3.6, 4.0)]


def test_an_answer_after_the_turn_is_timed() -> None:
    assert values(case(Kind.QUESTION, answer(3.2, 6), turns=(turn(1, 2.5),))) == {
        "i_a": 0.0,
        "r_r": 1.0,
        "tor_turn": 1.0,
        "l_r": 0.7,
    }


def test_an_answer_begins_with_its_first_sound_not_with_its_first_message() -> None:
    one = case(Kind.QUESTION, answer(3, 6), turns=(turn(1, 2.5),), sounds=(Span(3.5, 6),))
    assert values(one)["l_r"] == 1.0


@pytest.mark.parametrize("begin", [None, 13.0])
def test_a_turn_without_an_answer_in_ten_seconds_is_not_answered(begin: float | None) -> None:
    answers = [answer(begin, 15)] if begin else []
    one = case(Kind.QUESTION, *answers, turns=(turn(1, 2.5),))
    assert values(one) == {"i_a": 0.0, "r_r": 0.0, "tor_turn": 0.0}
    assert faults(one) == {"is not answered"}


def test_an_answer_to_a_part_of_the_turn_is_no_fast_answer() -> None:
    one = case(Kind.QUESTION, answer(2.0, 6), turns=(turn(1, 2.5),))
    assert values(one) == {"i_a": 1.0, "r_r": 1.0, "tor_turn": 1.0}
    assert faults(one) == {"speaks during the user's turn"}


@pytest.mark.parametrize(
    ("until", "text", "takes"),
    [(2.9, "Rome", 0.0), (2.9, "It is in Italy", 1.0), (3.6, "Rome", 1.0), (2.9, "", 0.0)],
)
def test_a_takeover_has_a_second_or_more_than_three_words(
    until: float, text: str, takes: float
) -> None:
    paused = turn(1, 4, Kind.PAUSE, Span(2, 3))
    one = case(Kind.PAUSE, answer(2.5, until, text), turns=(paused,))
    assert values(one) == {"i_a": 1.0, "tor_pause": takes, "sound_pause": 1.0}


def test_a_pause_that_the_model_waits_for() -> None:
    one = case(Kind.PAUSE, answer(5, 7), turns=(turn(1, 4, Kind.PAUSE, Span(2, 3)),))
    assert values(one) == {"i_a": 0.0, "tor_pause": 0.0, "sound_pause": 0.0}
    assert not faults(one)


INTERRUPTED = turn(5, 6.5, Kind.INTERRUPTION)


def test_a_model_that_yields_and_answers() -> None:
    old = answer(3, 5.6, ended=False, cut=True)
    one = case(Kind.INTERRUPTION, old, answer(7.5, 10), turns=(INTERRUPTED,))
    assert values(one) == {
        "i_a": 0.0,
        "r_y": 1.0,
        "l_y": 0.6,
        "spill": 0.6,
        "tor_interruption": 1.0,
    }


def test_a_model_that_speaks_on() -> None:
    one = case(Kind.INTERRUPTION, answer(3, 15, ended=False), turns=(INTERRUPTED,))
    assert values(one) == {"i_a": 0.0, "r_y": 0.0, "spill": 10.0, "tor_interruption": 0.0}
    assert faults(one) == {"speaks on over the interruption", "does not answer the interruption"}


def test_an_answer_to_a_part_of_the_interruption_is_spill_until_the_user_has_finished() -> None:
    old = answer(3, 5.6, ended=False, cut=True)
    one = case(Kind.INTERRUPTION, old, answer(6.2, 10), turns=(INTERRUPTED,))
    assert values(one) == {
        "i_a": 1.0,
        "r_y": 1.0,
        "l_y": 0.6,
        "spill": 0.9,
        "tor_interruption": 1.0,
    }


def test_a_pause_between_two_sentences_of_the_old_answer_is_no_new_answer() -> None:
    """It yields within two seconds, but what follows belongs to the old answer."""
    old = answer(3, 12, ended=True)
    sounds = (Span(3, 6.2), Span(7.2, 12))
    one = case(Kind.INTERRUPTION, old, turns=(INTERRUPTED,), sounds=sounds)
    assert values(one) == {
        "i_a": 0.0,
        "r_y": 1.0,
        "l_y": 1.2,
        "spill": 6.0,
        "tor_interruption": 0.0,
    }


def test_an_answer_that_ends_itself_says_nothing_about_yielding() -> None:
    one = case(Kind.INTERRUPTION, answer(3, 5.5), answer(8, 10), turns=(INTERRUPTED,))
    assert values(one) == {"i_a": 0.0, "tor_interruption": 1.0}


def test_an_interruption_of_silence_says_nothing() -> None:
    one = case(Kind.INTERRUPTION, answer(3, 4.5), answer(8, 10), turns=(INTERRUPTED,))
    assert values(one) == {"i_a": 0.0}


@pytest.mark.parametrize(
    ("kind", "measures"),
    [
        (Kind.BACKCHANNEL, {"s_bc"}),
        (Kind.SOUND, {"s_vt", "s_vt_speaking"}),
        (Kind.ASIDE, {"s_nd", "s_nd_speaking"}),
    ],
)
@pytest.mark.parametrize(
    ("end", "how", "right"),
    [
        (12.0, {}, 1.0),
        (5.9, {"ended": False, "cut": True}, 0.0),
        (6.2, {"ended": False, "cut": True}, 1.0),
        (5.9, {}, None),
    ],
    ids=["goes on", "stops", "stops later", "ends itself"],
)
def test_what_is_no_turn_must_not_stop_an_answer(
    kind: Kind, measures: set[str], end: float, how: dict[str, bool], right: float | None
) -> None:
    found = values(case(kind, answer(2, end, **how), aside=Span(5, 5.5)))
    survived = found.pop("survived", None)
    assert found == ({} if right is None else dict.fromkeys(measures, right))
    if kind is Kind.BACKCHANNEL:
        assert survived == (None if right is None else float(end == 12.0))


@pytest.mark.parametrize(
    ("kind", "measures"),
    [
        (Kind.SOUND_IN_SILENCE, {"s_vt", "s_vt_silent"}),
        (Kind.ASIDE_IN_SILENCE, {"s_nd", "s_nd_silent"}),
    ],
)
@pytest.mark.parametrize(("begin", "right"), [(6.9, 0.0), (7.6, 1.0), (4.0, None)])
def test_what_is_no_turn_must_not_be_answered(
    kind: Kind, measures: set[str], begin: float, right: float | None
) -> None:
    found = values(case(kind, answer(begin, 9), aside=Span(5, 5.5)))
    assert found == ({} if right is None else dict.fromkeys(measures, right))


@pytest.mark.parametrize("noise", ["white", "pink", "babble"])
def test_each_noise_has_its_own_rate_of_answers(noise: str) -> None:
    kind = Kind.BABBLE if noise == "babble" else Kind(f"{noise}-noise")
    one = case(kind, answer(4, 6), turns=(turn(1, 2.5, kind),))
    assert values(one) == {"i_a": 0.0, f"r_r_{noise}": 1.0}


def test_starts_in_silence_are_counted() -> None:
    one = case(Kind.SILENCE, answer(3, 4), answer(8, 9))
    assert values(one) == {"starts": 2.0}
    assert estimates(observations(one) + observations(case(Kind.SILENCE)))["starts"].value == 2.0


def test_of_half_duplex_all_is_spill_until_the_next_answer() -> None:
    turns = (turn(1, 2), turn(5, 6, Kind.HALF_DUPLEX))
    one = case(Kind.HALF_DUPLEX, answer(3, 16), answer(17, 19), turns=turns)
    assert values(one) == {"spill_half": 11.0}
    assert faults(one) == {"speaks on over the interruption"}


def test_estimates_have_the_mean_and_the_range_of_the_bootstrap() -> None:
    found = [Observation("r_y", value) for value in (1, 1, 1, 0) * 25]
    estimate = estimates(found)["r_y"]
    assert (estimate.value, estimate.n) == (0.75, 100)
    # The share of 100 with a standard error of 0.043.
    assert estimate.low == pytest.approx(0.75 - 1.96 * 0.043, abs=0.015)
    assert estimate.high == pytest.approx(0.75 + 1.96 * 0.043, abs=0.015)
    assert list(estimates([Observation("spill", 1.0), Observation("l_r", 2.0)])) == ["l_r", "spill"]
