"""SIGTERM in commands with a temporary stack."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio, os, signal, sys, tempfile, time
import typer
import uvloop
from antiphon.cli.stack.temporary_stack import interrupted_by_sigterm

how, sigint, ending = sys.argv[1:]
if sigint == "ignored":
    signal.signal(signal.SIGINT, signal.SIG_IGN)

def end():
    os.kill(os.getpid(), signal.Signals[ending])

async def work():
    asyncio.get_running_loop().call_later(0.1, end)
    try:
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0.01)
        print("stopped in order", flush=True)

def command():
    with interrupted_by_sigterm(), tempfile.TemporaryDirectory(dir="."):
        if how == "blocking":
            end()
            time.sleep(60)
        (asyncio if how == "asyncio" else uvloop).run(work())

app = typer.Typer()
app.command()(command)
sys.argv[1:] = []
app()
"""


@pytest.mark.parametrize(
    ("how", "sigint"), [("blocking", "ignored"), ("asyncio", "ignored"), ("uvloop", "default")]
)
def test_sigterm_leaves_no_temporary_files(how: str, sigint: str, tmp_path: Path) -> None:
    ended = run(how, sigint, "SIGTERM", tmp_path)
    assert (ended.returncode, ended.stderr) == (143, "")
    assert ended.stdout == ("" if how == "blocking" else "stopped in order\n")
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_is_still_ctrl_c(tmp_path: Path) -> None:
    assert run("uvloop", "default", "SIGINT", tmp_path).returncode == 130
    assert list(tmp_path.iterdir()) == []


def run(how: str, sigint: str, ending: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, how, sigint, ending],
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ,
        timeout=90,
    )
