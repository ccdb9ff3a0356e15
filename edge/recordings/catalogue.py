"""All recordings of a directory, newest first, for whoever administers them. Every call blocks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import structlog

from antiphon.edge.recordings.shelf import NotThere, Shelf
from antiphon.shared_schemas.recording import META_FILE, RECORDING_FILE, Meta, RecordingState
from antiphon.shared_schemas.states import EndReason, SessionKind

log = structlog.get_logger()

MOST_READ = 2000
"""Recordings whose words one search reads, newest first."""

_SPOKEN = frozenset({"text", "user_text", "system_prompt", "message"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One recording, as its `meta.json` has it."""

    id: str
    session_id: str
    kind: SessionKind
    state: RecordingState
    reason: EndReason | None
    created_at: datetime
    ended_at: datetime | None
    duration_s: float | None
    worker_id: str
    chunks: int | None
    turns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What is looked for; None and '' match all. `since` is inclusive, `until` is not."""

    kind: SessionKind | None = None
    state: RecordingState | None = None
    since: datetime | None = None
    until: datetime | None = None
    text: str = ""

    def matches(self, row: Row) -> bool:
        """True when everything but the text fits."""
        return (
            self.kind in (None, row.kind)
            and self.state in (None, row.state)
            and (self.since is None or row.created_at >= self.since)
            and (self.until is None or row.created_at < self.until)
        )


@dataclass(frozen=True, slots=True)
class Found:
    """What matches, newest first; not `complete` when a search by text gave up after MOST_READ."""

    rows: list[Row]
    complete: bool = True


class Catalogue:
    """Remembers every `meta.json` until it changes."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._known: dict[str, tuple[tuple[int, int, int], Row]] = {}
        self._lock = threading.Lock()

    def find(self, query: Query) -> Found:
        """Everything that matches. Raises NoShelf."""
        rows = [row for row in self._rows() if query.matches(row)]
        if not query.text:
            return Found(rows)
        wanted = query.text.casefold()
        read = rows[:MOST_READ]
        return Found([row for row in read if self._says(row, wanted)], len(read) == len(rows))

    def size(self, recording: str) -> int:
        """Bytes of a recording's files; 0 when it has vanished."""
        try:
            return sum(item.size for item in self._shelf.files(recording))
        except NotThere:
            return 0

    def _rows(self) -> list[Row]:
        with self._lock:
            fresh = {}
            for recording in self._shelf.recordings():
                entry = self._entry(recording)
                if entry is not None:
                    fresh[recording] = entry
            self._known = fresh
            rows = [row for _, row in fresh.values()]
        return sorted(rows, key=lambda row: (row.created_at, row.id), reverse=True)

    def _entry(self, recording: str) -> tuple[tuple[int, int, int], Row] | None:
        path = self._shelf.root / recording / META_FILE
        try:
            about = path.stat(follow_symlinks=False)
            version = (about.st_mtime_ns, about.st_size, about.st_ino)
            known = self._known.get(recording)
            if known is not None and known[0] == version:
                return known
            meta = Meta.model_validate_json(self._shelf.read(recording, META_FILE))
        except (FileNotFoundError, NotThere):
            return None
        except (OSError, ValueError) as error:
            log.warning("meta_unreadable", recording=recording, error=str(error))
            return None
        return version, _row(recording, meta)

    def _says(self, row: Row, wanted: str) -> bool:
        """True when the text is in a name of the session, or was said in it."""
        if any(wanted in name.casefold() for name in (row.id, row.session_id, row.worker_id)):
            return True
        return any(wanted in words.casefold() for words in self._words(row))

    def _words(self, row: Row) -> Iterator[str]:
        for name in (RECORDING_FILE, META_FILE):
            try:
                yield from _spoken(orjson.loads(self._shelf.read(row.id, name)))
            except NotThere:
                continue
            except (OSError, ValueError) as error:
                log.warning("recording_unreadable", recording=row.id, error=str(error))
                continue
            return


@cache
def catalogue_of(root: Path) -> Catalogue:
    """The one catalogue of a directory."""
    return Catalogue(Shelf(root))


def _row(recording: str, meta: Meta) -> Row:
    return Row(
        id=recording,
        session_id=meta.session_id,
        kind=meta.app_type,
        state=meta.state,
        reason=meta.reason,
        created_at=meta.created_at,
        ended_at=meta.ended_at,
        duration_s=meta.duration_s,
        worker_id=meta.worker_id,
        chunks=meta.chunks,
        turns=meta.turns,
    )


def _spoken(content: Any) -> Iterator[str]:
    """Every text under one of the names that hold words, however deep."""
    if isinstance(content, list):
        for item in content:
            yield from _spoken(item)
    elif isinstance(content, dict):
        for name, value in content.items():
            if isinstance(value, str):
                if name in _SPOKEN:
                    yield value
            else:
                yield from _spoken(value)
