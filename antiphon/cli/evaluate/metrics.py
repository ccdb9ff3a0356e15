"""The published measures of turn-taking, from both tracks of each case (docs/interaction.md)."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from antiphon.cli.evaluate.tracks import (
    Case,
    Kind,
    ModelTurn,
    Span,
    UserTurn,
    sounds_in,
)

PATIENCE_S = 10.0
"""A user who is not answered within this time speaks again."""

YIELD_S = 2.0
STOP_S = 1.0
ANSWER_S = 2.0
TAKEOVER_S = 1.0
TAKEOVER_WORDS = 3
_NATURAL_S = 0.3
"""The last sound of a turn is at most this long before the end of its audio."""

_RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Measure:
    """`meaning` is one line. `total`: the values are added, not averaged."""

    label: str
    unit: str
    good: str
    meaning: str
    total: bool = False


MEASURES = {
    "l_r": Measure("L_R", "s", "low", "end of the user's turn to the first sound of the answer"),
    "r_r": Measure("R_R", "", "high", "turns that are answered"),
    "r_r_white": Measure("R_R, white noise", "", "high", "the same in white noise at 10 dB"),
    "r_r_pink": Measure("R_R, pink noise", "", "high", "the same in pink noise at 10 dB"),
    "r_r_babble": Measure("R_R, babble", "", "high", "the same with other voices at 10 dB"),
    "l_y": Measure("L_Y", "s", "low", "start of an interruption to the model's last sound"),
    "r_y": Measure("R_Y", "", "high", "interruptions after which the model is silent within 2 s"),
    "spill": Measure("spill", "s", "low", "of the old answer played after the interruption began"),
    "i_a": Measure("I_A", "", "low", "starts of the model during a user's turn, per turn"),
    "tor_pause": Measure("TOR in pauses", "", "low", "pauses that the model takes for the end"),
    "sound_pause": Measure("any sound in pauses", "", "low", "pauses in which it makes a sound"),
    "tor_turn": Measure("TOR after turns", "", "high", "turns after which it takes over"),
    "tor_interruption": Measure("TOR after interruptions", "", "high", "the same, interruptions"),
    "s_bc": Measure("S_BC", "", "high", "backchannels during which the answer continues"),
    "survived": Measure("survived", "", "high", "backchannels after which it also reaches its end"),
    "s_vt": Measure("S_VT", "", "high", "coughs, sneezes, clicks and um that are ignored"),
    "s_vt_speaking": Measure("S_VT, speaking", "", "high", "while it speaks: it continues"),
    "s_vt_silent": Measure("S_VT, silent", "", "high", "in silence: it does not answer"),
    "s_nd": Measure("S_ND", "", "high", "speech of somebody else, 18 dB lower, that is ignored"),
    "s_nd_speaking": Measure("S_ND, speaking", "", "high", "while it speaks: it continues"),
    "s_nd_silent": Measure("S_ND, silent", "", "high", "in silence: it does not answer"),
    "starts": Measure(
        "starts in silence", "", "low", "times it speaks without a cause", total=True
    ),
    "spill_half": Measure("spill, half duplex", "s", "low", "as spill, over /ws/half_duplex"),
}
"""By key of the report, in the order of the table."""

_NOISES = {
    Kind.WHITE_NOISE: "r_r_white",
    Kind.PINK_NOISE: "r_r_pink",
    Kind.BABBLE: "r_r_babble",
}
_ASIDES = {
    Kind.BACKCHANNEL: ("s_bc",),
    Kind.SOUND: ("s_vt", "s_vt_speaking"),
    Kind.ASIDE: ("s_nd", "s_nd_speaking"),
    Kind.SOUND_IN_SILENCE: ("s_vt", "s_vt_silent"),
    Kind.ASIDE_IN_SILENCE: ("s_nd", "s_nd_silent"),
}
_IN_SILENCE = (Kind.SOUND_IN_SILENCE, Kind.ASIDE_IN_SILENCE)


@dataclass(frozen=True, slots=True)
class Observation:
    """What a case says about one measure. `fault`: what is wrong with it, empty if nothing is."""

    measure: str
    value: float
    fault: str = ""


def observations(case: Case) -> list[Observation]:
    """All that the case says. One whose answer ended too early for what was tried says little."""
    model = _Model(case)
    if case.kind is Kind.HALF_DUPLEX:
        return list(_of_half_duplex(model, case))
    found = [observation for turn in case.turns for observation in _of_turn(model, turn)]
    if case.aside is not None:
        found += _of_aside(model, case)
    if case.kind is Kind.SILENCE:
        starts = len(model.sounds)
        found.append(Observation("starts", starts, "speaks without a cause" if starts else ""))
    return found


class _Model:
    """The model's track of a case, as stretches of sound."""

    def __init__(self, case: Case) -> None:
        self.end = case.seconds
        self.answers = case.answers
        self.sounds = sounds_in(case.model)
        self._exact = sounds_in(case.model, 0.0)

    def at(self, time: float) -> Span | None:
        """The sound that plays at this time."""
        return next((one for one in self.sounds if one.begin <= time < one.end), None)

    def first_after(self, time: float, until: float) -> float | None:
        """The begin of the first sound that starts then."""
        return next((one.begin for one in self.sounds if time < one.begin <= until), None)

    def starts(self, begin: float, end: float) -> int:
        return sum(begin < one.begin < end for one in self.sounds)

    def seconds(self, begin: float, end: float) -> float:
        """How much is played."""
        return sum(one.overlap(begin, end) for one in self._exact)

    def takes_over(self, begin: float, end: float) -> bool:
        """A sound of less than a second with at most three words is no takeover."""
        played = self.seconds(begin, end)
        said = " ".join(
            text for turn in self.answers for at, text in turn.pieces if begin <= at < end
        )
        return played >= TAKEOVER_S or (played > 0 and len(said.split()) > TAKEOVER_WORDS)

    def next_answer(self, time: float) -> float:
        """When the first turn begins that begins at this time or later; the end if none does."""
        later = (turn.span.begin for turn in self.answers if turn.span.begin >= time)
        return next(later, self.end)

    def spill(self, turn: Span) -> float:
        """What plays during an interruption, and what plays of the old answer after it."""
        return self.seconds(turn.begin, max(turn.end, self.next_answer(turn.begin)))

    def ends_itself(self, turn: ModelTurn, sound: Span) -> bool:
        """Whether the sound ends because the model has said everything."""
        return turn.ended and not turn.cut and turn.span.end - sound.end < _NATURAL_S

    def turn_at(self, time: float) -> ModelTurn | None:
        """The newest turn that had begun."""
        begun = [turn for turn in self.answers if turn.span.begin <= time]
        return begun[-1] if begun else None


def _of_turn(model: _Model, turn: UserTurn) -> Iterator[Observation]:
    starts = model.starts(turn.span.begin, turn.span.end)
    yield Observation("i_a", starts, "speaks during the user's turn" if starts else "")
    until = turn.span.end + PATIENCE_S
    if turn.kind is Kind.INTERRUPTION:
        yield from _of_interruption(model, turn.span, until)
        return
    if turn.pause is not None:
        begin, end = turn.pause.begin, turn.span.end
        takes = model.takes_over(begin, end)
        yield Observation(
            "tor_pause", takes, "takes the pause for the end of the turn" if takes else ""
        )
        yield Observation("sound_pause", model.seconds(begin, end) > 0)
        return
    answered = model.seconds(turn.span.end, until) > 0
    fault = "" if answered else "is not answered"
    yield Observation(_NOISES.get(turn.kind, "r_r"), answered, fault)
    if turn.kind in _NOISES:
        return
    yield Observation("tor_turn", model.takes_over(turn.span.end, until))
    first = model.first_after(turn.span.end, until)
    if first is not None and model.at(turn.span.end) is None:
        yield Observation("l_r", first - turn.span.end)


def _of_half_duplex(model: _Model, case: Case) -> Iterator[Observation]:
    """Nothing but the interruption: turns are answered later there."""
    for turn in case.turns:
        if turn.kind is Kind.HALF_DUPLEX:
            spill = model.spill(turn.span)
            fault = "speaks on over the interruption" if spill > YIELD_S else ""
            yield Observation("spill_half", spill, fault)


def _of_interruption(model: _Model, turn: Span, until: float) -> Iterator[Observation]:
    """A turn of the model that began before is no answer to it."""
    sound, old = model.at(turn.begin), model.turn_at(turn.begin)
    if sound is None or old is None:
        return
    late_s = sound.end - turn.begin
    if late_s > YIELD_S or not model.ends_itself(old, sound):
        yields = late_s <= YIELD_S
        yield Observation("r_y", yields, "" if yields else "speaks on over the interruption")
        if yields:
            yield Observation("l_y", late_s)
        yield Observation("spill", model.spill(turn))
    begin = max(turn.end, model.next_answer(turn.begin))
    takes = begin <= until and model.takes_over(begin, model.end)
    yield Observation(
        "tor_interruption", takes, "" if takes else "does not answer the interruption"
    )


def _of_aside(model: _Model, case: Case) -> Iterator[Observation]:
    assert case.aside is not None
    span, names = case.aside.span, _ASIDES[case.aside.kind]
    sound = model.at(span.begin)
    if case.aside.kind in _IN_SILENCE:
        if sound is None:
            answers = model.first_after(span.begin, span.end + ANSWER_S) is not None
            for name in names:
                yield Observation(name, not answers, "is answered" if answers else "")
        return
    turn = model.turn_at(span.begin)
    if sound is None or turn is None:
        return
    stops = sound.end - span.begin <= STOP_S
    if stops and model.ends_itself(turn, sound):
        return
    for name in names:
        yield Observation(name, not stops, "stops the answer" if stops else "")
    if case.aside.kind is Kind.BACKCHANNEL:
        yield Observation("survived", not turn.cut, "ends the answer" if turn.cut else "")


@dataclass(frozen=True, slots=True)
class Estimate:
    """The mean of a measure, or its total, with the range that holds 95 % of the bootstrap."""

    value: float
    low: float
    high: float
    n: int


def estimates(found: Iterable[Observation]) -> dict[str, Estimate]:
    """By measure, in the order of MEASURES; without those that no case says anything about."""
    values: dict[str, list[float]] = defaultdict(list)
    for observation in found:
        values[observation.measure].append(float(observation.value))
    return {
        name: _estimate(values[name], total=measure.total)
        for name, measure in MEASURES.items()
        if name in values
    }


def _estimate(values: list[float], *, total: bool) -> Estimate:
    sample, count = np.array(values), len(values)
    picks = np.random.default_rng(1).integers(count, size=(_RESAMPLES, count))
    factor = count if total else 1
    means = sample[picks].mean(axis=1) * factor
    low, high = np.percentile(means, (2.5, 97.5))
    return Estimate(float(sample.mean() * factor), float(low), float(high), count)
