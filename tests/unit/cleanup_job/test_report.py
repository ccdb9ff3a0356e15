"""The metrics that Prometheus reads from the cleanup job."""

import time
from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry

from antiphon.cleanup_job.report import (
    CleanupMetrics,
    Failure,
    RedisReport,
    Removal,
    Rule,
    SweepReport,
    SweepStatus,
)

NOW = datetime.now(UTC)


def removal(rule: Rule) -> Removal:
    return Removal(session="x", rule=rule, size=5, created_at=NOW, last_used_at=NOW)


REPORT = SweepReport(
    status=SweepStatus.DONE,
    removed=[removal(Rule.AGE), removal(Rule.AGE), removal(Rule.SIZE)],
    failed=[Failure(session="y", error="no")],
    freed_bytes=15,
    remaining=7,
    remaining_bytes=700,
    redis=RedisReport(streams=2, shares=1),
)


@pytest.fixture
def metrics() -> CleanupMetrics:
    return CleanupMetrics(CollectorRegistry())


def value(metrics: CleanupMetrics, name: str, **labels: str) -> float:
    found = metrics.registry.get_sample_value(f"antiphon_cleanup_{name}", labels)
    assert found is not None, name
    return found


def test_a_sweep_sets_every_metric(metrics: CleanupMetrics) -> None:
    before = time.time()
    metrics.observe(REPORT)
    assert value(metrics, "sweeps_total", status="done") == 1
    assert value(metrics, "removed_recordings_total", rule="age") == 2
    assert value(metrics, "removed_recordings_total", rule="size") == 1
    assert value(metrics, "freed_bytes_total") == 15
    assert value(metrics, "failures_total") == 1
    assert value(metrics, "kept_recordings") == 7
    assert value(metrics, "kept_bytes") == 700
    assert value(metrics, "redis_leftovers_total", what="streams") == 2
    assert before <= value(metrics, "last_sweep_timestamp_seconds") <= time.time()


def test_totals_grow_and_gauges_follow(metrics: CleanupMetrics) -> None:
    metrics.observe(REPORT)
    metrics.observe(REPORT.model_copy(update={"remaining": 3}))
    assert value(metrics, "removed_recordings_total", rule="age") == 4
    assert value(metrics, "kept_recordings") == 3


def test_a_dry_run_removes_nothing(metrics: CleanupMetrics) -> None:
    metrics.observe(REPORT.model_copy(update={"dry_run": True}))
    assert value(metrics, "removed_recordings_total", rule="age") == 0
    assert value(metrics, "freed_bytes_total") == 0
    assert value(metrics, "kept_recordings") == 7


@pytest.mark.parametrize("status", [SweepStatus.BUSY, SweepStatus.DISABLED])
def test_a_skipped_sweep_keeps_the_gauges(metrics: CleanupMetrics, status: SweepStatus) -> None:
    metrics.observe(REPORT)
    metrics.observe(SweepReport(status=status))
    assert value(metrics, "kept_recordings") == 7
    assert value(metrics, "sweeps_total", status=status) == 1


def test_a_process_counts_as_a_sweep_at_its_start() -> None:
    """Else the age of the last sweep would be that of 1970 until the first one ends."""
    before = time.time()
    metrics = CleanupMetrics(CollectorRegistry())
    assert before <= value(metrics, "last_sweep_timestamp_seconds") <= time.time()


def test_a_cleanup_without_rules_does_not_stand(metrics: CleanupMetrics) -> None:
    before = value(metrics, "last_sweep_timestamp_seconds")
    time.sleep(0.01)
    metrics.observe(SweepReport(status=SweepStatus.BUSY))
    assert value(metrics, "last_sweep_timestamp_seconds") == before
    metrics.observe(SweepReport(status=SweepStatus.DISABLED))
    assert value(metrics, "last_sweep_timestamp_seconds") > before


def test_a_failed_sweep_is_counted(metrics: CleanupMetrics) -> None:
    metrics.fail()
    assert value(metrics, "sweeps_total", status="failed") == 1
