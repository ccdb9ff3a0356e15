"""Records one session of 3600 units as fast as the recorder takes them, and prints the recorder's memory.

    python bench/recorder_hour.py
    python bench/recorder_hour.py --frames

The memory is that of each ten minutes, while the session is finished, and while its replay is merged.
"""

import argparse
import asyncio
import io
import json
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import uvloop
from PIL import Image

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.recording import PEAKS_FILE, TIMELINE_FILE, Meta
from antiphon.shared_schemas.states import SessionKind
from processes import private_redis, spent
from recorder_peer import (
    SILENT,
    SPEECH,
    RecorderProcess,
    WrittenSession,
    announce_worker,
    meta_of,
    wait_until_recorded,
)

UNITS = 3600
PART = UNITS // 6
AHEAD = 48
"""Entries that the feeder may be ahead of the recorder."""


class Peak:
    """The peak memory of a process since the last call of `taken`, in MiB."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._most = 0.0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while self._process.is_running():
            try:
                self._most = max(self._most, self._process.memory_info().rss / 2**20)
            except psutil.NoSuchProcess:
                return
            time.sleep(0.02)

    def taken(self) -> float:
        """Returns the peak and resets it."""
        most, self._most = self._most, 0.0
        return round(most, 1)


class Stopwatch:
    """Wall time and CPU time of the recorder since the last lap."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._at, self._used = time.monotonic(), spent(process)

    def lap(self) -> tuple[float, float]:
        """Returns both in seconds and resets them."""
        at, used = time.monotonic(), spent(self._process)
        passed = at - self._at, used - self._used
        self._at, self._used = at, used
        return passed


def camera_picture(number: int) -> bytes:
    """A JPEG of 640 by 480 with noise, as from a camera."""
    rough = np.random.default_rng(number).integers(0, 255, (48, 64, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(rough).resize((640, 480)).save(file, "JPEG", quality=80)
    return file.getvalue()


async def feed(
    session: WrittenSession, recorder: RecorderProcess, units: range, *, frames: bool
) -> None:
    """Write units as fast as the recorder takes them."""
    pictures = [(camera_picture(number),) if frames else () for number in range(20)]
    recorded = 0.0
    for unit in units:
        while 2 * unit - recorded > AHEAD:
            recorded = recorder.entries()
            await asyncio.sleep(0.005)
        await session.unit(SPEECH if unit % 4 >= 2 else SILENT, pictures[unit % len(pictures)])


async def merge_an_hour(broker: Broker, recorder: RecorderProcess, data: Path) -> None:
    """Record an hour with pictures; returns when its merge has begun."""
    session = WrittenSession(broker, 1_000_000, SessionKind.OMNI_DUPLEX)
    await session.begin()
    await feed(session, recorder, range(UNITS), frames=True)
    await session.end()
    await wait_until_recorded(data, [session], merged=False)


async def record_an_hour(
    broker: Broker, recorder: RecorderProcess, data: Path, *, frames: bool
) -> dict[str, Any]:
    """Record an hour and merge it; returns the figures."""
    await announce_worker(broker)
    session = WrittenSession(
        broker, 0, SessionKind.OMNI_DUPLEX if frames else SessionKind.AUDIO_DUPLEX
    )
    await session.begin()
    folder = data / "sessions" / session.recording
    peak, memory, watch = Peak(recorder.process), {}, Stopwatch(recorder.process)
    for done in range(0, UNITS, PART):
        await feed(session, recorder, range(done, done + PART), frames=frames)
        memory[f"after_{(done + PART) // 60}_min"] = peak.taken()
    fed_s, feeding = watch.lap()
    journal = (folder / TIMELINE_FILE).stat().st_size
    await session.end()
    await wait_until_recorded(data, [session], merged=False)
    memory["while_finishing"] = peak.taken()
    watch.lap()
    await wait_until_recorded(data, [session], merged=True)
    memory["while_merging"] = peak.taken()
    merge_s, merging = watch.lap()
    meta = meta_of(data, session)
    assert meta is not None
    return {
        "units": UNITS,
        "frames": frames,
        "fed_in_s": round(fed_s, 1),
        "recorder_cpu_ms_per_session_s": round(feeding * 1e3 / UNITS, 3),
        "peak_rss_mib": memory,
        "journal_kib": round(journal / 1024),
        "merge_s": round(merge_s, 1),
        "merge_cpu_s": round(merging, 1),
        **_outcome(folder, meta),
    }


def _outcome(folder: Path, meta: Meta) -> dict[str, Any]:
    replays = (meta.merged_replay, meta.merged_replay_opus, meta.merged_replay_video)
    names = ("recording.json", PEAKS_FILE, *replays)
    sizes = {name: (folder / name).stat().st_size for name in names if name}
    return {
        "state": meta.state,
        "replay": meta.replay,
        "chunks": meta.chunks,
        "files_mib": {name: round(size / 2**20, 1) for name, size in sizes.items()},
    }


async def measure(url: str, data: Path, *, frames: bool) -> dict[str, Any]:
    recorder = RecorderProcess(url, data)
    async with open_broker(BrokerSettings(redis_url=url)) as broker:
        report = await record_an_hour(broker, recorder, data, frames=frames)
    recorder.stop()
    return report


def main() -> None:
    """Start Redis, measure, and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", action="store_true", help="a picture a second")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, private_redis() as (url, _):
        report = uvloop.run(measure(url, Path(folder) / "data", frames=options.frames))
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
