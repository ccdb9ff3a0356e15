"""A file on its way into a recording: invisible until it is whole, gone when it is not kept."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from antiphon.edge.recordings.names import asset_parts
from antiphon.edge.recordings.shelf import NoShelf, Shelf

UPLOADS = ".uploads"
"""Folder beside the recordings. Its leavings are the cleanup job's."""


class Incoming:
    """One file. Every call blocks on the disk. Raises NoShelf when it cannot be written."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        folder = shelf.root / UPLOADS
        try:
            folder.mkdir(exist_ok=True)
            self._path: Path = folder / f"{secrets.token_hex(8)}.part"
            self._file = self._path.open("xb")
        except OSError as error:
            raise _unwritable(error) from error

    def write(self, data: bytes) -> None:
        """Add to it."""
        try:
            self._file.write(data)
        except OSError as error:
            raise _unwritable(error) from error

    def keep(self, recording: str, name: str) -> None:
        """Let it appear in a recording, in the place of what has that name. Raises NotThere."""
        (plain,) = asset_parts(name)
        with self._shelf.folder(recording) as place:
            try:
                self._file.flush()
                os.fsync(self._file.fileno())
                os.replace(self._path, plain, dst_dir_fd=place)
            except OSError as error:
                raise _unwritable(error) from error

    def discard(self) -> None:
        """Close it, and delete it unless it was kept."""
        with suppress(OSError):  # what a full disk refused is refused again at the close
            self._file.close()
        self._path.unlink(missing_ok=True)


def remove(shelf: Shelf, recording: str, name: str) -> None:
    """Delete a file of a recording, if it is there. Raises NotThere for the recording, NoShelf."""
    (plain,) = asset_parts(name)
    with shelf.folder(recording) as place, suppress(FileNotFoundError):
        try:
            os.unlink(plain, dir_fd=place)
        except PermissionError as error:
            raise _unwritable(error) from error


def _unwritable(error: OSError) -> NoShelf:
    return NoShelf(f"recordings cannot be written on this server: {error.strerror}")
