"""One sweep over the recordings on disk: read, decide by age and total size, delete, report."""

import fcntl
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import structlog

from antiphon.broker.service.disk import (
    GIB,
    TRASH,
    discard,
    free_bytes,
    raise_unless_gone,
    remove_tree,
)
from antiphon.broker.settings import PRIVATE_FOLDER
from antiphon.cleanup_job.report import Failure, Removal, Rule, SweepReport, SweepStatus
from antiphon.cleanup_job.settings import CleanupSettings
from antiphon.shared_schemas.ids import is_recording_id
from antiphon.shared_schemas.recording import META_FILE, RECORDING_FILE, USED_FILE, Meta, parse_meta

log = structlog.get_logger()

UPLOADS = ".uploads"
"""The folder of incomplete uploads."""

DAY_S = 86_400

_USES = (META_FILE, RECORDING_FILE, USED_FILE)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSession:
    """One session directory. Times are Unix seconds.

    `busy`: its recorder has not finished it. `serving`: Redis says that the session is live.
    """

    name: str
    size: int
    created: float
    last_used: float
    last_written: float
    busy: bool
    serving: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Limits; a negative `max_age_s` or `max_bytes` switches that rule off.

    `wanted_free_bytes`: free space that the rule of size restores.
    """

    max_age_s: float
    max_bytes: float
    orphan_s: float
    wanted_free_bytes: float = 0.0

    def is_live(self, stored: StoredSession, now: float) -> bool:
        """True while the session is live, or a recorder may still write or merge there."""
        return stored.serving or (stored.busy and now - stored.last_written < self.orphan_s)


def decide(
    sessions: Sequence[StoredSession], policy: Policy, now: float, free: float = math.inf
) -> list[tuple[StoredSession, Rule]]:
    """What to delete, in order. Live sessions are never deleted, but their size counts.

    `free`: free bytes of the disk.
    """
    idle = [stored for stored in sessions if not policy.is_live(stored, now)]
    aged = [stored for stored in idle if 0 <= policy.max_age_s < now - stored.created]
    gone = {stored.name for stored in aged}
    kept = [stored for stored in idle if stored.name not in gone]
    total = sum(stored.size for stored in sessions if stored.name not in gone)
    wanted = policy.wanted_free_bytes - free - sum(stored.size for stored in aged)
    surplus = max(total - policy.max_bytes, wanted) if policy.max_bytes >= 0 else 0.0
    return [
        *((stored, Rule.AGE) for stored in sorted(aged, key=lambda s: s.created)),
        *((stored, Rule.SIZE) for stored in _least_used(kept, surplus)),
    ]


def _least_used(candidates: Iterable[StoredSession], surplus: float) -> Iterable[StoredSession]:
    """The least recently used, until `surplus` bytes are freed."""
    for stored in sorted(candidates, key=lambda s: (s.last_used, s.name)):
        if surplus <= 0:
            return
        surplus -= stored.size
        yield stored


def session_folders(root: Path) -> list[Path]:
    """Every recording below `root`, and no other folder; empty when there is no such folder."""
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
    return is_recording_id(entry.name) and entry.is_dir(follow_symlinks=False)


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


def _size(path: Path) -> int:
    inside = _walk(path) if path.is_dir() else ()
    return sum(about.st_size for about in _stats([path, *inside]).values())


def trashed_folders(root: Path) -> list[Path]:
    """What an interrupted sweep left in the trash. Raises OSError when it is unreadable."""
    try:
        return list((root / TRASH).iterdir())
    except FileNotFoundError:
        return []


def silent_uploads(root: Path, silent_s: float) -> list[Path]:
    """Uploads without new data for `silent_s`. Raises OSError when they are unreadable."""
    files = _stats((root / UPLOADS).glob("*.part"))
    return [path for path, about in files.items() if time.time() - about.st_mtime > silent_s]


LOCK_FILE = ".cleanup.lock"
_MARGIN = 1.25


def sweep(
    settings: CleanupSettings, halt: threading.Event, serving: AbstractSet[str] = frozenset()
) -> SweepReport:
    """Sweep the disk until done or `halt` is set; `serving`: recordings of live sessions.

    Blocks. Raises OSError when `data_dir` cannot be used at all.
    """
    policy = Policy(
        max_age_s=settings.retention_days * DAY_S,
        max_bytes=settings.max_storage_gb * GIB,
        orphan_s=settings.orphan_hours * 3600,
        wanted_free_bytes=wanted_free_bytes(settings),
    )
    if policy.max_age_s < 0 and policy.max_bytes < 0:
        return SweepReport(status=SweepStatus.DISABLED, dry_run=settings.dry_run)
    settings.data_dir.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
    with sweep_lock(settings.data_dir) as mine:
        if not mine:
            return SweepReport(status=SweepStatus.BUSY, dry_run=settings.dry_run)
        root = settings.sessions_dir
        return _Sweep(root, policy, halt, serving, settings.dry_run).run()


def wanted_free_bytes(settings: CleanupSettings) -> float:
    """Free space that a sweep restores: more than the reserve, so that recording resumes for a while."""
    return settings.min_free_disk_gb * _MARGIN * GIB


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


@dataclass
class _Sweep:
    root: Path
    policy: Policy
    halt: threading.Event
    serving: AbstractSet[str]
    dry_run: bool
    now: float = field(default_factory=time.time)
    removed: list[Removal] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    spared_bytes: int = 0
    """Of the leftovers that a dry run does not delete."""

    def run(self) -> SweepReport:
        leftovers = self._remove_leftovers()
        sessions = self._take_inventory()
        free = free_bytes(self.root.parent) + self.spared_bytes
        for stored, rule in decide(sessions, self.policy, self.now, free):
            if self.halt.is_set():
                break
            if self.dry_run or self._delete(stored):
                self.removed.append(_removal(stored, rule))
        gone = {removal.session for removal in self.removed}
        kept = [stored for stored in sessions if stored.name not in gone]
        return SweepReport(
            status=SweepStatus.STOPPED if self.halt.is_set() else SweepStatus.DONE,
            dry_run=self.dry_run,
            scanned=len(sessions),
            live=sum(self.policy.is_live(stored, self.now) for stored in sessions),
            removed=self.removed,
            failed=self.failed,
            freed_bytes=sum(removal.size for removal in self.removed),
            remaining=len(kept),
            remaining_bytes=sum(stored.size for stored in kept),
            leftovers=leftovers,
        )

    def _remove_leftovers(self) -> int:
        """Returns how many were deleted."""
        trashed = self._clear(TRASH, lambda: trashed_folders(self.root), remove_tree)
        return trashed + self._clear(
            UPLOADS, lambda: silent_uploads(self.root, self.policy.orphan_s), Path.unlink
        )

    def _clear(
        self, name: str, found: Callable[[], list[Path]], delete: Callable[[Path], None]
    ) -> int:
        """What cannot be deleted stops no other deletion."""
        deleted = 0
        try:
            leftovers = found()
        except OSError as error:
            self._fail(name, error)
            return 0
        for path in leftovers:
            try:
                if self.dry_run:
                    self.spared_bytes += _size(path)
                else:
                    delete(path)
                    deleted += 1
            except FileNotFoundError:  # its edge has finished or dropped it
                continue
            except OSError as error:
                self._fail(f"{name}/{path.name}", error)
        return deleted

    def _take_inventory(self) -> list[StoredSession]:
        """Empty after a stop: decisions from half an inventory would be wrong."""
        sessions: list[StoredSession] = []
        for folder in session_folders(self.root):
            if self.halt.is_set():
                return []
            try:
                stored = examine(folder, self.serving)
            except OSError as error:
                self._fail(folder.name, error)
                continue
            if stored is not None:
                sessions.append(stored)
        return sessions

    def _fail(self, name: str, error: OSError) -> None:
        log.warning("cleanup_step_failed", recording=name, error=str(error))
        self.failed.append(Failure(session=name, error=str(error)))

    def _delete(self, stored: StoredSession) -> bool:
        """False when it stays: it has become live since the inventory, or cannot be deleted."""
        folder = self.root / stored.name
        try:
            latest = examine(folder, self.serving)
            if latest is not None and self.policy.is_live(latest, time.time()):
                return False
            discard(folder)
        except OSError as error:
            self._fail(stored.name, error)
            return False
        return True


def _removal(stored: StoredSession, rule: Rule) -> Removal:
    return Removal(
        session=stored.name,
        rule=rule,
        size=stored.size,
        created_at=datetime.fromtimestamp(stored.created, UTC),
        last_used_at=datetime.fromtimestamp(stored.last_used, UTC),
    )
