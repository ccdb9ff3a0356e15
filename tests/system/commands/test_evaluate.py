"""`antiphon evaluate` with its own stack, in real time."""

import os
from pathlib import Path

import orjson
import pytest

from support.fork_server import run_antiphon

pytestmark = pytest.mark.extended


def test_the_command_calls_its_own_stack_and_writes_both_reports(tmp_path: Path) -> None:
    """The simulated engine speaks at its own times, so only the form of the report is certain."""
    ran = run_antiphon(
        *("evaluate", "--engine", "simulated", "--cases", "1", "--calls", "2"),
        *("--only", "question,half-duplex", "--format", "markdown"),
        folder=tmp_path,
        environment=os.environ | {"NO_COLOR": "1"},
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    report = orjson.loads((tmp_path / "evaluation" / "report.json").read_bytes())
    assert report["simulated"]
    assert report["engine"] == "simulated"
    assert report["errors"] == {}
    kinds = sorted(case["kind"] for case in report["cases"])
    assert kinds == ["half-duplex", "question"]
    assert report["measures"]["r_r"]["n"] == 1
    assert report["punctuality"]["results"] > 3
    assert "| this run |" in ran.stdout
    assert "the answers are simulated" in ran.stderr
    page = (tmp_path / "evaluation" / "report.html").read_text()
    assert "<title>Antiphon evaluation</title>" in page
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"evaluation"}
