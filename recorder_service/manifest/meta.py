"""`meta.json` during the session, after its end, and read back from disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import structlog

from antiphon.recorder_service.journal.job import RecordingJob, SessionEnding
from antiphon.recorder_service.journal.journal import JournalContents, OutageEntry
from antiphon.recorder_service.journal.state import JournalState
from antiphon.recorder_service.manifest.common import config_of, disk_outages, moment
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
    """A session directory's meta, None when it is missing or unreadable."""
    try:
        return parse_meta((folder / META_FILE).read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:  # a power failure may leave an unfinished recording's meta empty
        log.warning("recording_meta_unreadable", folder=folder.name, error=str(error))
        return None


def live_meta(
    job: RecordingJob, state: JournalState, worker: str, outages: Sequence[OutageEntry]
) -> Meta:
    return Meta(
        session_id=job.sid,
        recording_id=job.recording,
        ticket=job.ticket,
        app_type=job.kind,
        state=RecordingState.RECORDING,
        created_at=moment(state.start_ms),
        worker_id=worker,
        config=config_of(state.prepare),
        degraded=disk_outages(outages),
    )


def final_meta(
    job: RecordingJob,
    ending: SessionEnding,
    state: JournalState,
    recording: DuplexRecording | TurnRecording,
    contents: JournalContents,
) -> Meta:
    """The meta of a session that is over; its replay is still to be merged if there is any sound."""
    times = [item.entry.at for item in (*contents.inputs, *contents.outputs)]
    ended_ms = max(times, default=0.0) if ending.at is None else float(ending.at)
    whole = bool(times) and ending.at is not None and not recording.missing
    has_sound = plan_replay(job.kind, state, contents).seconds > 0
    return live_meta(job, state, ending.worker, ()).model_copy(
        update={
            "state": RecordingState.COMPLETE if whole else RecordingState.INTERRUPTED,
            "reason": ending.reason,
            "ended_at": moment(ended_ms),
            "duration_s": round(max(0.0, ended_ms - state.start_ms) / 1000, 3),
            "chunks": len(recording.chunks) if isinstance(recording, DuplexRecording) else None,
            "turns": len(recording.turns) if isinstance(recording, TurnRecording) else None,
            "missing": recording.missing or [],
            "degraded": disk_outages(contents.outages, contents),
            "replay": ReplayState.MERGING if has_sound else ReplayState.NONE,
        }
    )
