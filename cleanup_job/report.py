"""The report of a sweep, and the metrics that count all sweeps."""

from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge
from pydantic import AwareDatetime, BaseModel, ConfigDict


class Rule(StrEnum):
    """Why a recording is deleted."""

    AGE = "age"
    SIZE = "size"


class SweepStatus(StrEnum):
    """`busy`: another sweep was running, so nothing was done. `disabled`: both rules are off.

    `stopped`: ended early by a stop; the report covers the work until then.
    """

    DONE = "done"
    STOPPED = "stopped"
    BUSY = "busy"
    DISABLED = "disabled"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True)


class Removal(_Record):
    """One recording that was deleted (in a dry run: would be). `size` in bytes."""

    session: str
    rule: Rule
    size: int
    created_at: AwareDatetime
    last_used_at: AwareDatetime


class Failure(_Record):
    """Something that could not be read or deleted."""

    session: str
    error: str


class RedisReport(_Record):
    """What was deleted (in a dry run: would be) from Redis: see `broker.orphaned_keys`.

    `shares`: links to the recordings that were deleted. `error`: why Redis could not be swept.
    """

    streams: int = 0
    rows: int = 0
    consumers: int = 0
    shares: int = 0
    error: str | None = None


class SweepReport(_Record):
    """One sweep. `leftovers` counts half-deleted recordings and half-finished uploads."""

    status: SweepStatus
    dry_run: bool = False
    scanned: int = 0
    live: int = 0
    removed: list[Removal] = []
    failed: list[Failure] = []
    freed_bytes: int = 0
    remaining: int = 0
    remaining_bytes: int = 0
    leftovers: int = 0
    redis: RedisReport = RedisReport()


_NAME = "antiphon_cleanup_"


class CleanupMetrics:
    """Totals over all sweeps, and what the last one left."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self._sweeps = _counter(registry, "sweeps", "Sweeps, by how they ended.", "status")
        self._removed = _counter(registry, "removed_recordings", "Recordings deleted.", "rule")
        self._freed = _counter(registry, "freed_bytes", "Bytes of the recordings deleted.")
        self._failures = _counter(registry, "failures", "What could not be read or deleted.")
        self._redis = _counter(registry, "redis_leftovers", "What was removed from Redis.", "what")
        self._last = _gauge(registry, "last_sweep_timestamp_seconds", "When one last ended.")
        self._kept = _gauge(registry, "kept_recordings", "Recordings left by the last sweep.")
        self._bytes = _gauge(registry, "kept_bytes", "Bytes of the recordings left.")
        self._last.set_to_current_time()  # until a sweep ends: its age is that of the process
        for status in (*SweepStatus, "failed"):
            self._sweeps.labels(status)
        for rule in Rule:
            self._removed.labels(rule)

    def observe(self, report: SweepReport) -> None:
        """Count one sweep; a dry run changes no total."""
        self._sweeps.labels(report.status).inc()
        if report.status is SweepStatus.BUSY:
            return
        self._last.set_to_current_time()
        if report.status is SweepStatus.DISABLED:
            return
        self._failures.inc(len(report.failed))
        self._kept.set(report.remaining)
        self._bytes.set(report.remaining_bytes)
        if not report.dry_run:
            self._count_removed(report)

    def fail(self) -> None:
        self._sweeps.labels("failed").inc()

    def _count_removed(self, report: SweepReport) -> None:
        for removal in report.removed:
            self._removed.labels(removal.rule).inc()
        self._freed.inc(report.freed_bytes)
        for what, count in report.redis.model_dump(exclude={"error"}).items():
            self._redis.labels(what).inc(count)


def _counter(registry: CollectorRegistry, name: str, text: str, *labels: str) -> Counter:
    return Counter(_NAME + name, text, labels, registry=registry)


def _gauge(registry: CollectorRegistry, name: str, text: str) -> Gauge:
    return Gauge(_NAME + name, text, registry=registry)
