"""Installation: when it is repeated, and the messages when something is missing."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest

import make_venv
from make_venv import CONSTRAINTS, ROOT, CannotInstall, main


@pytest.fixture
def installs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The extras of each simulated installation."""
    done: list[str] = []
    monkeypatch.setattr(make_venv, "_make", lambda folder: folder.mkdir(exist_ok=True))
    monkeypatch.setattr(make_venv, "_install", lambda _folder, extras: done.append(extras))
    return done


def test_the_second_run_installs_nothing(tmp_path: Path, installs: list[str]) -> None:
    for _ in range(2):
        assert main(tmp_path / "venv", ["local"]) == 0
    assert installs == ["local"]


def test_more_extras_are_added_to_the_installed_ones(tmp_path: Path, installs: list[str]) -> None:
    for extras in (["local"], ["local", "test"], ["local"]):
        assert main(tmp_path / "venv", extras) == 0
    assert installs == ["local", "local,test"]


def test_changed_requirements_install_again(
    tmp_path: Path, installs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(tmp_path / "venv", ["local"]) == 0
    changed = tmp_path / "constraints.txt"
    changed.write_text("numpy==1\n")
    monkeypatch.setattr(make_venv, "CONSTRAINTS", changed)
    assert main(tmp_path / "venv", ["local"]) == 0
    assert installs == ["local", "local"]


def test_a_failure_leaves_no_stamp_and_prints_the_remedy(
    tmp_path: Path,
    installs: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fails(_folder: Path, _extras: str) -> None:
        raise CannotInstall("run: apt-get install -y something")

    monkeypatch.setattr(make_venv, "_install", fails)
    assert main(tmp_path / "venv", ["local"]) == 1
    assert "apt-get install -y something" in capsys.readouterr().err
    assert list((tmp_path / "venv").iterdir()) == []


def test_the_vocoder_is_installed_next_to_the_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(make_venv, "_run", commands.append)
    monkeypatch.setattr(make_venv, "_require_openmp", lambda: None)
    for extras in ("local", "local,test"):
        make_venv._install(tmp_path, extras)
    asked = [command for command in commands if "minicpmo-utils" in command]
    assert [command[command.index("--target") + 1] for command in asked] == [
        str(tmp_path / "share" / "token2wav")
    ]
    assert "--no-deps" in asked[0]
    assert "minicpmo-utils" in {_plain(line.partition("==")[0]) for line in _pins()}


def _pins() -> list[str]:
    return CONSTRAINTS.read_text().split()


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")


def test_every_requirement_is_pinned() -> None:
    pinned = {_plain(line.partition("==")[0]) for line in CONSTRAINTS.read_text().split()}
    needed = {_plain(re.split(r"[^\w.-]", need)[0]) for need in requires("antiphon") or ()}
    needed -= {"antiphon"}  # an extra that contains another one
    assert needed <= pinned
    assert all("==" in line for line in CONSTRAINTS.read_text().split())
    assert "torch==2.13.0" in CONSTRAINTS.read_text().split()


def test_a_python_that_is_too_old_is_reported_with_the_command() -> None:
    shown = subprocess.run(
        ["make", "--no-print-directory", "CANDIDATES=no-such-python", "demo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert shown.returncode != 0
    assert "Python 3.11, 3.12, 3.13 or 3.14 is required" in shown.stderr
    assert "apt-get install -y python3 python3-venv" in shown.stderr


def test_a_python_without_venv_is_reported_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert main(tmp_path / "venv", ["local"]) == 1
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert f"apt-get install -y python{version}-venv" in capsys.readouterr().err


def test_only_ci_installs_packages_of_debian(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def called(*_: object, **__: object) -> None:
        raise AssertionError("a program was started")

    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("subprocess.run", called)
    monkeypatch.delenv("CI", raising=False)
    assert main(tmp_path / "venv", ["local"]) == 1
    assert "run: apt-get install -y python3" in capsys.readouterr().err


def test_make_help_lists_the_targets() -> None:
    shown = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line.split()[1] for line in shown.stdout.splitlines()][:4] == [
        "help",
        "demo",
        "up",
        "web",
    ]
