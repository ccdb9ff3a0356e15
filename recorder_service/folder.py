"""One recording's directory, as one recorder writes it: media, journal, and the two JSON files."""

import errno
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import structlog

from antiphon.recorder_service.atomic_files import (
    remove_temporaries,
    sync_tree,
    write_atomic,
    write_blocks_atomic,
)
from antiphon.recorder_service.attempts import ATTEMPTS_FILE
from antiphon.recorder_service.journal.journal import (
    SIDES,
    HeldFrom,
    Journal,
    JournalContents,
    LeftOutEntry,
    LeftOutWhy,
    OutageEntry,
    OutageStart,
    Side,
    read_journal,
    to_journal,
    without_lost_files,
)
from antiphon.recorder_service.journal.state import (
    JournalState,
    RecordingJob,
    RecordingLimits,
    SessionEnding,
)
from antiphon.recorder_service.manifest.meta import live_meta, read_meta
from antiphon.recorder_service.manifest.recording import build_manifest
from antiphon.recorder_service.media import (
    join_answers,
    make_fragments_folder,
    remove_fragments,
    save_media,
)
from antiphon.shared_schemas.entries import StreamEntry, StreamPosition
from antiphon.shared_schemas.recording import (
    META_FILE,
    RECORDING_FILE,
    SESSION_FOLDERS,
    TIMELINE_FILE,
    RecordingState,
    ReplayState,
    encode_meta,
    recording_blocks,
)

log = structlog.get_logger()

_ALL_HELD: HeldFrom = dict.fromkeys(SIDES, 0)

SET_ASIDE_FILE = ".timeline.set_aside"
"""The journal of a recording that could not be finished."""


class RecordingFolder:
    """The state of one recording on disk. The first entry creates the directory.

    Every method blocks on the disk and may raise OSError; open the folder again after that. Several
    threads may call. An entry that is already recorded changes nothing.
    """

    def __init__(
        self,
        root: Path,
        job: RecordingJob,
        worker: str = "",
        outages: Sequence[OutageStart] = (),
        now_ms: Callable[[], float] = lambda: time.time() * 1000,
        check_disk: Callable[[], None] = lambda: None,
        held_from: HeldFrom = _ALL_HELD,
    ) -> None:
        """Resume a recording, or prepare to begin one.

        The journal notes each of `outages` once, at the next write; `now_ms` is the Redis clock.
        `check_disk` raises OSError while no entry may be added. Lost files are written again only if the
        streams, which hold the entries of `held_from`, have all that came after them.
        """
        self.path = root / job.recording
        self._check_disk = check_disk
        self._held_from = held_from
        self._job = job
        self._by_turns = not job.kind.is_duplex
        self._worker = worker
        self._lock = threading.Lock()
        self._state = JournalState(job.ticket)
        self._limits = RecordingLimits()
        self._left_out: dict[Side, LeftOutEntry] = {}
        self._limited: set[LeftOutWhy] = set()
        self._now_ms = now_ms
        self._outages = list(outages)
        self._noted: list[OutageEntry] = []
        self._journal: Journal | None = None
        self._closed = False
        self.complete = False
        self._load()

    @property
    def begun(self) -> bool:
        """True when the directory exists."""
        return self._journal is not None

    def position(self, side: Side) -> StreamPosition:
        return self._state.positions[side]

    def add(self, side: Side, position: StreamPosition, entry: StreamEntry) -> None:
        """Record one entry: its files first, then its journal line."""
        with self._lock:
            if self._closed:  # a thread may write for a recorder that another one has replaced
                raise OSError(errno.EBADF, f"{self.path} is closed")
            if self._state.has(side, position):
                return
            self._check_disk()
            journal = self._journal or self._begin()
            why = self._limits.refusal(side, entry, self._state)
            if why is not None:
                self._leave_out(journal, side, position, why)
                return
            self._note_left_out(journal, side)
            media = save_media(self.path, self._job.kind, position, entry, self._state)
            item = to_journal(side, position, entry, media)
            self._limits.count(side, entry, journal.append(item))
            changed = self._note_outages(journal) or self._state.first_at is None
            self._state.add(item)
            if changed or item is self._state.prepare:
                self._write_meta()

    def finish(self, ending: SessionEnding) -> RecordingState | None:
        """Make the recording whole on disk, then say so in `meta.json`; None when it is empty.

        Raises OSError also when the journal has lost lines that this recorder has written or read.
        """
        with self._lock:
            if self._journal is None:
                return None
            self._note_outages(self._journal)
            for side in SIDES:
                self._note_left_out(self._journal, side)
            journal = self.path / TIMELINE_FILE
            contents = read_journal(journal)
            if not journal.exists():  # another recorder has finished and merged it
                raise FileNotFoundError(f"the journal of {self.path} is gone")
            held = JournalState.of(self._job.ticket, contents)
            if any(not held.has(side, self._state.positions[side]) for side in SIDES):
                raise OSError(errno.EIO, f"the journal of {self.path} has lost lines")
            contents = self._report_lost_files(contents)
            if self._by_turns:
                join_answers(self.path, contents.outputs)
            recording, meta = build_manifest(self._job, ending, contents)
            sync_tree(self.path)
            write_blocks_atomic(self.path / RECORDING_FILE, recording_blocks(recording))
            write_atomic(self.path / META_FILE, encode_meta(meta), durable=True)
            if not meta.is_busy:
                remove_working_files(self.path)
            return meta.state

    def close(self) -> None:
        """Wait for a write in progress and close the journal. No entry is added afterwards."""
        with self._lock:
            self._closed = True
            if self._journal is not None:
                self._journal.close()

    def _load(self) -> None:
        meta, journal = read_meta(self.path), self.path / TIMELINE_FILE
        if meta is not None and meta.state is not RecordingState.RECORDING:
            self.complete = True
            if not meta.is_busy:
                remove_working_files(self.path)
        elif journal.exists():
            self._resume(journal)

    def _resume(self, journal: Path) -> None:
        contents = read_journal(journal, self._held_from)
        if (unreadable := journal.stat().st_size - contents.size) > 0:
            log.warning("recording_journal_cut", recording=self.path.name, bytes=unreadable)
        self._state = JournalState.of(self._job.ticket, contents)
        self._limits = RecordingLimits(contents)
        self._noted = list(contents.outages)
        self._make_folders()
        if self._state.first_at is not None:
            self._write_meta()
        self._journal = Journal.resume(journal, contents.size)  # last, or a failure leaves it open

    def _report_lost_files(self, contents: JournalContents) -> JournalContents:
        """The contents without the files that something else has deleted or changed."""
        if contents.lost:
            files = sorted(name for names in contents.lost.values() for name in names)
            log.error(
                "recording_file_lost", recording=self.path.name, files=len(files), first=files[0]
            )
        return without_lost_files(contents)

    def _begin(self) -> Journal:
        self._make_folders()
        self._journal = Journal(self.path / TIMELINE_FILE)
        return self._journal

    def _leave_out(
        self, journal: Journal, side: Side, position: StreamPosition, why: LeftOutWhy
    ) -> None:
        """Count an entry that is not recorded. Consecutive ones share a line, written later."""
        waiting = self._left_out.get(side)
        if waiting is not None and (waiting.why, waiting.last.n + 1) != (why, position.n):
            self._note_left_out(journal, side)
            waiting = None
        first = position.n if waiting is None else waiting.first
        if why not in self._limited:
            self._limited.add(why)
            log.warning("recording_limited", recording=self.path.name, limit=why)
        self._left_out[side] = LeftOutEntry(side, first, position, why)
        self._state.skip(side, position)

    def _note_left_out(self, journal: Journal, side: Side) -> None:
        waiting = self._left_out.pop(side, None)
        if waiting is not None:
            journal.append(waiting)

    def _note_outages(self, journal: Journal) -> bool:
        """Write down the outages that are over; True when there were any."""
        known = {noted.start for noted in self._noted}
        fresh = [start for start in self._outages if start not in known]
        for start in fresh:
            resumed_ms = round(self._now_ms(), 3)
            outage = OutageEntry(start, resumed_ms, dict(self._state.positions))
            journal.append(outage)
            self._noted.append(outage)
        return bool(fresh)

    def _make_folders(self) -> None:
        for name in SESSION_FOLDERS:
            (self.path / name).mkdir(parents=True, exist_ok=True)
        if self._by_turns:
            make_fragments_folder(self.path)

    def _write_meta(self) -> None:
        meta = live_meta(self._job, self._state, self._worker, self._noted)
        write_atomic(self.path / META_FILE, encode_meta(meta))


def remove_working_files(folder: Path) -> None:
    """Delete what only an unfinished recording needs. Raises OSError.

    The journal goes after the temporary files of killed writers, because its end is the sign that
    nothing is left to do, and before the fragments that it names.
    """
    remove_temporaries(folder)
    (folder / ATTEMPTS_FILE).unlink(missing_ok=True)
    (folder / TIMELINE_FILE).unlink(missing_ok=True)
    remove_fragments(folder)


def set_aside(root: Path, job: RecordingJob, why: str) -> None:
    """Mark a recording that cannot be finished as interrupted; its journal stays. Raises OSError."""
    folder = root / job.recording
    now = datetime.now(UTC)
    begun = JournalState(job.ticket, first_at=now.timestamp() * 1000)
    meta = read_meta(folder) or live_meta(job, begun, "", ())
    if meta.state is RecordingState.RECORDING:
        ended = max(meta.created_at, now)
        meta = meta.model_copy(update={"state": RecordingState.INTERRUPTED, "ended_at": ended})
    failed = {"replay": ReplayState.FAILED, "replay_error": f"set aside: {why}"}
    write_atomic(folder / META_FILE, encode_meta(meta.model_copy(update=failed)), durable=True)
    with suppress(FileNotFoundError):
        (folder / TIMELINE_FILE).rename(folder / SET_ASIDE_FILE)
    (folder / ATTEMPTS_FILE).unlink(missing_ok=True)
