"""Is this machine fit: Python, the recordings' disk, the ports that services listen on."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from antiphon.cli.readiness import answers
from antiphon.shared_schemas.findings import Finding, failure, ok, warning

GIB = 2**30
_LEAST_FREE_GIB = 1.0
_OLDEST_PYTHON = (3, 11)
_NEWEST_PYTHON = (3, 12)


def examine_python() -> Finding:
    """The suite runs on 3.11 and 3.12."""
    found, version = platform.python_version(), sys.version_info[:2]
    if version < _OLDEST_PYTHON:
        return failure("python", found, "use Python 3.11 or 3.12")
    if version > _NEWEST_PYTHON:
        return warning("python", f"{found}, on which nothing was tried", "use Python 3.11 or 3.12")
    return ok("python", found)


def examine_disk(data_dir: Path, max_storage_gb: float) -> Iterator[Finding]:
    """May recordings be written, and is there room for as many as cleanup keeps."""
    sessions = data_dir / "sessions"
    place = next(path for path in (sessions, *sessions.resolve().parents) if path.exists())
    yield _writable(place, sessions)
    free, kept = shutil.disk_usage(place).free / GIB, max(0.0, max_storage_gb)
    found = f"{free:.1f} GiB free for {sessions}"
    if free < _LEAST_FREE_GIB:
        yield failure("disk space", found, "make room, or name another disk: ANTIPHON_DATA_DIR")
    elif free < kept and free + _size(sessions) / GIB < kept:
        remedy = "lower ANTIPHON_MAX_STORAGE_GB, so that cleanup acts before the disk is full"
        yield warning("disk space", f"{found}, but cleanup keeps up to {kept:g} GiB", remedy)
    else:
        yield ok("disk space", found)


def _writable(place: Path, sessions: Path) -> Finding:
    try:
        with tempfile.NamedTemporaryFile(dir=place):
            pass
    except OSError as error:
        remedy = f"chown it to user {os.getuid()}, or name another folder: ANTIPHON_DATA_DIR"
        return failure("recordings", f"cannot write in {place}: {error.strerror}", remedy)
    made = "" if sessions.is_dir() else " (to be made)"
    return ok("recordings", f"{sessions}{made}")


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def examine_ports(services: Iterable[tuple[str, str, int, str]]) -> Iterator[Finding]:
    """For each (service, host, port, setting): free, or the service itself is there already."""
    for name, host, port, setting in services:
        yield _port(f"port of the {name}", host, port, setting)


def _port(about: str, host: str, port: int, setting: str) -> Finding:
    if port == 0:
        return ok(about, "any free one")
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        if answers(f"http://{place}/health"):
            return ok(about, f"{place}, where a service answers already")
        remedy = f"choose another with {setting}, or end what listens there"
        return failure(about, f"{place} cannot be used: {error.strerror}", remedy)
    return ok(about, f"{place} is free")
