"""Installs Antiphon and the packages of `uv.lock` into `.venv`; `make` runs this.

Uses only the standard library. Usage: install.py FOLDER EXTRA...
"""

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from uv_program import NoUv, find_uv, uv_environment

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "uv.lock"
GROUPS = {
    "local": ["--group", "weights"],
    "token2wav": ["--group", "vocoder"],
    "test": ["--group", "helm", "--group", "published"],
}
"""Options of `uv export` for the groups that belong to an extra."""

VOCODER_FOLDER = "share/token2wav"
"""Token2wav for the tests, below the environment: its other packages must not be importable."""

OPENMP = "libgomp.so.1"

DISK_GB = {"token2wav": 6.0, "minicpmo": 3.2, "local": 0.7}
"""The packages of an installation with this extra need at least this much. `token2wav` is for a GPU,
where most of it is torch with CUDA. `make test-all` uses `minicpmo` alone: 3.2 GB if the package index
has torch for the CPU, and 6.6 GB from PyPI, where it contains CUDA. `make test` needs neither.
"""
_WHEELS = ("--only-binary", ":all:")
_SOURCES = ("--no-binary", "minicpmo-utils")  # has no wheel
_STAMP = "antiphon-installed"


def main(folder: Path, extras: list[str]) -> int:
    """Exit status: 0 if everything is installed, 1 with the remedy on stderr."""
    have = _installed(folder)
    if have is not None and have.issuperset(extras):
        return 0
    wanted = sorted({*extras, *(have or ())})
    try:
        _require_openmp()
        _require_disk(folder, wanted)
        _install(folder, wanted)
    except (CannotInstall, NoUv) as error:
        sys.stderr.write(f"\n{error}\n")
        return 1
    unfinished = folder / f"{_STAMP}.new"
    unfinished.write_text("\n".join([_fingerprint(), *wanted]))
    unfinished.replace(folder / _STAMP)
    _print("installed")
    return 0


class CannotInstall(Exception):
    """Something is missing; the message has the command that installs it."""


def _installed(folder: Path) -> set[str] | None:
    """The installed extras; None if a complete installation is necessary."""
    try:
        fingerprint, *extras = (folder / _STAMP).read_text().splitlines()
    except (FileNotFoundError, ValueError):  # none, or a damaged one
        return None
    return set(extras) if fingerprint == _fingerprint() else None


def _fingerprint() -> str:
    """Changes whenever a new installation is necessary."""
    parts = [sys.version, str(ROOT), (ROOT / "pyproject.toml").read_text(), LOCK.read_text()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _install(folder: Path, extras: list[str]) -> None:
    uv = Uv(find_uv(), folder)
    if not _has_pip(folder):
        _print(f"creating a virtual environment in {folder} (Python {sys.version.split()[0]})")
        uv.run("venv", "--quiet", "--clear", "--seed", "--python", sys.executable, str(folder))
    _print(f"installing Antiphon [{','.join(extras)}] and its dependencies")
    options = [option for name in extras for option in ("--extra", name, *GROUPS.get(name, []))]
    # torch is installed on its own: `--find-links` may have a build without CUDA, of another hash.
    packages = uv.export("packages", *options, "--prune", "torch")
    uv.install(*_WHEELS, *_SOURCES, "--editable", str(ROOT), "--requirement", str(packages))
    pins = uv.export("pins", *options, "--no-hashes")
    torch = re.search(r"^torch==\S+", pins.read_text(), re.MULTILINE)
    if torch:
        uv.install(*_WHEELS, "--constraint", str(pins), torch[0])
    if "test-minicpmo" in extras:
        vocoder = uv.export("vocoder", "--only-group", "vocoder")
        uv.install("--target", str(folder / VOCODER_FOLDER), "--requirement", str(vocoder))


class Uv:
    """Runs uv for the environment in `folder`."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._program = program
        self._folder = folder

    def run(self, *words: str) -> None:
        """Raises CannotInstall."""
        command = [str(self._program), *words]
        if subprocess.run(command, cwd=ROOT, env=uv_environment()).returncode != 0:
            raise CannotInstall(
                "the installation failed; the messages of uv are above. If the network was the cause, "
                "run the same command again: finished downloads are kept."
            )

    def install(self, *what: str) -> None:
        python = str(self._folder / "bin" / "python")
        self.run("pip", "install", "--quiet", "--python", python, "--compile-bytecode", *what)

    def export(self, name: str, *options: str) -> Path:
        """The locked packages as requirements, in a file of the environment."""
        path = self._folder / f"{name}.txt"
        about = [
            "--frozen",
            "--quiet",
            "--no-header",
            "--no-emit-project",
            "--python",
            sys.executable,
        ]
        self.run("export", *about, "--output-file", str(path), *options)
        return path


def _has_pip(folder: Path) -> bool:
    """True for a complete environment of this version of Python."""
    python = folder / "bin" / "python"
    if not python.exists():
        return False
    code = f"import pip, sys; sys.exit(sys.version_info[:2] != {tuple(sys.version_info[:2])})"
    return subprocess.run([python, "-c", code], stderr=subprocess.DEVNULL).returncode == 0


def _require_openmp() -> None:
    """The language model's library needs GCC's OpenMP, which minimal systems do not have."""
    if sys.platform != "linux" or _loads(OPENMP):
        return
    install = ["apt-get", "install", "-y", "--no-install-recommends", "libgomp1"]
    if os.environ.get("CI") == "true" and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "update"])
        subprocess.run(install)
    if not _loads(OPENMP):
        sudo = "" if os.geteuid() == 0 else "sudo "
        raise CannotInstall(
            f"This machine lacks {OPENMP} (the language model's library needs it).\n"
            f"On Debian and Ubuntu, run: {sudo}apt-get install -y libgomp1"
        )


def _require_disk(folder: Path, extras: list[str]) -> None:
    """An existing environment may have most packages already."""
    if folder.exists():
        return
    free = shutil.disk_usage(folder.parent).free / 1e9
    needed = max(DISK_GB.get(extra, 0.0) for extra in extras)
    if free < needed:
        raise CannotInstall(
            f"the packages need {needed:g} GB of disk, but {folder.parent} has {free:.1f} GB free"
        )


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _print(text: str) -> None:
    sys.stdout.write(f"▸ {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute(), sys.argv[2:]))
