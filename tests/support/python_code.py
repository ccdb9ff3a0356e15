"""Runs the Python code in its argument, in a fork of a process that has imported most modules."""

import subprocess
import sys
from pathlib import Path

from support.fork_server import run_main


def run_code(
    code: str, *, environment: dict[str, str], imports: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Runs `code` as `python -c` does. The process has imported `imports` already."""
    return run_main(__name__, code, folder=Path.cwd(), environment=environment, imports=imports)


def main() -> None:
    exec(sys.argv[1], {"__name__": "__main__"})
