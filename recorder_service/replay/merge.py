"""Merges a recorded session's files into its replay and names the replay in its JSON files.

`merged_replay.opus` is the merged replay as Ogg Opus, for players on slow connections.
"""

import asyncio
import os
import shutil
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import av
import structlog
from av.audio.stream import AudioStream
from av.codec.context import Flags

from antiphon.recorder_service.atomic_files import atomic_file, write_atomic
from antiphon.recorder_service.attempts import Attempts, MergeStopped
from antiphon.recorder_service.folder import remove_working_files
from antiphon.recorder_service.journal.clock_jumps import without_clock_jumps
from antiphon.recorder_service.journal.journal import read_finished_journal
from antiphon.recorder_service.journal.state import JournalState
from antiphon.recorder_service.manifest.meta import read_meta
from antiphon.recorder_service.manifest.plan import plan_replay
from antiphon.recorder_service.metrics import RecorderMetrics
from antiphon.recorder_service.replay.mix import StopCheck, read_seconds, write_replay
from antiphon.recorder_service.replay.video import write_video
from antiphon.shared_schemas.audio import OUTPUT_RATE, WaveformPeaks
from antiphon.shared_schemas.recording import (
    META_FILE,
    PEAKS_FILE,
    RECORDING_FILE,
    REPLAY_OPUS,
    REPLAY_VIDEO,
    REPLAY_WAV,
    TIMELINE_FILE,
    Meta,
    ReplayState,
    change_end,
    encode_meta,
)
from antiphon.shared_schemas.states import SessionKind

log = structlog.get_logger()

_NICENESS = 10


class MergeQueue:
    """Merges one session after the other, in a thread with a lower priority than the rest."""

    def __init__(
        self,
        metrics: RecorderMetrics,
        attempts: Attempts,
        check_disk: StopCheck,
        *,
        opus: bool = True,
    ) -> None:
        """`check_disk` raises OSError while nothing may be merged."""
        self._opus = opus
        self._metrics = metrics
        self._check_disk = check_disk
        self._attempts = attempts
        self._turn = asyncio.Lock()
        self._stopping = threading.Event()
        self._thread = ThreadPoolExecutor(
            1, thread_name_prefix="merge", initializer=_lower_priority
        )

    async def merge(self, folder: Path) -> Meta | None:
        """Wait until the session's replay is made.

        Raises OSError, TooManyAttempts, or MergeStopped after `close`.
        """
        self._metrics.merges_waiting += 1
        try:
            loop = asyncio.get_running_loop()
            async with self._turn, self._attempts.attempt(folder):
                work = partial(merge, folder, self._check, opus=self._opus)
                meta = await loop.run_in_executor(self._thread, work)
        finally:
            self._metrics.merges_waiting -= 1
        if meta is not None and meta.replay is ReplayState.FAILED:
            self._metrics.merges_failed.inc()
        elif meta is not None and meta.merged_replay:
            self._metrics.merges_done.inc()
            self._metrics.merged_seconds.inc(meta.duration_s or 0.0)
        return meta

    async def close(self) -> None:
        """Stop the merge in progress and drop those that wait."""
        self._stopping.set()
        await asyncio.to_thread(self._thread.shutdown, wait=True, cancel_futures=True)

    def _check(self) -> None:
        if self._stopping.is_set():
            raise MergeStopped
        self._check_disk()


def _lower_priority() -> None:
    """Only on Linux a niceness belongs to a thread."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)


def merge(folder: Path, check: StopCheck, *, opus: bool = True) -> Meta | None:
    """Merge a session's replay if it is not merged yet, with a copy in Opus. Blocks on the disk.

    A second call, or a call by two recorders at once, gives the same files. `check` raises to stop
    the work; nothing is lost then. Returns None when the session directory is gone. Raises OSError
    when the disk refuses; `meta.json` names any other error, and there is no second attempt.
    """
    meta = read_meta(folder)
    if meta is None or meta.replay is not ReplayState.MERGING:
        return meta
    error: str | None = None
    lead_ms: float | None = None
    if (folder / TIMELINE_FILE).exists():  # else another recorder has just merged it
        lead_ms, error = _write_replay(folder, meta, check, opus=opus)
    return _name_replay(folder, meta, lead_ms, error)


def _write_replay(
    folder: Path, meta: Meta, check: StopCheck, *, opus: bool
) -> tuple[float | None, str | None]:
    """The milliseconds before the session, and the permanent error, if any.

    A failing disk or a full memory may recover, so those errors are raised for a retry. Anything
    else depends on the recording's files, which stay the same.
    """
    try:
        contents = without_clock_jumps(read_finished_journal(folder / TIMELINE_FILE))
        plan = plan_replay(meta.app_type, JournalState.of(meta.ticket, contents), contents)
        write_replay(folder, plan, check)
        with (folder / REPLAY_WAV).open("rb") as wav:
            write_atomic(folder / PEAKS_FILE, WaveformPeaks.of_wav(wav).encode(), durable=True)
        if opus:
            write_opus(folder, check)
        if meta.app_type is SessionKind.OMNI_DUPLEX:
            write_video(folder, plan, check)
    except (OSError, MergeStopped, MemoryError):  # FFmpeg reports a refusing disk as OSError
        raise
    except Exception as error:
        log.exception("replay_failed", recording=meta.recording_id)
        return None, f"{type(error).__name__}: {error}"
    return round(plan.lead_ms, 1) or None, None


def _name_replay(folder: Path, meta: Meta, lead_ms: float | None, error: str | None) -> Meta:
    """Name the replay in both JSON files, then delete the working files.

    Not before: a recorder that merges the same session needs them until the meta names the replay.
    """
    names = (REPLAY_WAV, REPLAY_VIDEO, REPLAY_OPUS)
    wav, video, opus = (name if (folder / name).exists() else None for name in names)
    done = ReplayState.READY if wav else ReplayState.NONE
    merged = meta.model_copy(
        update={
            "replay": ReplayState.FAILED if error else done,
            "replay_error": error,
            "merged_replay": wav,
            "merged_replay_video": video,
            "merged_replay_opus": opus,
        }
    )
    _name_in_recording(folder, wav, video, lead_ms)
    write_atomic(folder / META_FILE, encode_meta(merged), durable=True)
    remove_working_files(folder)
    return merged


def _name_in_recording(
    folder: Path, wav: str | None, video: str | None, lead_ms: float | None
) -> None:
    """Copy the file with other fields at its end: it may be too long to read at once."""

    def named(before: dict[str, Any]) -> dict[str, Any]:
        lead = lead_ms or before.get("merged_replay_lead_ms")
        return {
            "merged_replay": wav,
            "merged_replay_video": video,
            "merged_replay_lead_ms": lead,
        }

    path = folder / RECORDING_FILE
    with atomic_file(path) as temporary, path.open("rb") as old, temporary.open("x+b") as new:
        shutil.copyfileobj(old, new)
        change_end(new, named)


BIT_RATE = 32_000
"""A minute takes at most 250 kB."""

_OPTIONS = {"compression_level": "2"}
"""Of 10. Level 5 takes a third more CPU time for the same spectrum, level 10 five times as much."""


def write_opus(folder: Path, check: StopCheck) -> None:
    """Write `merged_replay.opus` from the finished WAV, whole or not at all.

    The same WAV gives the same bytes: `bitexact` replaces the
    random serial number of an Ogg stream. Raises OSError, also for failures of FFmpeg.
    """
    with (
        atomic_file(folder / REPLAY_OPUS) as temporary,
        av.open(str(temporary), "w", format="ogg", options={"fflags": "+bitexact"}) as container,
    ):
        stream: AudioStream = container.add_stream("libopus", rate=OUTPUT_RATE, layout="stereo")
        stream.bit_rate = BIT_RATE
        stream.codec_context.flags |= Flags.bitexact
        stream.codec_context.options = _OPTIONS
        for frame in read_seconds(folder / REPLAY_WAV, for_opus=True):
            check()
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
