"""docs/operations.md names every metric, and no other."""

import re

import yaml
from prometheus_client import CollectorRegistry

from antiphon.cleanup_job.report import CleanupMetrics
from antiphon.edge.metrics import EdgeMetrics
from antiphon.inference_worker.metrics import WorkerCounters, WorkerMetrics
from antiphon.recorder_service.metrics import RecorderMetrics
from support.dashboards import ROOT

DOC = (ROOT / "docs" / "operations.md").read_text()

ONLY_WITH_REDIS = {
    "antiphon_queue_length",
    "antiphon_queue_oldest_wait_seconds",
    "antiphon_queue_estimated_wait_seconds",
    "antiphon_sessions",
    "antiphon_slots",
    "antiphon_slots_used",
    "antiphon_slots_free",
    "antiphon_workers",
    "antiphon_edges",
}
"""Exported after the first snapshot only; `tests/redis/broker/test_metrics.py` checks all of them."""


def exported() -> set[str]:
    """The metrics in the services' registries, under the names that a query uses."""
    registry = CollectorRegistry()
    WorkerMetrics(registry).show(WorkerCounters(), 1, lambda: 0)
    RecorderMetrics(registry)
    CleanupMetrics(registry)
    names = set(ONLY_WITH_REDIS)
    for family in (*registry.collect(), *EdgeMetrics("edge-1").registry.collect()):
        if family.name.startswith("antiphon"):
            ending = {"counter": "_total", "info": "_info"}.get(family.type, "")
            names.add(family.name + ending)
    return names


def test_every_metric_is_in_the_table() -> None:
    table = "".join(line for line in DOC.splitlines() if line.startswith("| "))
    assert set(re.findall(r"`(antiphon_\w+)`", table)) == exported()


def test_manifests_are_yaml_over_metrics_that_exist() -> None:
    manifests = re.findall(r"```yaml\n(.*?)```", DOC, re.DOTALL)
    assert len(manifests) == 1
    for manifest in manifests:
        assert isinstance(yaml.safe_load(manifest), dict)
        queries = [line for line in manifest.splitlines() if "uery: " in line]
        assert set(re.findall(r"antiphon_\w+", "".join(queries))) <= exported()


def test_units_are_in_the_names() -> None:
    for name in exported():
        assert not name.endswith(("_ms", "_milliseconds", "_s")), name
