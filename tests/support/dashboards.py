"""The expressions of `deploy/`: the panels of the dashboard and the conditions of the alerts."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "antiphon.json").read_text())
ALERTS: list[dict[str, Any]] = yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"][0][
    "rules"
]
PANELS: list[dict[str, Any]] = [p for p in DASHBOARD["panels"] if "targets" in p]


def drawn() -> Iterator[str]:
    """Every expression of the dashboard, for all instances, over an interval that a test can wait for."""
    values = {"$__rate_interval": "10s", "$instance": ".*", "$engine": ".*"}
    for panel in PANELS:
        for target in panel["targets"]:
            expression = target["expr"]
            for name, value in values.items():
                expression = expression.replace(name, value)
            yield expression


def watched() -> Iterator[str]:
    """The value that each alert compares. The comparison itself has no result while all is well."""
    for alert in ALERTS:
        compared = re.sub(r"\s*(==|>|<)\s*[\d.* ]+$", "", alert["expr"])
        assert compared != alert["expr"], f"{alert['alert']} compares nothing"
        yield compared
