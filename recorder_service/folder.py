"""One recording's directory, as one recorder writes it: media, journal, and the two JSON files."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from antiphon.recorder_service.journal.files import sync_tree, write_atomic
from antiphon.recorder_service.journal.job import RecordingJob, SessionEnding
from antiphon.recorder_service.journal.journal import (
    SIDES,
    TROUBLE,
    Journal,
    Line,
    Side,
    describe,
    read_lines,
)
from antiphon.recorder_service.journal.state import JournalState
from antiphon.recorder_service.manifest.common import is_same, resumed
from antiphon.recorder_service.manifest.duplex import build
from antiphon.recorder_service.manifest.meta import live_meta, read_meta
from antiphon.recorder_service.media.audio import (
    join_answers,
    make_fragments_folder,
    remove_fragments,
)
from antiphon.recorder_service.media.save import save_media, save_turn_media
from antiphon.shared_schemas.entries import StreamEntry
from antiphon.shared_schemas.recording import (
    META_FILE,
    RECORDING_FILE,
    SESSION_FOLDERS,
    TIMELINE_FILE,
    RecordingState,
    encode_meta,
    encode_recording,
)
from antiphon.shared_schemas.stream_position import StreamPosition


class SessionFolder:
    """The state of one recording on disk; nothing exists there before the first entry.

    Every method blocks on the disk and may raise OSError, after which the folder must be opened
    anew. Calls may come from several threads; an entry that is already recorded changes nothing.
    """

    def __init__(
        self,
        root: Path,
        job: RecordingJob,
        worker: str,
        troubles: Sequence[Line],
        now_ms: Callable[[], float],
    ) -> None:
        self.path = root / job.recording
        self._job = job
        self._by_turns = not job.kind.is_duplex
        self._worker = worker
        self._lock = threading.Lock()
        self._tally = JournalState(job.ticket)
        self._now_ms = now_ms
        self._troubles = list(troubles)
        self._noted: list[Line] = []
        self._journal: Journal | None = None
        self._complete = False

    @classmethod
    def open(
        cls,
        root: Path,
        job: RecordingJob,
        worker: str = "",
        troubles: Sequence[Line] = (),
        now_ms: Callable[[], float] = lambda: time.time() * 1000,
    ) -> Self:
        """Take up a recording where it stands, or be ready to begin one.

        `troubles` (from `trouble_line`) are noted in it, each once, as soon as it can be written to
        again; `now_ms` is the Redis clock.
        """
        folder = cls(root, job, worker, troubles, now_ms)
        with folder._lock:
            folder._load()
        return folder

    @property
    def complete(self) -> bool:
        """True when this recording was finished before."""
        return self._complete

    @property
    def begun(self) -> bool:
        """True when there is something on disk."""
        return self._journal is not None

    def position(self, side: Side) -> StreamPosition:
        """The last entry of a stream that is recorded."""
        return self._tally.positions[side]

    def add(self, side: Side, position: StreamPosition, entry: StreamEntry) -> None:
        """Record one entry: its files first, then its line."""
        with self._lock:
            if self._tally.has(side, position):
                return
            journal = self._journal or self._begin()
            line = describe(side, position, entry) | self._save(position, entry)
            journal.append(line)
            news = self._note_troubles(journal) or self._tally.first_at is None
            self._tally.add(line)
            if news or line is self._tally.prepare:
                self._write_meta()

    def _save(self, position: StreamPosition, entry: StreamEntry) -> Line:
        if self._by_turns:
            return save_turn_media(self.path, position, entry, self._tally)
        return save_media(self.path, entry, self._tally)

    def finish(self, ending: SessionEnding) -> RecordingState | None:
        """Make it whole, and only then say so; None when nothing was recorded."""
        with self._lock:
            if self._journal is None:
                return None
            self._note_troubles(self._journal)
            lines, _ = read_lines(self.path / TIMELINE_FILE)
            if not (self.path / TIMELINE_FILE).exists():  # its pieces may have gone meanwhile
                raise FileNotFoundError(f"the journal of {self.path} is gone")
            if self._by_turns:
                join_answers(self.path, lines)
            recording, meta = build(self._job, ending, lines)
            sync_tree(self.path)
            write_atomic(self.path / RECORDING_FILE, encode_recording(recording), durable=True)
            write_atomic(self.path / META_FILE, encode_meta(meta), durable=True)
            if not meta.is_busy:
                remove_working_files(self.path)
            return meta.state

    def close(self) -> None:
        """Wait for a write in progress and give the journal back."""
        with self._lock:
            if self._journal is not None:
                self._journal.close()

    def _load(self) -> None:
        meta, journal = read_meta(self.path), self.path / TIMELINE_FILE
        if meta is not None and meta.state is not RecordingState.RECORDING:
            self._complete = True
            if not meta.is_busy:
                remove_working_files(self.path)
        elif journal.exists():
            self._resume(journal)

    def _resume(self, journal: Path) -> None:
        lines, sound = read_lines(journal)
        for line in lines:
            if line["stream"] in SIDES:
                self._tally.add(line)
        self._noted = [line for line in lines if line["type"] == TROUBLE]
        self._make_folders()
        self._journal = Journal.resume(journal, sound)
        if self._tally.first_at is not None:
            self._write_meta()

    def _begin(self) -> Journal:
        self._make_folders()
        self._journal = Journal(self.path / TIMELINE_FILE)
        return self._journal

    def _note_troubles(self, journal: Journal) -> bool:
        """Write down outages that are over; True when there were any."""
        fresh = [x for x in self._troubles if not any(is_same(x, noted) for noted in self._noted)]
        for trouble in fresh:
            line = resumed(trouble, self._now_ms(), self._tally.positions)
            journal.append(line)
            self._noted.append(line)
        return bool(fresh)

    def _make_folders(self) -> None:
        for name in SESSION_FOLDERS:
            (self.path / name).mkdir(parents=True, exist_ok=True)
        if self._by_turns:
            make_fragments_folder(self.path)

    def _write_meta(self) -> None:
        meta = live_meta(self._job, self._tally, self._worker, self._noted)
        write_atomic(self.path / META_FILE, encode_meta(meta))


def remove_working_files(folder: Path) -> None:
    """What only an unfinished recording needs. Raises OSError.

    The journal goes first: whoever still finds it finds the pieces it tells of, too.
    """
    (folder / TIMELINE_FILE).unlink(missing_ok=True)
    remove_fragments(folder)
