"""One sweep at a time on one data directory."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK_FILE = ".cleanup.lock"


@contextmanager
def sweep_lock(data_dir: Path) -> Iterator[bool]:
    """Yield whether this process may sweep; the kernel frees the lock even after a crash."""
    with (data_dir / LOCK_FILE).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
