"""The directory of recordings: opened step by step, never through a symbolic link.

Each name on the way is opened relative to the one before it (`openat`), so that nothing that is
swapped meanwhile leads outside. Every call blocks on the disk: call it in a thread.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import structlog

from antiphon.edge.recordings.names import asset_parts, check_recording_id, is_asset
from antiphon.shared_schemas.ids import is_recording_id
from antiphon.shared_schemas.recording import USED_FILE

log = structlog.get_logger()

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})
_READ_ONLY = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_USE_KEPT_S = 60.0


class NotThere(Exception):
    """There is no such recording, or no such file in it.

    The message does not tell the id: whoever came through a share link may read it.
    """


class NoShelf(Exception):
    """The directory of recordings is not on this server, or cannot be used."""


@dataclass(frozen=True, slots=True)
class Item:
    """A file of a recording; `path` is relative to its directory, `modified` in Unix seconds."""

    path: str
    size: int
    modified: float


class Shelf:
    """The recordings below `root`. Raises NotThere, NoShelf and BadName."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def recordings(self) -> list[str]:
        """Every id, in no order."""
        with self._opened_root() as root, os.scandir(root) as entries:
            return [
                entry.name
                for entry in entries
                if is_recording_id(entry.name) and entry.is_dir(follow_symlinks=False)
            ]

    def open(self, recording: str, path: str) -> BinaryIO:
        """One file, to read. It stays whole even if it is replaced or deleted meanwhile."""
        *folders, name = asset_parts(path)
        absent = f"the recording has no file {path}"
        with ExitStack() as stack:
            place = stack.enter_context(self.folder(recording))
            for folder in folders:
                place = stack.enter_context(_folder(folder, place, absent))
            return _regular(name, place, absent)

    def read(self, recording: str, path: str) -> bytes:
        """A small file, whole."""
        with self.open(recording, path) as file:
            return file.read()

    def files(self, recording: str) -> list[Item]:
        """Everything that `open` would open, in order of path."""
        with self.folder(recording) as place:
            return sorted(_walk(place, ()), key=lambda item: item.path)

    def use(self, recording: str) -> None:
        """Note that it was read: the cleanup job deletes first what was read longest ago."""
        with self.folder(recording) as place:
            try:
                _touch(place)
            except OSError as error:
                if error.errno not in _READ_ONLY:
                    raise
                log.debug("recording_use_not_noted", recording=recording, error=str(error))

    @contextmanager
    def folder(self, recording: str) -> Iterator[int]:
        """The descriptor of a recording's directory."""
        check_recording_id(recording)
        with (
            self._opened_root() as root,
            _folder(recording, root, "there is no such recording") as it,
        ):
            yield it

    @contextmanager
    def _opened_root(self) -> Iterator[int]:
        try:
            root = os.open(self.root, _FOLDER)
        except OSError as error:
            text = "the recordings are not on this server (setting `recordings_dir`)"
            raise NoShelf(f"{text}: {error.strerror}") from error
        try:
            yield root
        finally:
            os.close(root)


@contextmanager
def _folder(name: str, place: int, absent: str) -> Iterator[int]:
    descriptor = _open(name, _FOLDER | os.O_NOFOLLOW, place, absent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _regular(name: str, place: int, absent: str) -> BinaryIO:
    descriptor = _open(name, _FILE, place, absent)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotThere(absent)
    return os.fdopen(descriptor, "rb")


def _open(name: str, flags: int, place: int, absent: str) -> int:
    try:
        return os.open(name, flags, dir_fd=place)
    except OSError as error:
        if error.errno in _ABSENT:
            raise NotThere(absent) from None
        raise


def _walk(place: int, above: tuple[str, ...]) -> Iterator[Item]:
    """Files that may be asked for; what vanishes meanwhile is left out."""
    with os.scandir(place) as entries:
        for entry in entries:
            parts = (*above, entry.name)
            if not is_asset(parts):
                continue
            with suppress(FileNotFoundError, NotThere):
                about = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(about.st_mode):
                    yield Item("/".join(parts), about.st_size, about.st_mtime)
                elif stat.S_ISDIR(about.st_mode):
                    with _folder(entry.name, place, entry.name) as inner:
                        yield from _walk(inner, parts)


def _touch(place: int) -> None:
    """Once a minute is often enough."""
    try:
        last = os.stat(USED_FILE, dir_fd=place, follow_symlinks=False).st_mtime
    except FileNotFoundError:
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        os.close(os.open(USED_FILE, flags, 0o644, dir_fd=place))
    else:
        if time.time() - last > _USE_KEPT_S:
            os.utime(USED_FILE, dir_fd=place, follow_symlinks=False)
