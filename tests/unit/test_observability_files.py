"""The dashboard, the alerts and Prometheus' configuration fit the code, the compose file and the runbook."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from antiphon.cleanup_job.settings import CleanupSettings
from antiphon.edge.settings import EdgeSettings
from antiphon.inference_worker.settings import WorkerSettings
from antiphon.recorder_service.settings import RecorderSettings
from support.chromium import in_ci
from support.dashboards import ALERTS, DASHBOARD, DEPLOY, PANELS, ROOT, drawn, watched

RUNBOOK = (ROOT / "docs" / "operations.md").read_text()
SECTIONS = re.findall(r"^### (.+)$", RUNBOOK, re.MULTILINE)
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
TARGETS = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())["scrape_configs"]


def documented() -> set[str]:
    """The metrics of the table, which another test compares with the code."""
    table = "".join(line for line in RUNBOOK.splitlines() if line.startswith("| "))
    return set(re.findall(r"`(antiphon_\w+)`", table))


def test_every_metric_in_a_panel_or_an_alert_exists() -> None:
    names = set(re.findall(r"antiphon_\w+", " ".join([*drawn(), *watched()])))
    bare = {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}
    assert len(bare) > 30
    assert bare <= documented()


def test_every_runbook_in_a_description_is_a_section() -> None:
    told = " ".join(panel.get("description", "") for panel in DASHBOARD["panels"])
    named = re.findall(r"Runbook: ([^.]+)\.", told)
    assert len(named) >= 5
    assert set(named) <= set(SECTIONS)


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_panels_use_the_source_instances_and_engines_of_the_variables() -> None:
    variables = {one["name"]: one for one in DASHBOARD["templating"]["list"]}
    assert variables.keys() == {"datasource", "instance", "engine"}
    source = yaml.safe_load((DEPLOY / "grafana" / "datasource.yml").read_text())["datasources"][0]
    assert variables["datasource"]["query"] == source["type"] == "prometheus"
    assert source["isDefault"]
    assert source["url"] == "http://prometheus:9090"
    of_source = [*PANELS, *(target for panel in PANELS for target in panel["targets"])]
    of_source += [variables["instance"], variables["engine"]]
    assert {each["datasource"]["uid"] for each in of_source} == {"${datasource}"}
    used = re.findall(r"\$(\w+)", " ".join(t["expr"] for p in PANELS for t in p["targets"]))
    assert set(used) == {"instance", "engine", "__rate_interval"}


def test_titles_are_short_and_differ_within_a_row() -> None:
    rows: list[list[str]] = []
    for panel in DASHBOARD["panels"]:
        if panel["type"] == "row":
            rows.append([])
        else:
            rows[-1].append(panel["title"])
    assert all(len(set(row)) == len(row) >= 3 for row in rows)
    assert max(len(title) for row in rows for title in row) <= 40


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_every_alert_names_a_section_of_the_runbook(alert: dict[str, dict[str, str]]) -> None:
    page, _, anchor = alert["annotations"]["runbook_url"].partition("#")
    assert page == "docs/operations.md"
    assert anchor in {heading.lower().replace(" ", "-") for heading in SECTIONS}
    assert alert["labels"]["severity"] in ("warning", "critical")


def test_no_mistake_of_a_client_fires_an_alert() -> None:
    conditions = " ".join(alert["expr"] for alert in ALERTS)
    assert "refused" not in conditions
    watched_rejections = re.findall(r"antiphon_edge_rejections_total(\{[^}]*\})?", conditions)
    assert set(watched_rejections) == {
        f'{{reason="{reason}"}}' for reason in ("queue_full", "store_full", "edge_full")
    }
    reaped = re.findall(r"antiphon_reaped_sessions_total(\{[^}]*\})?", conditions)
    assert set(reaped) == {'{outcome!="client_gone"}'}


def called(name: str) -> list[dict[str, Any]]:
    """The services that Docker's DNS means by `name`: the one of that name, or all that have it as an alias."""
    services = COMPOSE["services"]
    if name in services:
        assert "inside" in services[name]["networks"]
        return [services[name]]
    return [s for s in services.values() if name in aliases(s)]


def aliases(service: dict[str, Any]) -> list[str]:
    networks = service.get("networks", {})
    return networks["inside"]["aliases"] if isinstance(networks, dict) and networks else []


def test_prometheus_scrapes_the_ports_of_the_services() -> None:
    ports = {
        "edge": EdgeSettings.model_fields["edge_health_port"].default,
        "worker": WorkerSettings.model_fields["health_port"].default,
        "recorder": RecorderSettings.model_fields["recorder_health_port"].default,
        "cleanup": CleanupSettings.model_fields["cleanup_health_port"].default,
    }
    for job in TARGETS:
        where = job["dns_sd_configs"][0]
        assert where["port"] == ports.pop(job["job_name"])
        services = [s for name in where["names"] for s in called(name)]
        assert services
        for service in services:
            assert service["environment"]["ANTIPHON_HEALTH_HOST"] == "0.0.0.0"
    assert not ports


def test_grafana_requires_its_password() -> None:
    grafana = COMPOSE["services"]["grafana"]
    assert grafana["environment"]["GF_AUTH_ANONYMOUS_ENABLED"] == "false"
    assert grafana["environment"]["GF_SECURITY_ADMIN_PASSWORD__FILE"].endswith("/grafana_admin")
    assert grafana["ports"][0].startswith("127.0.0.1:")
    for service in ("prometheus", "grafana"):
        assert COMPOSE["services"][service]["profiles"] == ["observability"]


@pytest.mark.skipif(
    shutil.which("promtool") is None and not in_ci(), reason="needs Debian's package prometheus"
)
def test_promtool_finds_no_error(tmp_path: Path) -> None:
    config = (DEPLOY / "prometheus.yml").read_text()
    (tmp_path / "alerts.yml").write_text((DEPLOY / "alerts.yml").read_text())
    path = tmp_path / "prometheus.yml"
    path.write_text(config.replace("/etc/prometheus/", f"{tmp_path}/"))
    for what in (["config", str(path)], ["rules", str(tmp_path / "alerts.yml")]):
        checked = subprocess.run(["promtool", "check", *what], capture_output=True, text=True)
        assert checked.returncode == 0, checked.stdout + checked.stderr
