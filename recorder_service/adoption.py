"""Recordings that were begun and that no transition leads to any more: Redis lost or trimmed it."""

from __future__ import annotations

import time
from pathlib import Path

import structlog

from antiphon.broker.client import Broker
from antiphon.recorder_service.job import Job
from antiphon.recorder_service.metas import read_meta
from antiphon.shared_schemas.recording import TIMELINE_FILE

log = structlog.get_logger()


def quiet_recordings(root: Path, quiet_s: float) -> list[Job]:
    """Recordings below `root` that are unfinished or unmerged, with a journal as old as `quiet_s`.

    Blocks on the disk; folders may vanish meanwhile.
    """
    oldest = time.time() - quiet_s
    found: list[Job] = []
    for journal in root.glob(f"*/{TIMELINE_FILE}"):
        try:
            quiet = journal.stat().st_mtime < oldest
            meta = read_meta(journal.parent) if quiet else None
        except OSError as error:
            log.warning("recording_not_readable", folder=journal.parent.name, error=str(error))
            continue
        if meta is not None and meta.is_busy:
            found.append(Job.from_meta(meta))
    return found


async def is_ownerless(broker: Broker, job: Job, quiet_s: float) -> bool:
    """True when no recorder has confirmed progress for `quiet_s`. Raises BrokerUnavailable."""
    progress = await broker.progress.load(job.ticket)
    return progress is None or progress["at"] < broker.clock.now_ms() - quiet_s * 1000
