"""Which alerts of `deploy/alerts.yml` fire: promtool evaluates them over 30 hours."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from support.chromium import in_ci
from support.dashboards import ALERTS, DASHBOARD, DEPLOY, PANELS

HOURS = 30
SAMPLES = 12 * HOURS
WELL = {
    **{f'up{{job="{job}"}}': 1 for job in ("edge", "worker", "recorder", "cleanup")},
    "antiphon_redis_up": 1,
    'antiphon_slots{engine="local"}': 4,
    "antiphon_cleanup_last_sweep_timestamp_seconds": 3600 * HOURS,
    "antiphon_cleanup_failures_total": 0,
    'antiphon_cleanup_sweeps_total{status="failed"}': 0,
}
"""Each has this value all the time."""
CHANGES: dict[str, tuple[dict[str, int | str | None], set[str]]] = {
    "all is well": ({}, set()),
    "a process of another system is down": ({'up{job="node"}': 0}, set()),
    "Redis is down": (
        {"antiphon_redis_up": 0, 'antiphon_slots{engine="local"}': None},
        {"RedisDown"},
    ),
    "no worker has registered": ({'antiphon_slots{engine="local"}': None}, {"NoWorker"}),
    "the workers drain": ({'antiphon_slots{engine="local"}': 0}, {"NoWorker"}),
    "a worker is down": ({'up{job="worker"}': 0}, {"ProcessDown"}),
    "no recorder": ({'up{job="recorder"}': None}, {"NoRecorder"}),
    "no cleanup": ({name: None for name in WELL if "cleanup" in name}, {"NoCleanup"}),
    "cleanup hangs": ({"antiphon_cleanup_last_sweep_timestamp_seconds": 0}, {"CleanupStands"}),
    "a sweep has failed": (
        {'antiphon_cleanup_sweeps_total{status="failed"}': f"0x{SAMPLES - 10} 1x20"},
        {"CleanupFails"},
    ),
    "a recording cannot be deleted": (
        {"antiphon_cleanup_failures_total": f"0x{SAMPLES - 10} 1x20"},
        {"CleanupFails"},
    ),
}
"""What differs from `WELL` (None: there is no such series), and the alerts that fire then."""


@pytest.mark.skipif(
    shutil.which("promtool") is None and not in_ci(), reason="needs Debian's package prometheus"
)
@pytest.mark.parametrize(("changes", "fires"), CHANGES.values(), ids=CHANGES)
def test_an_alert_fires_for_its_cause_alone(
    tmp_path: Path, changes: dict[str, int | str | None], fires: set[str]
) -> None:
    series = {
        name: f"{value}x{SAMPLES}" if isinstance(value, int) else value
        for name, value in {**WELL, **changes}.items()
        if value is not None
    }
    samples = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(fires)]
    question = 'count by (alertname) (ALERTS{alertstate="firing"})'
    case = {
        "interval": "5m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {"expr": question, "eval_time": f"{HOURS}h", "exp_samples": samples},
        ],
    }
    rules = {"rule_files": [str(DEPLOY / "alerts.yml")], "evaluation_interval": "5m"}
    (tmp_path / "test.yml").write_text(yaml.safe_dump({**rules, "tests": [case]}))
    done = subprocess.run(
        ["promtool", "test", "rules", str(tmp_path / "test.yml")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dashboard_shows_the_alerts_of_this_system_alone() -> None:
    assert {alert["labels"]["system"] for alert in ALERTS} == {"antiphon"}
    (counted,) = [
        target["expr"]
        for panel in PANELS
        for target in panel["targets"]
        if "ALERTS" in target["expr"]
    ]
    assert 'system="antiphon"' in counted
    (shown,) = [panel for panel in DASHBOARD["panels"] if panel["type"] == "alertlist"]
    assert shown["options"]["alertInstanceLabelFilter"] == '{system="antiphon"}'
    assert shown["options"]["stateFilter"]["firing"]


def test_only_processes_of_this_system_are_watched_and_drawn() -> None:
    expressions = [alert["expr"] for alert in ALERTS]
    expressions += [target["expr"] for panel in PANELS for target in panel["targets"]]
    found = re.findall(r"\bup\b(\{[^}]*\})?", " ".join(expressions))
    assert found
    assert all("job=" in selector for selector in found)
