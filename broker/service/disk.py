"""The disk of recordings: a reserve of free space, and deletion while other processes read."""

import errno
import secrets
import shutil
import sys
import time
from pathlib import Path

from antiphon.broker.settings import PRIVATE_FOLDER

GIB = 1024**3
_VALID_S = 0.5


def free_bytes(folder: Path) -> int:
    """Free space on the disk of a folder, or of its nearest parent that exists. Raises OSError."""
    path = folder.resolve()
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free


def check_reserve(folder: Path, reserve_gb: float) -> None:
    """Raises OSError (ENOSPC) while the disk has less than `reserve_gb` GiB free."""
    if reserve_gb > 0 and free_bytes(folder) < reserve_gb * GIB:
        raise OSError(errno.ENOSPC, f"less than {reserve_gb:g} GiB of the disk are free")


class DiskReserve:
    """`check_reserve` of one folder for writers of many small files. Several threads may call."""

    def __init__(self, folder: Path, reserve_gb: float) -> None:
        self._folder = folder
        self._reserve_gb = reserve_gb
        self._valid_until = 0.0

    def check(self) -> None:
        """Raises like `check_reserve`. Success counts for half a second."""
        now = time.monotonic()
        if now >= self._valid_until:
            check_reserve(self._folder, self._reserve_gb)
            self._valid_until = now + _VALID_S


TRASH = ".trash"
"""The folder of directories that are out of readers' sight, and not yet off the disk."""


def discard(folder: Path) -> bool:
    """Delete a session directory; a reader sees all of it or nothing. False when it has vanished.

    Raises OSError when it cannot be moved away or deleted.
    """
    trash = folder.parent / TRASH
    trash.mkdir(PRIVATE_FOLDER, exist_ok=True)
    trashed = trash / f"{folder.name}.{secrets.token_hex(4)}"
    try:
        folder.rename(trashed)
    except FileNotFoundError:
        return False
    remove_tree(trashed)
    return True


def remove_tree(folder: Path) -> None:
    """Delete a directory; files that vanish during the call count as deleted. Raises OSError."""
    if sys.version_info >= (3, 12):
        shutil.rmtree(folder, onexc=lambda _call, _path, error: raise_unless_gone(error))
    else:
        shutil.rmtree(folder, onerror=lambda _call, _path, info: raise_unless_gone(info[1]))


def raise_unless_gone(error: BaseException) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
