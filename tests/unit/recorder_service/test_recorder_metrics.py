"""What Prometheus is told of a recorder."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from antiphon.recorder_service.metrics import RecorderCounters, RecorderMetrics
from antiphon.recorder_service.service import health


def value(counters: RecorderCounters, name: str, **labels: str) -> float:
    """As a scrape would read it."""
    registry = CollectorRegistry()
    registry.register(RecorderMetrics(counters))
    text = generate_latest(registry).decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == f"antiphon_recorder_{name}" and sample.labels == labels:
                return float(sample.value)
    raise AssertionError(f"{name} {labels} is not in\n{text}")


def test_lag_is_a_histogram_in_seconds() -> None:
    counters = RecorderCounters()
    for lag_ms in (4.0, 60.0, 70.0, 90_000.0):
        counters.lag.add(lag_ms)
    assert value(counters, "lag_seconds_bucket", le="0.005") == 1
    assert value(counters, "lag_seconds_bucket", le="0.05") == 1
    assert value(counters, "lag_seconds_bucket", le="0.075") == 3
    assert value(counters, "lag_seconds_bucket", le="60.0") == 3
    assert value(counters, "lag_seconds_bucket", le="+Inf") == 4
    assert value(counters, "lag_seconds_count") == 4
    assert value(counters, "lag_seconds_sum") == 90.134


def test_a_disk_that_fails_shows_and_the_recorder_stays_well() -> None:
    counters = RecorderCounters(sessions=3, degraded=1, outages=7)
    assert value(counters, "degraded_sessions") == 1
    assert value(counters, "disk_errors_total") == 7
    well, about = health(counters)
    assert well
    assert about == {"status": "degraded", "sessions": 3, "degraded": 1}


def test_recordings_and_merges_count_by_how_they_ended() -> None:
    counters = RecorderCounters(complete=4, interrupted=2, merges_done=3, merges_failed=1)
    assert value(counters, "recordings_total", state="complete") == 4
    assert value(counters, "recordings_total", state="interrupted") == 2
    assert value(counters, "merges_total", outcome="failed") == 1
