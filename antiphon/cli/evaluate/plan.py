"""Which cases are tried, with which sounds, and in which calls."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest

import numpy as np

from antiphon.cli.evaluate.sounds import SOUNDS, babble, pink_noise, white_noise
from antiphon.cli.evaluate.speech import (
    ASIDES,
    BACKCHANNELS,
    CALLERS,
    FILLERS,
    INTERRUPTIONS,
    LONG_REQUESTS,
    PAUSED,
    QUESTIONS,
    RECORDED,
    USER_DBFS,
    active_rms,
    at_level,
    say,
    say_halves,
    sentences_of,
)
from antiphon.cli.evaluate.tracks import Kind
from antiphon.shared_schemas.audio import INPUT_RATE, SILENCE, Samples

QUICK_CASES = 3
FULL_CASES = 12

_ASIDE_DB = -18.0
_NOISE_DB = -10.0
_NOISE_S = 20.0
_SILENCE_S = 30.0
_SOUND_DBFS = -22.0
_CASES_PER_CALL = 4
_GOLDEN = 0.618034
"""Multiples of it, without their whole parts, are spread evenly over 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Script:
    """One case. What is not needed for its kind is empty.

    `opener` asks for the answer in which `sound` happens, `delay_s` after the answer has begun; of cases in
    silence, it shows the server how loud the caller is. `rest` is what follows a pause of `pause_s`. `phase` is
    the place in the grid of chunks at which `sound` begins.
    """

    kind: Kind
    text: str
    voice: str
    phase: float
    sound: Samples = field(default_factory=lambda: SILENCE, repr=False)
    rest: Samples = field(default_factory=lambda: SILENCE, repr=False)
    opener: Samples = field(default_factory=lambda: SILENCE, repr=False)
    noise: Samples = field(default_factory=lambda: SILENCE, repr=False)
    delay_s: float = 0.0
    pause_s: float = 0.0


@dataclass(frozen=True, slots=True)
class KindShare:
    """How often a kind is tried, for each of the cases that were asked for."""

    kind: Kind
    per_case: float


SHARES = (
    KindShare(Kind.QUESTION, 1),
    KindShare(Kind.PAUSE, 1),
    KindShare(Kind.INTERRUPTION, 1),
    KindShare(Kind.BACKCHANNEL, 1),
    KindShare(Kind.SOUND, 1),
    KindShare(Kind.SOUND_IN_SILENCE, 1 / 2),
    KindShare(Kind.ASIDE, 1),
    KindShare(Kind.ASIDE_IN_SILENCE, 1 / 2),
    KindShare(Kind.WHITE_NOISE, 1 / 3),
    KindShare(Kind.PINK_NOISE, 1 / 3),
    KindShare(Kind.BABBLE, 1 / 3),
    KindShare(Kind.SILENCE, 1 / 4),
    KindShare(Kind.HALF_DUPLEX, 1 / 3),
)


def scripts(cases: int, kinds: Sequence[Kind] = tuple(Kind)) -> list[Script]:
    """The cases of these kinds; `cases` of each of the main ones, of others fewer."""
    return [
        script(share.kind, number)
        for share in SHARES
        if share.kind in kinds
        for number in range(math.ceil(cases * share.per_case))
    ]


def calls(all_scripts: Sequence[Script]) -> list[list[Script]]:
    """The cases in calls of one caller each: a few of different kinds, and a question first if there is one."""
    found = [[one] for one in all_scripts if one.kind in (Kind.HALF_DUPLEX, Kind.SILENCE)]
    rest = [one for one in all_scripts if one.kind not in (Kind.HALF_DUPLEX, Kind.SILENCE)]
    for voice in dict.fromkeys(one.voice for one in rest):
        own = [one for one in rest if one.voice == voice]
        by_kind = [[one for one in own if one.kind is kind] for kind in Kind]
        mixed = [one for one in chain(*zip_longest(*by_kind)) if one is not None]
        count = _CASES_PER_CALL
        found += [mixed[begin : begin + count] for begin in range(0, len(mixed), count)]
    return found


def script(kind: Kind, number: int) -> Script:
    """The case of this number, which is always the same."""
    caller = number % len(CALLERS)
    voice = CALLERS[caller]
    phase = (number + 0.5) * _GOLDEN % 1
    request = say(LONG_REQUESTS[number % len(LONG_REQUESTS)], voice)
    make = {
        Kind.PAUSE: _paused,
        Kind.WHITE_NOISE: _in_noise,
        Kind.PINK_NOISE: _in_noise,
        Kind.BABBLE: _in_noise,
    }.get(kind)
    if make is not None:
        return make(kind, number, voice, phase)
    if kind is Kind.SILENCE:
        text = f"{_SILENCE_S:g} s of silence"
        return Script(kind=kind, text=text, voice="", phase=phase, pause_s=_SILENCE_S)
    text, sound = _sound_of(kind, number, voice)
    opener = request
    if kind is Kind.QUESTION:
        opener = SILENCE
    elif kind in (Kind.SOUND_IN_SILENCE, Kind.ASIDE_IN_SILENCE):
        opener = say(QUESTIONS[number % len(QUESTIONS)], voice)
    return Script(
        kind=kind,
        text=text,
        voice=voice,
        phase=phase,
        sound=sound,
        opener=opener,
        delay_s=1.0 + 2.0 * (number * _GOLDEN % 1),
    )


def _sound_of(kind: Kind, number: int, voice: str) -> tuple[str, Samples]:
    """The sound, and its name."""
    if kind in (Kind.ASIDE, Kind.ASIDE_IN_SILENCE):
        return _aside(number, odd=kind is Kind.ASIDE_IN_SILENCE)
    if kind in (Kind.SOUND, Kind.SOUND_IN_SILENCE):
        return _noise_of_a_person(number, voice, odd=kind is Kind.SOUND_IN_SILENCE)
    texts = {
        Kind.QUESTION: QUESTIONS,
        Kind.BACKCHANNEL: BACKCHANNELS,
        Kind.INTERRUPTION: INTERRUPTIONS,
        Kind.HALF_DUPLEX: INTERRUPTIONS,
    }[kind]
    text = texts[number % len(texts)]
    return text, say(text, voice)


def _aside(number: int, *, odd: bool) -> tuple[str, Samples]:
    """Somebody else, quietly: each second one from a recording."""
    level = USER_DBFS + _ASIDE_DB
    if (number % 2 == 1) != odd:
        parts = sentences_of(RECORDED)
        part = parts[number // 2 % len(parts)]
        return f"somebody reads a novel, {part}", say(part, RECORDED, level)
    caller = (number + 3) % len(CALLERS)
    text = ASIDES[caller]
    return f"{text} ({CALLERS[caller]})", say(text, CALLERS[caller], level)


def _noise_of_a_person(number: int, voice: str, *, odd: bool) -> tuple[str, Samples]:
    """A sound, or each third time a filler word."""
    if number % 3 == 2:
        text = FILLERS[number % len(FILLERS)]
        return text, say(text, voice)
    names = list(SOUNDS)
    name = names[(number + odd) % len(names)]
    return name, at_level(SOUNDS[name](number + 1), _SOUND_DBFS)


def _paused(kind: Kind, number: int, voice: str, phase: float) -> Script:
    text = PAUSED[number % len(PAUSED)]
    before, after = say_halves(text, voice)
    pause_s = 0.8 + 0.4 * (number * _GOLDEN % 1)
    return Script(
        kind=kind, text=text, voice=voice, phase=phase, sound=before, rest=after, pause_s=pause_s
    )


def _in_noise(kind: Kind, number: int, voice: str, phase: float) -> Script:
    text = QUESTIONS[(number + 7) // len(CALLERS) % 2 * len(CALLERS) + CALLERS.index(voice)]
    sound, count = say(text, voice), round(_NOISE_S * INPUT_RATE)
    if kind is Kind.WHITE_NOISE:
        noise = white_noise(count, number + 1)
    elif kind is Kind.PINK_NOISE:
        noise = pink_noise(count, number + 1)
    else:
        others = [one for one in CALLERS if one != voice][:6]
        noise = babble(count, [_all_of(one) for one in others], number + 1)
    level = active_rms(sound) * 10 ** (_NOISE_DB / 20)
    noise = (noise * np.float32(level)).astype(np.float32)
    return Script(kind=kind, text=text, voice=voice, phase=phase, sound=sound, noise=noise)


def _all_of(voice: str) -> Samples:
    return np.concatenate([say(text, voice) for text in sentences_of(voice)])


def duration_s(all_scripts: Sequence[Script]) -> float:
    """About how long all of them take one after another."""
    return sum(_SILENCE_S if one.kind is Kind.SILENCE else 13.0 for one in all_scripts)
