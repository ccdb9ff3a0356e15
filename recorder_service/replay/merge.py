"""Makes a recorded session's replay out of its files, and says so in its JSON. Blocks on the disk."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import structlog

from antiphon.recorder_service.folder import remove_working_files
from antiphon.recorder_service.journal.files import remove_temporaries, write_atomic
from antiphon.recorder_service.journal.journal import all_lines, in_order
from antiphon.recorder_service.journal.state import JournalState
from antiphon.recorder_service.manifest.meta import read_meta
from antiphon.recorder_service.manifest.plan import ReplayPlan, plan_replay
from antiphon.recorder_service.metrics import RecorderCounters
from antiphon.recorder_service.replay.mix import MergeStopped, StopCheck, write_replay
from antiphon.recorder_service.replay.video import write_video
from antiphon.shared_schemas.recording import (
    META_FILE,
    RECORDING_FILE,
    REPLAY_VIDEO,
    REPLAY_WAV,
    TIMELINE_FILE,
    DuplexRecording,
    Meta,
    ReplayState,
    encode_meta,
    encode_recording,
    parse_recording,
)
from antiphon.shared_schemas.states import SessionKind

log = structlog.get_logger()


def merge(folder: Path, check: StopCheck) -> Meta | None:
    """Merge what waits for it; done again, or by two at once, it gives the same files.

    `check` raises when the work is to be broken off; nothing is lost then. None where the session
    directory has gone. Raises OSError when the disk refuses; anything else that goes wrong is told
    in `meta.json`, once and for all.
    """
    meta = read_meta(folder)
    if meta is None or meta.replay is not ReplayState.MERGING:
        return meta
    error: str | None = None
    lead_ms: float | None = None
    if (folder / TIMELINE_FILE).exists():  # else another recorder has just finished with it
        lead_ms, error = _replay(folder, meta, check)
    return _announce(folder, meta, lead_ms, error)


def _replay(folder: Path, meta: Meta, check: StopCheck) -> tuple[float | None, str | None]:
    """The silence before the session, and what went wrong for good, if anything did.

    What a disk or a full machine does may be over the next time; what a recording holds stays as it is.
    """
    try:
        score = _read_score(folder, meta)
        _write(folder, meta, score, check)
    except (OSError, MergeStopped, MemoryError):  # FFmpeg's refusals of the disk are among them
        raise
    except Exception as error:
        log.exception("replay_failed", recording=meta.recording_id)
        return None, f"{type(error).__name__}: {error}"
    return round(score.lead_ms, 1) or None, None


def _read_score(folder: Path, meta: Meta) -> ReplayPlan:
    placed = in_order(all_lines(folder / TIMELINE_FILE))
    tally = JournalState.of(meta.ticket, placed)
    return plan_replay(meta.app_type, tally, placed)


def _write(folder: Path, meta: Meta, score: ReplayPlan, check: StopCheck) -> None:
    write_replay(folder, REPLAY_WAV, score, check)
    if meta.app_type is SessionKind.OMNI_DUPLEX:
        write_video(folder, REPLAY_VIDEO, REPLAY_WAV, score, check)


def _announce(folder: Path, meta: Meta, lead_ms: float | None, error: str | None) -> Meta:
    """What exists is named; what only the merge needed goes when everyone can know it.

    Not before: another recorder may just be writing the same, and would begin again.
    """
    wav = REPLAY_WAV if (folder / REPLAY_WAV).exists() else None
    video = REPLAY_VIDEO if (folder / REPLAY_VIDEO).exists() else None
    done = ReplayState.READY if wav else ReplayState.NONE
    merged = meta.model_copy(
        update={
            "replay": ReplayState.FAILED if error else done,
            "replay_error": error,
            "merged_replay": wav,
            "merged_replay_video": video,
        }
    )
    _name_in_recording(folder, wav, video, lead_ms)
    write_atomic(folder / META_FILE, encode_meta(merged), durable=True)
    remove_temporaries(folder)
    remove_working_files(folder)
    return merged


def _name_in_recording(
    folder: Path, wav: str | None, video: str | None, lead_ms: float | None
) -> None:
    recording = parse_recording((folder / RECORDING_FILE).read_bytes())
    if isinstance(recording, DuplexRecording):
        named: dict[str, object] = {"merged_replay": wav, "merged_replay_video": video}
    else:
        lead_ms = lead_ms or recording.merged_replay_lead_ms
        named = {"merged_replay": wav, "merged_replay_lead_ms": lead_ms}
    text = encode_recording(recording.model_copy(update=named))
    write_atomic(folder / RECORDING_FILE, text, durable=True)


_NICENESS = 10


class MergeQueue:
    """Merges one session after the other, with less of a claim on the processor than the rest."""

    def __init__(self, counters: RecorderCounters) -> None:
        self._counters = counters
        self._halt = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="merge", initializer=_step_back)

    async def merge(self, folder: Path) -> Meta | None:
        """Wait for the session's turn, and for its replay. Raises OSError, or MergeStopped at the end."""
        self._counters.merges_waiting += 1
        try:
            loop = asyncio.get_running_loop()
            meta = await loop.run_in_executor(self._thread, merge, folder, self._check)
        finally:
            self._counters.merges_waiting -= 1
        self._count(meta)
        return meta

    async def close(self) -> None:
        """Break off what is being merged; what waits is not begun."""
        self._halt.set()
        await asyncio.to_thread(self._thread.shutdown, wait=True, cancel_futures=True)

    def _check(self) -> None:
        if self._halt.is_set():
            raise MergeStopped

    def _count(self, meta: Meta | None) -> None:
        if meta is None:
            return
        if meta.replay is ReplayState.FAILED:
            self._counters.merges_failed += 1
        elif meta.merged_replay:
            self._counters.merges_done += 1
            self._counters.merged_seconds += meta.duration_s or 0.0


def _step_back() -> None:
    """On Linux a niceness is a thread's own."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
