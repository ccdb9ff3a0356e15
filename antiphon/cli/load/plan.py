"""The plan of a load, and its log: when each request was due, sent and answered.

Latency counts from the due time, not from the send time. A slow server also delays the next requests
of its users, and those requests are late as well (coordinated omission). All requests are planned
before the start, so requests that are never sent count as lost.
"""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from antiphon.cli.conversation.latency import percentile
from antiphon.shared_schemas.config import USUAL_CHUNK_MS

PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99_9": 0.999, "max": 1.0}
_GOLDEN = 0.61803
"""Its multiples spread any number of users evenly over a second."""
_AFTER_S = 1.0
"""Without it, all full-duplex users would leave in the last measured second."""


class UserKind(StrEnum):
    """The protocol that a simulated user speaks."""

    AUDIO = "audio"
    OMNI = "omni"
    HALF_DUPLEX = "half-duplex"
    CHAT = "chat"
    LIVE = "live"
    OPENAI = "openai"


FULL_DUPLEX = (UserKind.AUDIO, UserKind.OMNI, UserKind.LIVE)
"""Their users send sound all the time."""

LATE_S = {kind: 1.0 if kind in FULL_DUPLEX else 2.0 for kind in UserKind}
"""Answers after this count as late: a unit after the next chunk, an answer after a long silence."""


class AudioTransport(StrEnum):
    """Encoding of audio: base64 in text, or binary frames with float32 or 16-bit samples."""

    TEXT = "text"
    F32 = "f32"
    S16 = "s16"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """`sessions` users, whose kinds rotate; `seconds` are measured after `warm_up_s`.

    Requests continue for a second after the measurement, so that no full-duplex session ends in it.
    Full-duplex users send chunks of `chunk_ms` in real time and speak during the share `speak_ratio`.
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
    chunk_ms: int = USUAL_CHUNK_MS
    form: AudioTransport = AudioTransport.TEXT

    def kind_of(self, number: int) -> UserKind:
        return self.kinds[number % len(self.kinds)]

    def period_s(self, kind: UserKind) -> float:
        """Seconds between two requests of a user."""
        return self.chunk_ms / 1000 if kind in FULL_DUPLEX else self.every_s


@dataclass(frozen=True, slots=True)
class LoadTimes:
    """`time.monotonic()` of the first request, the measurement's start and stop, and the load's end."""

    start: float
    measure: float
    stop: float
    end: float

    @classmethod
    def of(cls, plan: LoadPlan, start: float) -> "LoadTimes":
        measure = start + plan.warm_up_s
        stop = measure + plan.seconds
        return cls(start, measure, stop, stop + _AFTER_S)

    def dues(self, number: int, period_s: float) -> Iterator[float]:
        """Due times of the requests of user `number`; they do not depend on the server."""
        first = self.start + (number * _GOLDEN) % 1.0 * period_s
        for n in range(max(0, math.ceil((self.end - first) / period_s))):
            yield first + n * period_s


@dataclass(slots=True)
class LoadRequest:
    """One planned request of a user; all times are `time.monotonic()`.

    `answer_from` is the start of its latency: the due time, or the due end of a question's speech.
    """

    kind: UserKind
    due_at: float
    answer_from: float
    sent_at: float | None = None
    answered_at: float | None = None

    async def wait_until_due(self) -> None:
        """Return when the user must send it, which counts as sent then."""
        await asyncio.sleep(self.due_at - time.monotonic())
        self.sent_at = time.monotonic()

    @property
    def latency_ms(self) -> float | None:
        """None without an answer."""
        return None if self.answered_at is None else (self.answered_at - self.answer_from) * 1000


@dataclass(slots=True)
class LoadLog:
    """The requests of every user, and all failures."""

    users: list[list[LoadRequest]] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    opened_ms: list[float] = field(default_factory=list)
    simulated: bool = False

    def plan_requests(self, plan: LoadPlan, times: LoadTimes) -> None:
        for number in range(plan.sessions):
            kind = plan.kind_of(number)
            dues = times.dues(number, plan.period_s(kind))
            self.users.append([LoadRequest(kind, due, due) for due in dues])

    def measured(self, times: LoadTimes) -> list[LoadRequest]:
        """Requests that were due in the measured window."""
        requests = (request for user in self.users for request in user)
        return [one for one in requests if times.measure <= one.due_at < times.stop]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSummary:
    """Figures of one kind of user. A high `sent_late_ms` mostly means that the generator is slow.

    `worst_ms` is the largest latency of each tenth of the answers, in the order of their due times.
    """

    due: int
    answered: int
    lost: int
    late: int
    latency_ms: dict[str, float]
    worst_ms: list[float]
    sent_late_ms: dict[str, float]

    @classmethod
    def of(cls, requests: Iterable[LoadRequest]) -> "LoadSummary":
        due = sorted(requests, key=lambda one: one.due_at)
        answered = [(one, ms) for one in due if (ms := one.latency_ms) is not None]
        latencies = [ms for _, ms in answered]
        sent = [max(0.0, one.sent_at - one.due_at) * 1000 for one in due if one.sent_at is not None]
        return cls(
            due=len(due),
            answered=len(answered),
            lost=len(due) - len(answered),
            late=sum(ms > LATE_S[one.kind] * 1000 for one, ms in answered),
            latency_ms=percentiles(latencies),
            worst_ms=[
                round(float(max(tenth)), 1) for tenth in np.array_split(latencies, 10) if len(tenth)
            ],
            sent_late_ms=percentiles(sent),
        )


def percentiles(values: list[float]) -> dict[str, float]:
    """Percentiles by name, each one of the values; empty without values."""
    shares = PERCENTILES.items() if values else ()
    return {name: round(percentile(values, share), 1) for name, share in shares}
