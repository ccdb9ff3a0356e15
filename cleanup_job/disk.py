"""The recordings on disk: read them, and delete leftovers, while other processes write there."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path

import structlog

from antiphon.broker.service.disk import TRASH, raise_unless_gone, remove_tree
from antiphon.cleanup_job.retention import StoredSession
from antiphon.shared_schemas.recording import META_FILE, RECORDING_FILE, USED_FILE, Meta, parse_meta

log = structlog.get_logger()

UPLOADS = ".uploads"
"""The folder of incomplete uploads."""

_USES = (META_FILE, RECORDING_FILE, USED_FILE)


def session_folders(root: Path) -> list[Path]:
    """Every session directory below `root`; empty when there is no such folder."""
    try:
        with os.scandir(root) as entries:
            return sorted(root / entry.name for entry in entries if _is_session(entry))
    except FileNotFoundError:
        return []


def examine(folder: Path, serving: AbstractSet[str] = frozenset()) -> StoredSession | None:
    """Read one session directory, None when it has vanished. Raises OSError when it is unreadable.

    `serving`: recordings of live sessions. A directory without a readable `meta.json` counts as
    unfinished.
    """
    try:
        touched = folder.stat().st_mtime
    except FileNotFoundError:
        return None
    files = _stats(_walk(folder))
    written = [about.st_mtime for path, about in files.items() if path.name != USED_FILE]
    used = [about.st_mtime for about in _stats(folder / name for name in _USES).values()]
    last_written = max([touched, *written])
    meta = _meta(folder)
    return StoredSession(
        name=folder.name,
        size=sum(about.st_size for about in files.values()),
        created=meta.created_at.timestamp() if meta else last_written,
        last_used=max(used, default=touched),
        last_written=last_written,
        busy=meta is None or meta.is_busy,
        serving=folder.name in serving,
    )


def _is_session(entry: os.DirEntry[str]) -> bool:
    return not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)


def _walk(folder: Path) -> Iterator[Path]:
    """Everything below `folder`; links are not followed. Raises OSError on an unreadable folder."""
    for base, folders, files in os.walk(folder, onerror=raise_unless_gone):
        yield from (Path(base, name) for name in (*folders, *files))


def _meta(folder: Path) -> Meta | None:
    try:
        return parse_meta((folder / META_FILE).read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        log.warning("meta_unreadable", recording=folder.name, error=str(error))
        return None


def _stats(paths: Iterable[Path]) -> dict[Path, os.stat_result]:
    """Of the paths that still exist; links are not followed."""
    found: dict[Path, os.stat_result] = {}
    for path in paths:
        with suppress(FileNotFoundError):
            found[path] = path.lstat()
    return found


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
