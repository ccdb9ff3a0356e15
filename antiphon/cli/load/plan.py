"""The plan of a load: its users, their kinds and the due times of their requests."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

CHUNK_S = 1.0
_GOLDEN = 0.61803
"""Its multiples spread any number of users evenly over a second."""


class UserKind(StrEnum):
    """The kind of a simulated user."""

    AUDIO = "audio"
    OMNI = "omni"
    HALF_DUPLEX = "half-duplex"
    CHAT = "chat"


LATE_S = {UserKind.AUDIO: 1.0, UserKind.OMNI: 1.0, UserKind.HALF_DUPLEX: 2.0, UserKind.CHAT: 2.0}
"""Answers after this count as late: a unit after the next chunk, an answer after a long silence."""


class AudioTransport(StrEnum):
    """Encoding of audio: base64 in text, or binary frames with float32 or 16-bit samples."""

    TEXT = "text"
    F32 = "f32"
    S16 = "s16"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """`sessions` users, whose kinds rotate; `seconds` are measured after `warm_up_s`.

    Full-duplex users send a second of audio every second and speak during the share `speak_ratio`.
    Other users ask every `every_s` seconds. All users must have a turn within `patience_s`.
    """

    kinds: tuple[UserKind, ...]
    sessions: int
    seconds: float
    warm_up_s: float = 3.0
    grace_s: float = 5.0
    patience_s: float = 120.0
    every_s: float = 10.0
    speak_ratio: float = 0.5
    form: AudioTransport = AudioTransport.TEXT

    def kind_of(self, number: int) -> UserKind:
        return self.kinds[number % len(self.kinds)]

    def period_s(self, kind: UserKind) -> float:
        """Seconds between two requests of a user."""
        return CHUNK_S if kind in (UserKind.AUDIO, UserKind.OMNI) else self.every_s


@dataclass(frozen=True, slots=True)
class LoadTimes:
    """`time.monotonic()` of the first request, and of the start and end of the measurement."""

    start: float
    measure: float
    stop: float

    @classmethod
    def of(cls, plan: LoadPlan, start: float) -> LoadTimes:
        measure = start + plan.warm_up_s
        return cls(start, measure, measure + plan.seconds)

    def dues(self, number: int, period_s: float) -> Iterator[float]:
        """Due times of the requests of user `number`; they do not depend on the server."""
        first = self.start + (number * _GOLDEN) % 1.0 * period_s
        for n in range(max(0, math.ceil((self.stop - first) / period_s))):
            yield first + n * period_s
