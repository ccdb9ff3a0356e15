"""The log of a load: when each request was due, sent and answered.

Latency counts from the due time, not from the send time. A slow server also delays the next requests
of its users, and those requests are late as well (coordinated omission). All requests are planned
before the start, so requests that are never sent count as lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from antiphon.cli.conversation.latency import percentile
from antiphon.cli.load.plan import LATE_S, LoadPlan, LoadTimes, UserKind

PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99_9": 0.999, "max": 1.0}


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
    """Figures of one kind of user. A high `sent_late_ms` mostly means that the generator is slow."""

    due: int
    answered: int
    lost: int
    late: int
    latency_ms: dict[str, float]
    sent_late_ms: dict[str, float]

    @classmethod
    def of(cls, requests: Iterable[LoadRequest]) -> LoadSummary:
        due = list(requests)
        answered = [m for m in due if m.answered_at is not None]
        latencies = [ms for m in answered if (ms := m.latency_ms) is not None]
        late = sum(ms > LATE_S[m.kind] * 1000 for m, ms in zip(answered, latencies, strict=True))
        sent = [max(0.0, m.sent_at - m.due_at) * 1000 for m in due if m.sent_at is not None]
        return cls(
            due=len(due),
            answered=len(answered),
            lost=len(due) - len(answered),
            late=late,
            latency_ms=percentiles(latencies),
            sent_late_ms=percentiles(sent),
        )


def percentiles(values: list[float]) -> dict[str, float]:
    """Percentiles by name, each one of the values; empty without values."""
    ranked = sorted(values)
    if not ranked:
        return {}
    return {name: round(percentile(ranked, share), 1) for name, share in PERCENTILES.items()}
