"""The metrics of the cleanup job."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from antiphon.cleanup_job.report import SweepReport, SweepStatus
from antiphon.cleanup_job.retention import Rule

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
        for status in (*SweepStatus, "failed"):
            self._sweeps.labels(status)
        for rule in Rule:
            self._removed.labels(rule)

    def observe(self, report: SweepReport) -> None:
        """Count one sweep; a dry run changes no total."""
        self._sweeps.labels(report.status).inc()
        if report.status not in (SweepStatus.DONE, SweepStatus.STOPPED):
            return
        self._last.set_to_current_time()
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
