"""Ctrl-C while a command of `antiphon`, or a service, imports its modules."""

import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ENTRY = PROJECT["scripts"]["antiphon"].partition(":")[0]
SCRIPT = f"import sys; from {ENTRY} import main; sys.exit(main())"
"""What an installer writes into the program `antiphon`."""

INTERRUPTION = """
import os, signal, sys

class Interruption:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["INTERRUPT_AT"]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interruption())
"""
"""Sends what Ctrl-C sends when the module named by INTERRUPT_AT is imported."""


def interrupted(
    folder: Path, module: str, command: tuple[str, ...], ignored: bool = False
) -> subprocess.CompletedProcess[str]:
    (folder / "sitecustomize.py").write_text(INTERRUPTION)
    handling = signal.SIG_IGN if ignored else signal.SIG_DFL
    return subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder), "INTERRUPT_AT": module},
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: signal.signal(signal.SIGINT, handling),
    )


@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("antiphon.cli", "--version"),
        ("typer._click.core", "queue"),
        ("pydantic", "queue"),
        ("fastapi", "up"),
        ("numpy.linalg", "talk"),
        ("uvicorn", "edge"),
    ],
)
def test_a_command_ends_quietly(module: str, command: str, tmp_path: Path) -> None:
    ended = interrupted(tmp_path, module, (sys.executable, "-c", SCRIPT, command))
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_the_module_ends_quietly_too(tmp_path: Path) -> None:
    ended = interrupted(tmp_path, "typer", (sys.executable, "-m", "antiphon", "-h"))
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


@pytest.mark.parametrize(
    ("service", "module"),
    [
        ("edge", "fastapi"),
        ("inference_worker", "antiphon.broker.service.process"),
        ("recorder_service", "antiphon.recorder_service.service"),
        ("cleanup_job", "uvloop"),
    ],
)
def test_a_service_ends_quietly(service: str, module: str, tmp_path: Path) -> None:
    ended = interrupted(tmp_path, module, (sys.executable, "-m", f"antiphon.{service}"))
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_an_ignored_interrupt_stays_ignored(tmp_path: Path) -> None:
    """As in the background of a shell script."""
    ended = interrupted(tmp_path, "typer", (sys.executable, "-m", "antiphon", "-V"), ignored=True)
    assert (ended.returncode, ended.stderr) == (0, "")
