"""What was due, when it was done, and when its answer came.

Latency counts from when something was due, not from when it was sent: a server that holds its users up
also keeps them from asking, and what they could not ask in time was late all the same (coordinated
omission). What is due is written down beforehand, so that nothing is lost by not being asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from antiphon.cli.latency import percentile
from antiphon.cli.load.plan import LATE_S, Kind, LoadPlan, Times

PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99_9": 0.999, "max": 1.0}


@dataclass(slots=True)
class Moment:
    """One thing that a user was due to do; all times are `time.monotonic()`.

    `answer_from` is where waiting begins: when it was due, or where a question's speech should have ended.
    """

    kind: Kind
    due_at: float
    answer_from: float
    sent_at: float | None = None
    answered_at: float | None = None

    @property
    def latency_ms(self) -> float | None:
        """None for what was never answered."""
        return None if self.answered_at is None else (self.answered_at - self.answer_from) * 1000


@dataclass(slots=True)
class Ledger:
    """Every user's moments, and what went wrong."""

    users: list[list[Moment]] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    opened_ms: list[float] = field(default_factory=list)
    simulated: bool = False

    def write_down(self, plan: LoadPlan, times: Times) -> None:
        """All that is due, of all users."""
        for number in range(plan.sessions):
            kind = plan.kind_of(number)
            dues = times.dues(number, plan.period_s(kind))
            self.users.append([Moment(kind, due, due) for due in dues])

    def measured(self, times: Times) -> list[Moment]:
        """What was due in the measured window."""
        every = (moment for user in self.users for moment in user)
        return [moment for moment in every if times.measure <= moment.due_at < times.stop]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """How users of one kind fared. Milliseconds; `sent_late_ms` is the generator's own doing, mostly."""

    due: int
    answered: int
    lost: int
    late: int
    latency_ms: dict[str, float]
    sent_late_ms: dict[str, float]

    @classmethod
    def of(cls, moments: Iterable[Moment]) -> Summary:
        """Over moments of any kinds."""
        all_of_them = list(moments)
        answered = [m for m in all_of_them if m.answered_at is not None]
        latencies = [ms for m in answered if (ms := m.latency_ms) is not None]
        late = sum(ms > LATE_S[m.kind] * 1000 for m, ms in zip(answered, latencies, strict=True))
        sent = [max(0.0, m.sent_at - m.due_at) * 1000 for m in all_of_them if m.sent_at is not None]
        return cls(
            due=len(all_of_them),
            answered=len(answered),
            lost=len(all_of_them) - len(answered),
            late=late,
            latency_ms=spread(latencies),
            sent_late_ms=spread(sent),
        )


def spread(values: list[float]) -> dict[str, float]:
    """Percentiles by name, each a value that occurred; none of no values."""
    ranked = sorted(values)
    if not ranked:
        return {}
    return {name: round(percentile(ranked, share), 1) for name, share in PERCENTILES.items()}
