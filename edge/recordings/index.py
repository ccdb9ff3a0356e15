"""Search over all recordings, newest first. Every call blocks: call it in a thread."""

import threading
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path

import orjson
import structlog

from antiphon.edge.recordings.store import RecordingNotFound, RecordingStore
from antiphon.shared_schemas.recording import META_FILE, RECORDING_FILE, Meta
from antiphon.shared_schemas.recording_list import RecordingInfo, RecordingPage, RecordingQuery

log = structlog.get_logger()

MAX_SEARCHED = 2000
"""A text search reads at most this many recordings, newest first."""

_TEXT_FIELDS = frozenset({"text", "user_text", "system_prompt", "message"})


class RecordingIndex:
    """Caches every `meta.json` until the file changes.

    `recording_id` is the name of the directory, which is the id that opens the recording.
    """

    def __init__(self, store: RecordingStore) -> None:
        self._store = store
        self._cached: dict[str, tuple[tuple[int, int, int], Meta]] = {}
        self._lock = threading.Lock()

    def find(self, query: RecordingQuery) -> tuple[list[Meta], bool]:
        """Matches of all pages, newest first. False: a text search stopped after MAX_SEARCHED.

        Raises StoreUnavailable.
        """
        rows = [row for row in self._all() if query.matches(row)]
        text = query.text.strip().casefold()
        if not text:
            return rows, True
        found = [row for row in rows[:MAX_SEARCHED] if self._contains(row, text)]
        return found, len(rows) <= MAX_SEARCHED

    def page(self, query: RecordingQuery) -> RecordingPage:
        """Raises StoreUnavailable."""
        found, complete = self.find(query)
        shown = found[query.offset : query.offset + query.limit]
        return RecordingPage(
            total=len(found),
            offset=query.offset,
            limit=query.limit,
            complete=complete,
            sessions=[self._info(meta) for meta in shown],
        )

    def of_session(self, session_id: str) -> str | None:
        """The newest recording of a session; clients may use an id again."""
        rows = (row.recording_id for row in self._all() if row.session_id == session_id)
        return next(rows, None)

    def _info(self, meta: Meta) -> RecordingInfo:
        name = meta.recording_id
        return RecordingInfo(
            **meta.model_dump(), id=name, size_bytes=self._size(name), url=f"/s/{name}"
        )

    def _size(self, recording: str) -> int:
        """Bytes of a recording's files; 0 if it was deleted."""
        try:
            return sum(file.size for file in self._store.files(recording))
        except RecordingNotFound:
            return 0

    def _all(self) -> list[Meta]:
        with self._lock:
            entries = {name: self._entry(name) for name in self._store.recordings()}
            self._cached = {name: entry for name, entry in entries.items() if entry is not None}
            rows = [row for _, row in self._cached.values()]
        return sorted(rows, key=lambda row: (row.created_at, row.recording_id), reverse=True)

    def _entry(self, recording: str) -> tuple[tuple[int, int, int], Meta] | None:
        path = self._store.root / recording / META_FILE
        try:
            info = path.stat(follow_symlinks=False)
            version = (info.st_mtime_ns, info.st_size, info.st_ino)
            cached = self._cached.get(recording)
            if cached is not None and cached[0] == version:
                return cached
            meta = Meta.model_validate_json(self._store.read(recording, META_FILE))
        except (FileNotFoundError, RecordingNotFound):
            return None
        except (OSError, ValueError) as error:
            log.warning("meta_unreadable", recording=recording, error=str(error))
            return None
        # The prompt and the lists of faults can be large; the list of recordings shows none of them.
        small = {"recording_id": recording, "config": {}, "missing": [], "degraded": []}
        return version, meta.model_copy(update=small)

    def _contains(self, row: Meta, text: str) -> bool:
        """Searches the ids and what was said or prompted in the session."""
        ids = (row.recording_id, row.session_id, row.worker_id)
        return any(text in words.casefold() for words in chain(ids, self._texts(row.recording_id)))

    def _texts(self, recording: str) -> Iterator[str]:
        for name in (RECORDING_FILE, META_FILE):
            try:
                yield from _texts_in(orjson.loads(self._store.read(recording, name)))
            except RecordingNotFound:
                continue
            except (OSError, ValueError) as error:
                log.warning("recording_unreadable", recording=recording, error=str(error))
                continue
            return


@cache
def index_of(root: Path) -> RecordingIndex:
    """The shared index of a directory."""
    return RecordingIndex(RecordingStore(root))


def _texts_in(content: object) -> Iterator[str]:
    """Values of _TEXT_FIELDS at any depth."""
    if isinstance(content, list):
        for item in content:
            yield from _texts_in(item)
    elif isinstance(content, dict):
        for name, value in content.items():
            if isinstance(value, str):
                if name in _TEXT_FIELDS:
                    yield value
            else:
                yield from _texts_in(value)
