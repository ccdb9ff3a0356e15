"""Looks for known vulnerabilities of the pinned packages, with pip-audit and npm audit.

Usage: audit.py [--optional]. Exit status: 0 without a finding, 1 with one, 2 if a service gave no
data; with `--optional` that is only reported. Uses only the standard library.
"""

import json
import os
import subprocess
import sys
import tomllib
import urllib.request
import venv
from collections.abc import Callable
from pathlib import Path

from nodejs import NodeError, fetch_node, find_node
from uv_program import NoUv, find_uv, uv_environment

ROOT = Path(__file__).resolve().parent.parent
PIP_AUDIT = "pip-audit==2.10.1"
LOCK = ROOT / "uv.lock"
FOLDER = ROOT / ".audit"
"""pip-audit has its own environment: its dependencies are no concern of the product."""

_TIMEOUT_S = 10


class NoData(Exception):
    """The service cannot be reached, or knows none of the packages, as most mirrors."""


def main(words: list[str]) -> int:
    findings, silent = False, False
    audits: dict[str, Callable[[], list[str]]] = {"Python": audit_python, "npm": audit_npm}
    for name, audit in audits.items():
        try:
            found = audit()
        except NoData as error:
            silent = True
            _print(f"{name} packages were NOT audited: {error}")
            continue
        findings = findings or bool(found)
        _print("\n  ".join([f"{name} packages: {len(found)} known vulnerabilities", *found]))
    if findings:
        return 1
    return 2 if silent and "--optional" not in words else 0


def audit_python() -> list[str]:
    """Audits `uv.lock`. Raises NoData."""
    package = tomllib.loads(LOCK.read_text())["package"][0]
    service = f"https://pypi.org/pypi/{package['name']}/{package['version']}/json"
    require_service(service)  # before a download in vain
    program = FOLDER / "bin" / "pip-audit"
    stamp = FOLDER / PIP_AUDIT
    if not stamp.exists():
        venv.create(FOLDER, clear=True, with_pip=True)
        pip = [str(FOLDER / "bin" / "python"), "-m", "pip", "install", "--quiet", PIP_AUDIT]
        if subprocess.run(pip).returncode:
            raise NoData("pip-audit could not be installed; the messages are above")
        stamp.touch()
    options = ["--no-deps", "--disable-pip", "--progress-spinner=off", "--format=json"]
    pins = ["--requirement", str(_locked_packages())]
    command = [str(program), *options, f"--timeout={_TIMEOUT_S}", *pins]
    done = subprocess.run(command, capture_output=True, text=True)
    return python_findings(done.stdout, done.stderr)


def _locked_packages() -> Path:
    """All packages of `uv.lock` as requirements. Raises NoData."""
    path = FOLDER / "packages.txt"
    everything = ["--all-extras", "--all-groups", "--no-emit-project", "--no-hashes", "--quiet"]
    try:
        command = [str(find_uv()), "export", "--frozen", *everything, "--output-file", str(path)]
    except NoUv as error:
        raise NoData(str(error)) from None
    if subprocess.run(command, cwd=ROOT, env=uv_environment()).returncode != 0:
        raise NoData("uv could not export the packages; its messages are above")
    return path


def python_findings(report: str, messages: str) -> list[str]:
    """One line for each finding in a report of pip-audit. Raises NoData."""
    try:
        packages = json.loads(report)["dependencies"]
    except (ValueError, KeyError):
        raise NoData(f"pip-audit failed: {_last_line(messages)}") from None
    audited = [package for package in packages if "skip_reason" not in package]
    if not audited:
        raise NoData("the service knows none of them")
    for package in packages:
        if "skip_reason" in package:
            _print(package["skip_reason"])
    return [
        f"{package['name']} {package['version']}: {found['id']}, fixed in "
        f"{', '.join(found['fix_versions']) or 'no version'}"
        for package in audited
        for found in package["vulns"]
    ]


def audit_npm() -> list[str]:
    """Audits `web/package-lock.json`. Raises NoData."""
    try:
        node = find_node() or fetch_node()
    except NodeError as error:
        raise NoData(str(error)) from None
    limits = ["--fetch-retries=0", f"--fetch-timeout={_TIMEOUT_S * 1000}"]
    command = [*node.npm, "audit", "--json", "--package-lock-only", *limits]
    path = os.pathsep.join([str(node.node.parent), os.environ.get("PATH", "")])
    environment = {"NODE_USE_SYSTEM_CA": "1", **os.environ, "PATH": path}
    done = subprocess.run(
        command, cwd=ROOT / "web", env=environment, capture_output=True, text=True
    )
    return npm_findings(done.stdout, done.stderr)


def npm_findings(report: str, messages: str) -> list[str]:
    """One line for each finding in a report of npm audit. Raises NoData."""
    try:
        answer = json.loads(report)
    except ValueError:
        raise NoData(f"npm audit failed: {_last_line(messages)}") from None
    if "vulnerabilities" not in answer:
        raise NoData(answer.get("message", "npm audit gave no report"))
    return [
        f"{name} {found['range']}: {found['severity']}"
        for name, found in answer["vulnerabilities"].items()
    ]


def require_service(url: str) -> None:
    """Raises NoData."""
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S):  # noqa: S310 - a constant
            pass
    except OSError as error:
        raise NoData(f"{url}: {error}") from None


def _last_line(messages: str) -> str:
    return (messages.strip().splitlines() or ["no message"])[-1]


def _print(text: str) -> None:
    sys.stdout.write(f"▸ {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
