"""Writes files that a reader never sees half-written: first a temporary name, then a rename."""

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

_TEMPORARY = ".tmp"


def write_atomic(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Replace `path` in one step; with `durable` the file survives a power failure.

    Raises OSError, and leaves no temporary file then.
    """
    temporary = f"{path.parent}/{_temporary_name(path.name)}"
    try:
        # Without file and path objects, which cost more than the system calls.
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(descriptor, left) :]
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)  # noqa: PTH105
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    if durable:
        sync(path.parent)


def write_blocks_atomic(path: Path, blocks: Iterable[bytes]) -> None:
    """Like a durable `write_atomic`, without the whole content in memory."""
    with atomic_file(path) as temporary, temporary.open("xb") as file:
        file.writelines(blocks)


@contextmanager
def atomic_file(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary path to write to; it replaces `path` at the end.

    An exception leaves `path` as it was, and no temporary file.
    """
    temporary = path.with_name(_temporary_name(path.name))
    try:
        yield temporary
        if durable:
            sync(temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync(path.parent)


def _temporary_name(name: str) -> str:
    return f".{name}.{secrets.token_hex(4)}{_TEMPORARY}"


def sync(path: Path) -> None:
    """Wait until a file, or a directory's list of names, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """`sync` everything in a session directory and remove the temporary files of a killed writer.

    Hidden folders are left out: their files are deleted once the recording is whole.
    """
    for place in (*_folders(folder), folder):
        for file in _files(place):
            if _is_temporary(file):
                file.unlink(missing_ok=True)
            else:
                sync(file)
        sync(place)


def remove_temporaries(folder: Path) -> None:
    """Remove a killed writer's temporary files in `folder`, not below it. Raises OSError."""
    for file in filter(_is_temporary, _files(folder)):
        file.unlink(missing_ok=True)


def _is_temporary(file: Path) -> bool:
    return file.name.startswith(".") and file.name.endswith(_TEMPORARY)


def _folders(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")]


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in list(folder.iterdir()) if path.is_file())
