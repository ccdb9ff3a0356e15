"""Files that a reader never sees half-written: a temporary name, then a rename."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

_TEMPORARY = ".tmp"


def write_whole(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Put `data` under `path` in one step; with `durable` it outlives a power failure.

    Raises OSError, and leaves no temporary file then.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{_TEMPORARY}")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync(path.parent)


def sync(path: Path) -> None:
    """Wait until a file, or a directory's list of names, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """`sync` everything in a session directory, and remove what a killed writer left unfinished.

    Hidden folders hold only what is removed once the recording is whole; they are left out.
    """
    for place in (*_folders(folder), folder):
        for file in _files(place):
            if file.name.startswith(".") and file.name.endswith(_TEMPORARY):
                file.unlink(missing_ok=True)
            else:
                sync(file)
        sync(place)


def _folders(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")]


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in list(folder.iterdir()) if path.is_file())
