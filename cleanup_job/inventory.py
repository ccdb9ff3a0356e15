"""Reads the recordings on disk while other processes write and delete there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path

import structlog

from antiphon.cleanup_job.retention import StoredSession
from antiphon.shared_schemas.recording import META_FILE, RECORDING_FILE, USED_FILE, Meta, parse_meta

log = structlog.get_logger()

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
    sizes, times = [0], [touched]
    for entry in _walk(folder):
        try:
            about = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        sizes.append(about.st_size)
        if entry.name != USED_FILE:
            times.append(about.st_mtime)
    meta = _meta(folder)
    last_written = max(times)
    return StoredSession(
        name=folder.name,
        size=sum(sizes),
        created=meta.created_at.timestamp() if meta else last_written,
        last_used=max(filter(None, map(_time_of, (folder / n for n in _USES))), default=touched),
        last_written=last_written,
        busy=meta is None or meta.is_busy,
        serving=folder.name in serving,
    )


def _is_session(entry: os.DirEntry[str]) -> bool:
    return not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)


def _walk(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Every file below `folder`; links are not followed."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield from _walk(Path(entry.path))
                yield entry
    except FileNotFoundError:
        return


def _meta(folder: Path) -> Meta | None:
    try:
        return parse_meta((folder / META_FILE).read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        log.warning("meta_unreadable", recording=folder.name, error=str(error))
        return None


def _time_of(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return None
