"""What a load consists of, and when each of its users is due to do what."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

CHUNK_S = 1.0
_GOLDEN = 0.61803
"""Multiples of it spread over a second as evenly as any number of users can."""


class Kind(StrEnum):
    """What a user does."""

    AUDIO = "audio"
    OMNI = "omni"
    HALF_DUPLEX = "half-duplex"
    CHAT = "chat"


LATE_S = {Kind.AUDIO: 1.0, Kind.OMNI: 1.0, Kind.HALF_DUPLEX: 2.0, Kind.CHAT: 2.0}
"""What comes later than this is of little use: a unit after the next chunk, an answer after a long silence."""


class Form(StrEnum):
    """How sound travels: base64 in text, or binary frames with float32 or 16-bit samples."""

    TEXT = "text"
    F32 = "f32"
    S16 = "s16"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """`sessions` users of these kinds in turn; `seconds` are measured after `warm_up_s`.

    Full-duplex users send a second of audio every second, of which they speak `speak_ratio`; the
    others ask every `every_s` seconds. `patience_s`: how long all of them may take to be served.
    """

    kinds: tuple[Kind, ...]
    sessions: int
    seconds: float
    warm_up_s: float = 3.0
    grace_s: float = 5.0
    patience_s: float = 120.0
    every_s: float = 10.0
    speak_ratio: float = 0.5
    form: Form = Form.TEXT

    def kind_of(self, number: int) -> Kind:
        """The kind of user `number`."""
        return self.kinds[number % len(self.kinds)]

    def period_s(self, kind: Kind) -> float:
        """Seconds from one thing that a user does to the next."""
        return CHUNK_S if kind in (Kind.AUDIO, Kind.OMNI) else self.every_s


@dataclass(frozen=True, slots=True)
class Times:
    """`time.monotonic()` of the first thing due, of the measured window's begin and of its end."""

    start: float
    measure: float
    stop: float

    @classmethod
    def of(cls, plan: LoadPlan, start: float) -> Times:
        """Measured after the warm-up."""
        measure = start + plan.warm_up_s
        return cls(start, measure, measure + plan.seconds)

    def dues(self, number: int, period_s: float) -> Iterator[float]:
        """When user `number` is due to do something: fixed beforehand, whatever happens meanwhile."""
        first = self.start + (number * _GOLDEN) % 1.0 * period_s
        for n in range(max(0, math.ceil((self.stop - first) / period_s))):
            yield first + n * period_s
