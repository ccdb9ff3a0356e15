"""Deletes directories that other processes may be reading."""

from __future__ import annotations

import secrets
import shutil
import sys
from pathlib import Path

from antiphon.broker.settings import PRIVATE_FOLDER

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
