"""Deletes in two steps: first out of readers' sight, then off the disk; and removes what crashes left."""

from __future__ import annotations

import secrets
import shutil
import sys
import time
from pathlib import Path

TRASH = ".trash"
UPLOADS = ".uploads"
"""The folder of incomplete uploads."""


def discard(folder: Path) -> bool:
    """Delete a session directory; a reader sees all of it or nothing. False when it has vanished.

    Raises OSError when it cannot be moved away or deleted.
    """
    trash = folder.parent / TRASH
    trash.mkdir(exist_ok=True)
    trashed = trash / f"{folder.name}.{secrets.token_hex(4)}"
    try:
        folder.rename(trashed)
    except FileNotFoundError:
        return False
    remove_tree(trashed)
    return True


def empty_trash(root: Path) -> int:
    """Delete what an interrupted sweep left in the trash; returns how many directories. May raise OSError."""
    try:
        trashed = list((root / TRASH).iterdir())
    except FileNotFoundError:
        return 0
    for folder in trashed:
        remove_tree(folder)
    return len(trashed)


def drop_uploads(root: Path, silent_s: float) -> int:
    """Delete uploads without new data for `silent_s`; returns how many. May raise OSError."""
    dropped = 0
    for path in (root / UPLOADS).glob("*.part"):
        try:
            if time.time() - path.stat().st_mtime > silent_s:
                path.unlink()
                dropped += 1
        except FileNotFoundError:  # its edge has finished or dropped it
            continue
    return dropped


def remove_tree(folder: Path) -> None:
    """Delete a directory; files that vanish during the call count as deleted. Raises OSError."""
    if sys.version_info >= (3, 12):
        shutil.rmtree(folder, onexc=lambda _call, _path, error: raise_unless_gone(error))
    else:
        shutil.rmtree(folder, onerror=lambda _call, _path, info: raise_unless_gone(info[1]))


def raise_unless_gone(error: BaseException) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
