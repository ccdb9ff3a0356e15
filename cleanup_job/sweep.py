"""One sweep over the recordings on disk: read, decide, delete, report."""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import structlog

from antiphon.broker.service.disk import TRASH, discard, free_bytes
from antiphon.broker.settings import PRIVATE_FOLDER
from antiphon.cleanup_job.disk import (
    UPLOADS,
    drop_uploads,
    empty_trash,
    examine,
    session_folders,
)
from antiphon.cleanup_job.report import Failure, Removal, SweepReport, SweepStatus
from antiphon.cleanup_job.retention import DAY_S, GIB, Policy, Rule, StoredSession, decide
from antiphon.cleanup_job.settings import CleanupSettings

log = structlog.get_logger()

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
        wanted_bytes=max(0.0, wanted_free_bytes(settings) - free_bytes(settings.data_dir)),
    )
    if policy.max_age_s < 0 and policy.max_bytes < 0:
        return SweepReport(status=SweepStatus.DISABLED, dry_run=settings.dry_run)
    settings.data_dir.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
    with sweep_lock(settings.data_dir) as mine:
        if not mine:
            return SweepReport(status=SweepStatus.BUSY, dry_run=settings.dry_run)
        root = settings.data_dir / "sessions"
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

    def run(self) -> SweepReport:
        leftovers = 0 if self.dry_run else self._remove_leftovers()
        sessions = self._take_inventory()
        for stored, rule in decide(sessions, self.policy, self.now):
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
        trashed = self._count(TRASH, lambda: empty_trash(self.root))
        uploads = self._count(UPLOADS, lambda: drop_uploads(self.root, self.policy.orphan_s))
        return trashed + uploads

    def _count(self, name: str, act: Callable[[], int]) -> int:
        try:
            return act()
        except OSError as error:
            self._fail(name, error)
            return 0

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
