"""Latency of units as the client measures it, and the share of each hop."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from antiphon.client.results import Unit


class SendLog:
    """Send times of the audio, by position, for comparison with results."""

    def __init__(self) -> None:
        self._ends_ms: list[float] = []
        self._sent_at: list[float] = []

    @property
    def total_ms(self) -> float:
        return self._ends_ms[-1] if self._ends_ms else 0.0

    def add(self, duration_ms: float, sent_at: float) -> None:
        """Record a chunk and the `time.monotonic()` of its sending."""
        self._ends_ms.append(self.total_ms + duration_ms)
        self._sent_at.append(sent_at)

    def sent_at(self, position_ms: float) -> float | None:
        """Send time of the chunk with this position of the audio; None if it was not sent."""
        index = bisect_left(self._ends_ms, position_ms)
        return self._sent_at[index] if index < len(self._sent_at) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitLatency:
    """One unit's latency in milliseconds: the total, and the hops if the server reported them."""

    total: float
    to_worker: float | None = None
    engine: float | None = None

    @classmethod
    def of(cls, unit: Unit, log: SendLog) -> "UnitLatency | None":
        """From sending the last chunk that the unit answers to its result; None if it was not sent."""
        sent_at = log.sent_at(unit.message.current_time)
        if sent_at is None:
            return None
        hops = unit.timing or {}
        total = (unit.received_at - sent_at) * 1000.0
        return cls(
            total=total, to_worker=hops.get("edge_to_worker_ms"), engine=hops.get("engine_ms")
        )

    @property
    def outward(self) -> float | None:
        """From the worker's result to the client: the rest of the total.

        It includes the path from the client to the edge, since only the client's clock sees both ends.
        """
        if self.to_worker is None or self.engine is None:
            return None
        return max(0.0, self.total - self.engine - self.to_worker)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` (0..1) of them do not exceed; NaN for none."""
    if not values:
        return math.nan
    rank = max(1, math.ceil(share * len(values)))
    return sorted(values)[rank - 1]


@dataclass(frozen=True, slots=True)
class LatencySpread:
    """Median and 99th percentile, in milliseconds."""

    p50: float
    p99: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "LatencySpread | None":
        return cls(percentile(values, 0.5), percentile(values, 0.99)) if values else None

    def __str__(self) -> str:
        return f"p50 {self.p50:.1f} ms, p99 {self.p99:.1f} ms"


def hop_spread(latencies: Sequence[UnitLatency], hop: str) -> LatencySpread | None:
    """The spread of one field of the latencies; None if the server did not report it."""
    values = (getattr(one, hop) for one in latencies)
    return LatencySpread.of([value for value in values if value is not None])
