"""Redis 8 of Debian 13, for tests on an older Debian."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REDIS_8 = Path(sys.prefix) / "redis-8" / "redis-server"

_SOURCE = (
    "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
    " http://deb.debian.org/debian trixie main\n"
)
_PACKAGES = (
    *("redis-tools", "libc6", "libatomic1", "libcap2", "libgcc-s1", "libjemalloc2", "liblzf1"),
    *("libssl3t64", "libstdc++6", "libsystemd0", "libzstd1"),
)
"""The package `redis-server` only links to a program of `redis-tools`."""

_STARTER = """#!/bin/sh
# The program needs a newer C library than the one of this machine.
exec {loader} --argv0 redis-server --library-path {libraries} {program} "$@"
"""


def install() -> None:
    """Unpack the server and its libraries into the virtual environment; the system is not changed.

    Raises CalledProcessError.
    """
    shutil.rmtree(REDIS_8.parent, ignore_errors=True)
    root = REDIS_8.parent / "root"
    root.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        for package in _download(Path(folder)):
            subprocess.run(["dpkg-deb", "--extract", package, root], check=True)
    (loader,) = root.glob("usr/lib/*-linux-gnu*/ld-linux-*.so.*")
    program = root / "usr" / "bin" / "redis-check-rdb"
    REDIS_8.write_text(_STARTER.format(loader=loader, libraries=loader.parent, program=program))
    REDIS_8.chmod(0o755)
    subprocess.run([REDIS_8, "--version"], check=True)


def _download(folder: Path) -> list[Path]:
    """The packages, downloaded by an apt that has its own sources and state in `folder`."""
    parts = folder / "parts"
    for new in (folder / "lists" / "partial", parts):
        new.mkdir(parents=True)
    (folder / "sources.list").write_text(_SOURCE)
    (folder / "status").touch()
    options = {
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": parts,
        "Dir::State": folder,
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder,
        "Acquire::Languages": "none",
        "Acquire::Retries": 5,
        "APT::Sandbox::User": "root",
    }
    apt = ["apt-get", "-q", *(f"-o{name}={value}" for name, value in options.items())]
    subprocess.run([*apt, "update"], check=True)
    subprocess.run([*apt, "download", *_PACKAGES], check=True, cwd=folder)
    return list(folder.glob("*.deb"))
