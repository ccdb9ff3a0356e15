"""A reserve of free disk space that recordings and uploads leave to everything else."""

from __future__ import annotations

import errno
import shutil
import time
from pathlib import Path

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
