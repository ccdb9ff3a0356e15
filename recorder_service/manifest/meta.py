"""`meta.json` while a session is recorded, when it is whole, and as it is read back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog

from antiphon.recorder_service.journal.job import RecordingJob, SessionEnding
from antiphon.recorder_service.journal.journal import Line, Placed, Side
from antiphon.recorder_service.journal.state import JournalState
from antiphon.recorder_service.manifest.common import config_of, moment, troubles
from antiphon.recorder_service.manifest.plan import plan_replay
from antiphon.shared_schemas.recording import (
    META_FILE,
    DuplexRecording,
    Meta,
    RecordingState,
    ReplayState,
    TurnRecording,
    parse_meta,
)

log = structlog.get_logger()


def read_meta(folder: Path) -> Meta | None:
    """A session directory's meta, None when it has none that can be read."""
    try:
        return parse_meta((folder / META_FILE).read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:  # a power failure may leave an unfinished recording's empty
        log.warning("recording_meta_unreadable", folder=folder.name, error=str(error))
        return None


def live_meta(job: RecordingJob, tally: JournalState, worker: str, outages: Sequence[Line]) -> Meta:
    """Of a session that is being recorded."""
    return Meta(
        session_id=job.sid,
        recording_id=job.recording,
        ticket=job.ticket,
        app_type=job.kind,
        state=RecordingState.RECORDING,
        created_at=moment(tally.start_ms),
        worker_id=worker,
        config=config_of(tally.prepare),
        degraded=troubles(outages, {}),
    )


def final_meta(
    job: RecordingJob,
    ending: SessionEnding,
    tally: JournalState,
    recording: DuplexRecording | TurnRecording,
    placed: Mapping[Side, Placed],
    lines: Sequence[Line],
) -> Meta:
    """Of one that is over; its replay is still to be merged, if there is anything to hear."""
    times = [float(line["at"]) for side in placed.values() for _, line in side]
    ended_ms = max(times, default=0.0) if ending.at is None else float(ending.at)
    whole = bool(times) and ending.at is not None and not recording.missing
    heard = plan_replay(job.kind, tally, placed).seconds > 0
    return live_meta(job, tally, ending.worker, ()).model_copy(
        update={
            "state": RecordingState.COMPLETE if whole else RecordingState.INTERRUPTED,
            "reason": ending.reason,
            "ended_at": moment(ended_ms),
            "duration_s": round(max(0.0, ended_ms - tally.start_ms) / 1000, 3),
            "chunks": len(recording.chunks) if isinstance(recording, DuplexRecording) else None,
            "turns": len(recording.turns) if isinstance(recording, TurnRecording) else None,
            "missing": recording.missing or [],
            "degraded": troubles(lines, placed),
            "replay": ReplayState.MERGING if heard else ReplayState.NONE,
        }
    )
