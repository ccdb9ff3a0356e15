"""Programs of others for OpenAI's voice APIs: their packages, in a separate environment, and their runs.

Their dependencies conflict with those of Antiphon. `clients/requirements.txt` has their exact versions,
without packages that they do not import here. In `clients`, this renews it:

    uv pip compile requirements.in -o requirements.txt --universal --python-version 3.11 --no-annotate
      --no-header --no-emit-package numba --no-emit-package llvmlite --no-emit-package resampy
"""

import asyncio
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from support.page_scripts import NODE

CLIENTS = Path(__file__).with_name("clients")
FOLDER = Path(sys.prefix) / "clients"

_UV = Path(__file__).parents[2] / "tools" / "uv_program.py"
_NPM = NODE.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
_STAMP = FOLDER / "installed"
_WITHIN_S = 150.0


def are_installed() -> bool:
    return _STAMP.exists() and _STAMP.read_text() == _fingerprint()


def install() -> None:
    """Raises CalledProcessError."""
    if are_installed():
        return
    shutil.rmtree(FOLDER, ignore_errors=True)
    uv = [sys.executable, _UV]
    subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, FOLDER], check=True)
    what = ["--no-deps", "--requirement", CLIENTS / "requirements.txt"]
    python = ["--python", FOLDER / "bin" / "python"]
    subprocess.run(
        [*uv, "pip", "install", "--quiet", "--compile-bytecode", *python, *what], check=True
    )
    for name in ("package.json", "package-lock.json"):
        shutil.copy(CLIENTS / name, FOLDER)
    options = ["--ignore-scripts", "--no-audit", "--no-fund"]
    subprocess.run([NODE, _NPM, "ci", *options], cwd=FOLDER, check=True)
    _STAMP.write_text(_fingerprint())


def _fingerprint() -> str:
    names = ("requirements.txt", "package-lock.json")
    text = sys.version + "".join((CLIENTS / name).read_text() for name in names)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Run:
    """A program that has ended."""

    status: int
    output: str
    folder: Path

    def lines(self, name: str) -> str:
        """What it printed behind `name: `."""
        head = f"{name}: "
        found = [
            line.removeprefix(head) for line in self.output.splitlines() if line.startswith(head)
        ]
        return " ".join(found)


async def run_client(
    program: Path | str,
    *arguments: str | Path,
    folder: Path,
    environment: Mapping[str, str] | None = None,
) -> Run:
    """Runs a file of `clients/`, or the text of a Python program, in `folder`."""
    folder.mkdir()
    (folder / "node_modules").symlink_to(FOLDER / "node_modules")
    path = folder / (program.name if isinstance(program, Path) else "program.py")
    path.write_text(program.read_text() if isinstance(program, Path) else program)
    interpreter = NODE if path.suffix == ".mjs" else FOLDER / "bin" / "python"
    variables = {**os.environ, "LOGURU_LEVEL": "WARNING", **(environment or {})}
    log = folder / "output"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            interpreter,
            path,
            *arguments,
            cwd=folder,
            env=variables,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
        )
    try:
        async with asyncio.timeout(_WITHIN_S):
            status = await process.wait()
    except TimeoutError:
        process.kill()
        raise AssertionError(f"the program did not end:\n{log.read_text()}") from None
    return Run(status, log.read_text(), folder)
