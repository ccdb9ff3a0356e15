"""How fast and how loud the assistant speaks, as the user asked in the conversation."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from antiphon.inference_worker.engines.local.rules.text import LONGEST_CHARS, PLEASE, peeled, plain

_DEGREE = r"(?:a (?:little |bit )?(?:bit )?|much |more )?"
_SAY = r"(?:speak |talk |go |(?:say|repeat) (?:it |that )?(?:again )?(?:but )?)?"
PACE = re.compile(
    rf"(?:you (?:can|could|should) )?{PLEASE}{_SAY}{_DEGREE}"
    r"(?:slow(?:er|ly)?(?: down)?|fast(?:er)?|quick(?:er|ly)|speed up)(?: speed)?"
    r"|(?:you (?:speak|talk|are speaking|are talking) |that is |that was )?too (?:fast|slow|quick)(?:ly)?"
    rf"|{PLEASE}(?:do not|stop) (?:speak|talk)(?:ing)? so fast"
)
_WHAT = r"(?:it|that|(?:the |your )?(?:volume|sound|voice))"
LOUDNESS = re.compile(
    rf"{PLEASE}(?:{_SAY}|be |(?:turn |make )(?:{_WHAT} )?)?(?:up |down )?{_DEGREE}"
    r"(?:loud(?:er|ly)?|quiet(?:er|ly)|soft(?:er|ly))"
    rf"|{PLEASE}(?:turn (?:up|down) {_WHAT}|(?:turn )?{_WHAT} (?:up|down)|speak up|(?:lower|raise) {_WHAT})"
    r"(?: (?:a (?:little )?(?:bit )?more|a little bit|a little|a bit|more))?"
    r"|(?:you are |that is )?too (?:loud|quiet)|i can(?:not| hardly| barely) hear you(?: well)?"
)

_PACE_STEP, _PACE_RANGE = 1.18, 1.4
_GAIN_STEP, _GAIN_RANGE = 1.5, 2.3


@dataclass(frozen=True, slots=True)
class Manner:
    """Factors of the usual speed and loudness."""

    speed: float = 1.0
    gain: float = 1.0


USUAL = Manner()


def is_slower(text: str) -> bool:
    """Whether `text`, which matches PACE, asks for slower speech."""
    return "too slow" not in text and bool(re.search(r"slow|(?:too|so) (?:fast|quick)", text))


def is_quieter(text: str) -> bool:
    """Whether `text`, which matches LOUDNESS, asks for a lower voice."""
    return bool(re.search(r"quieter|quietly|soft|down|lower|too loud", text))


def manner_of(said: Sequence[str]) -> Manner:
    """What the user's turns `said` ask for, together."""
    speed = gain = 1.0
    for turn in said:
        for text in peeled(plain(turn)) if len(turn) <= LONGEST_CHARS else ():
            if PACE.fullmatch(text):
                speed = other_pace(speed, slower=is_slower(text))
                break
            if LOUDNESS.fullmatch(text):
                gain = other_gain(gain, quieter=is_quieter(text))
                break
    return Manner(speed, gain)


def other_pace(speed: float, *, slower: bool) -> float:
    return _stepped(speed, _PACE_STEP, _PACE_RANGE, down=slower)


def other_gain(gain: float, *, quieter: bool) -> float:
    return _stepped(gain, _GAIN_STEP, _GAIN_RANGE, down=quieter)


def _stepped(factor: float, step: float, most: float, *, down: bool) -> float:
    return max(1 / most, min(most, factor / step if down else factor * step))
