"""What the reports of pip-audit and npm audit mean. A service without data is no good news."""

import json
from typing import Any

import pytest

import audit
from support.ports import free_port

CLEAN = {"name": "anyio", "version": "4.1", "vulns": []}
FOUND = {"name": "h11", "version": "0.1", "vulns": [{"id": "CVE-1", "fix_versions": ["0.2"]}]}
UNKNOWN = {"name": "ours", "skip_reason": "not found"}
NPM_FOUND = {"vite": {"range": "<8.3", "severity": "high"}}


@pytest.mark.parametrize(
    ("packages", "findings"),
    [
        ([CLEAN, UNKNOWN], []),
        ([CLEAN, FOUND], ["h11 0.1: CVE-1, fixed in 0.2"]),
    ],
)
def test_a_report_of_pip_audit(packages: list[Any], findings: list[str]) -> None:
    assert audit.python_findings(json.dumps({"dependencies": packages}), "") == findings


def test_a_report_of_npm_audit() -> None:
    assert audit.npm_findings(json.dumps({"vulnerabilities": {}}), "") == []
    report = json.dumps({"vulnerabilities": NPM_FOUND})
    assert audit.npm_findings(report, "") == ["vite <8.3: high"]


@pytest.mark.parametrize("report", ["", json.dumps({"dependencies": [UNKNOWN, UNKNOWN]})])
def test_a_mirror_without_data_about_vulnerabilities_is_reported(report: str) -> None:
    with pytest.raises(audit.NoData):
        audit.python_findings(report, "connection refused")
    with pytest.raises(audit.NoData):
        audit.npm_findings(report, "")
    with pytest.raises(audit.NoData, match="405"):
        audit.npm_findings(json.dumps({"message": "405 Method Not Allowed", "error": {}}), "")
    with pytest.raises(audit.NoData):
        audit.require_service(f"http://127.0.0.1:{free_port()}/")


@pytest.mark.parametrize(
    ("python", "words", "status"),
    [
        ([], [], 0),
        (["h11"], ["--optional"], 1),
        (None, ["--optional"], 0),
        (None, [], 2),
    ],
)
def test_the_exit_status(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    python: list[str] | None,
    words: list[str],
    status: int,
) -> None:
    def of_python() -> list[str]:
        if python is None:
            raise audit.NoData("404")
        return python

    monkeypatch.setattr(audit, "audit_python", of_python)
    monkeypatch.setattr(audit, "audit_npm", list)
    assert audit.main(words) == status
    assert ("Python packages were NOT audited: 404" in capsys.readouterr().out) is (python is None)
