"""What a worker counts, as its registry row and health page show it."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(slots=True)
class Counters:
    """Totals since the process started. Durations in milliseconds."""

    sessions: int = 0
    recovered: int = 0
    turns: int = 0
    chats: int = 0
    units: int = 0
    units_speaking: int = 0
    chunks_skipped: int = 0
    deadline_misses: int = 0
    engine_errors: int = 0
    unit_ms_total: float = 0.0

    def count_unit(
        self, *, is_listen: bool, skipped: int, wall_clock_ms: float, deadline_ms: float
    ) -> None:
        """Add one served unit."""
        self.units += 1
        self.units_speaking += not is_listen
        self.chunks_skipped += skipped
        self.deadline_misses += wall_clock_ms > deadline_ms
        self.unit_ms_total += wall_clock_ms

    def row(self) -> dict[str, float]:
        """For the registry."""
        return asdict(self)
