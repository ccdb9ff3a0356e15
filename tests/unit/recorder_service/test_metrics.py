"""The metrics that Prometheus reads from a recorder."""

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from antiphon.recorder_service.metrics import RecorderMetrics
from antiphon.recorder_service.service import health


def value(registry: CollectorRegistry, name: str, **labels: str) -> float:
    text = generate_latest(registry).decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == f"antiphon_recorder_{name}" and sample.labels == labels:
                return float(sample.value)
    raise AssertionError(f"{name} {labels} is not in\n{text}")


def test_lag_is_a_histogram_in_seconds() -> None:
    registry = CollectorRegistry()
    metrics = RecorderMetrics(registry)
    for lag_ms in (4.0, 60.0, 70.0, 90_000.0):
        metrics.lag.observe(lag_ms / 1000)
    assert value(registry, "lag_seconds_bucket", le="0.005") == 1
    assert value(registry, "lag_seconds_bucket", le="0.05") == 1
    assert value(registry, "lag_seconds_bucket", le="0.075") == 3
    assert value(registry, "lag_seconds_bucket", le="60.0") == 3
    assert value(registry, "lag_seconds_bucket", le="+Inf") == 4
    assert value(registry, "lag_seconds_count") == 4
    assert value(registry, "lag_seconds_sum") == 90.134


def test_a_failing_disk_is_visible_and_the_recorder_stays_healthy() -> None:
    registry = CollectorRegistry()
    metrics = RecorderMetrics(registry)
    metrics.sessions, metrics.degraded = 3, 1
    metrics.disk_errors.inc(7)
    assert value(registry, "degraded_sessions") == 1
    assert value(registry, "disk_errors_total") == 7
    well, about = health(metrics)
    assert well
    assert about == {"status": "degraded", "sessions": 3, "degraded": 1}


def test_recordings_and_merges_are_counted_by_outcome() -> None:
    registry = CollectorRegistry()
    metrics = RecorderMetrics(registry)
    metrics.complete.inc(4)
    metrics.interrupted.inc(2)
    metrics.merges_failed.inc()
    assert value(registry, "recordings_total", state="complete") == 4
    assert value(registry, "recordings_total", state="interrupted") == 2
    assert value(registry, "merges_total", outcome="failed") == 1
    assert value(registry, "merges_total", outcome="done") == 0
