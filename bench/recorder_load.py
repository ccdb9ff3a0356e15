"""Loads one recorder process: N duplex sessions of a second's chunk and a result each, on a real Redis.

    python bench/recorder_load.py --sessions 200 --seconds 30 --speak 0.5 --pin
    python bench/recorder_load.py --hour

Beside the recorder stand redis-server (no persistence) and this process, which writes what edges and
workers would. With `--pin` the recorder has a core to itself and the others share the rest. CPU is
process time over the measured window; the lag is from an entry's stamp to its being on disk, as the
recorder counts it. After the window every session ends, and every chunk must be in its recording.

With `--merging`, an hour with pictures is merged meanwhile.

`--hour`: one session of 3600 units as fast as the recorder takes them, with its memory on the way,
while it is finished, and while its replay is merged.
"""

from __future__ import annotations

import argparse
import asyncio
import atexit
import dataclasses
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import uvloop
from PIL import Image

from broker.client import Broker, open_broker
from broker.embedded import find_redis_server, free_port
from broker.logs import configure_logging
from broker.registry import WorkerReport
from broker.retry import persist
from broker.settings import BrokerSettings
from recorder_service.counters import LAG_BOUNDS_MS, RecorderCounters
from recorder_service.service import run
from recorder_service.settings import RecorderSettings
from shared_schemas.audio import float_bytes
from shared_schemas.config import DuplexConfig
from shared_schemas.ids import new_recording_id
from shared_schemas.recording import META_FILE, TIMELINE_FILE, Meta, RecordingState, parse_meta
from shared_schemas.states import EndReason, SessionKind, WorkerState
from shared_schemas.stream_entries import ChunkIn, PreparedOut, PrepareIn, ResultOut
from shared_schemas.unit_result import UnitResult

ROOT = Path(__file__).parents[1]
WARM_UP_S = 5.0
HOUR_UNITS = 3600
AHEAD = 48
"""Entries that the hour's feeder may be ahead of the recorder."""

DICE = np.random.default_rng(1)
HEARD = float_bytes(DICE.uniform(-0.5, 0.5, 16_000).astype(np.float32))
SPEECH = UnitResult(
    is_listen=False,
    text="one second of speech",
    audio=DICE.uniform(-0.5, 0.5, 24_000).astype(np.float32),
    n_tokens=12,
)
SILENT = UnitResult(is_listen=True)


# --- the recorder's part ------------------------------------------------------------------------


def be_recorder() -> None:
    """Record until SIGTERM; print the counters for every line on stdin."""
    configure_logging("recorder")
    counters = RecorderCounters()

    def answer() -> None:
        for _ in sys.stdin:
            print(json.dumps(dataclasses.asdict(counters)), flush=True)

    threading.Thread(target=answer, daemon=True).start()
    asyncio.run(run(RecorderSettings(), counters=counters))


class Recorder:
    """A recorder in a process of its own."""

    def __init__(self, redis_url: str, data_dir: Path) -> None:
        told = {"ANTIPHON_REDIS_URL": redis_url, "ANTIPHON_DATA_DIR": str(data_dir)}
        self._child = subprocess.Popen(
            [sys.executable, __file__, "--be-recorder"],
            cwd=ROOT,
            env={**os.environ, **told, "ANTIPHON_RECORDER_ADOPT_S": "5"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        atexit.register(self._child.kill)  # whatever happens here
        self.process = psutil.Process(self._child.pid)

    def counters(self) -> dict[str, Any]:
        """What it has counted."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write("\n")
        self._child.stdin.flush()
        counted: dict[str, Any] = json.loads(self._child.stdout.readline())
        return counted

    def stop(self) -> None:
        """In order."""
        self._child.send_signal(signal.SIGTERM)
        self._child.wait(timeout=30)


@contextmanager
def redis(folder: Path) -> Iterator[tuple[str, psutil.Process]]:
    """A private Redis without persistence."""
    port = free_port()
    options = ("--port", str(port), "--save", "", "--dir", str(folder), "--daemonize", "no")
    child = subprocess.Popen([str(find_redis_server().path), *options], stdout=subprocess.DEVNULL)
    time.sleep(0.5)
    try:
        yield f"redis://127.0.0.1:{port}/0", psutil.Process(child.pid)
    finally:
        child.terminate()
        child.wait(timeout=15)


# --- the sessions' part -------------------------------------------------------------------------


class Session:
    """One conversation, written as its edge and its worker would."""

    def __init__(self, broker: Broker, number: int, kind: SessionKind) -> None:
        self._broker = broker
        self._sid = f"bench_{number}"
        self._kind = kind
        self.recording = new_recording_id()
        self._ticket = 0
        self.units = 0

    async def begin(self) -> None:
        """Queued, claimed, prepared."""
        broker, kind = self._broker, self._kind
        ticket = await broker.queue.join(
            self._sid, kind, edge="bench", recording=self.recording, summary={}
        )
        claim = await broker.leases.claim("bench")
        assert claim is not None
        self._ticket = ticket.number
        self._into = await broker.streams.input_writer(self._sid, ticket.number)
        self._out = await broker.streams.output_writer(self._sid, ticket.number, claim.epoch)
        await self._into.append(PrepareIn(system_prompt="Be brief.", config=DuplexConfig()))
        await self._out.append(PreparedOut(input_n=1, prompt_length=12))

    async def unit(self, result: UnitResult, frames: tuple[bytes, ...] = ()) -> None:
        """A chunk and what the model makes of it."""
        chunk = ChunkIn(audio=HEARD, frames=frames)
        position = await persist(lambda: self._into.append(chunk), "append")
        times = {"received_at": 0.0, "read_at": 0.0, "prefill_ms": 30.0, "wall_clock_ms": 80.0}
        out = ResultOut.of(result, input_n=position.n, **times)
        await persist(lambda: self._out.append(out), "append")
        self.units += 1

    async def talk(self, start: float, stop: float, speak: float) -> None:
        """A unit a second."""
        loop = asyncio.get_running_loop()
        dice, due = np.random.default_rng(self._ticket), start
        while due < stop:
            await asyncio.sleep(due - loop.time())
            await self.unit(SPEECH if dice.random() < speak else SILENT)
            due += 1.0

    async def end(self) -> None:
        """Stopped."""
        await self._broker.sessions.end(self._sid, EndReason.STOPPED, ticket=self._ticket)


async def announce_worker(broker: Broker) -> None:
    """Someone to claim for."""
    report = WorkerReport(
        engine="bench",
        model="none",
        kinds=frozenset(SessionKind),
        slots=100_000,
        state=WorkerState.IDLE,
        device="cpu",
        address="",
        open=True,
    )
    await broker.registry.worker_beat("bench", 0, report)


def meta_of(data_dir: Path, session: Session) -> Meta | None:
    """How far its recording has come."""
    path = data_dir / "sessions" / session.recording / META_FILE
    return parse_meta(path.read_bytes()) if path.exists() else None


async def until_recorded(data_dir: Path, sessions: list[Session], *, merged: bool) -> None:
    """All of them whole on disk."""

    def done(session: Session) -> bool:
        meta = meta_of(data_dir, session)
        if meta is None or meta.state is RecordingState.RECORDING:
            return False
        return not (merged and meta.is_busy)

    while not all(done(session) for session in sessions):  # noqa: ASYNC110 - the disk tells nobody
        await asyncio.sleep(0.2)


# --- the runs -----------------------------------------------------------------------------------


def spent(process: psutil.Process) -> float:
    """Seconds of processor time."""
    times = process.cpu_times()
    return float(times.user + times.system)


def percentile(counts: list[int], share: float) -> float:
    """Upper bound (ms) of the class in which this share of the entries lies, at most."""
    wanted, seen = share * sum(counts), 0
    for bound, count in zip((*LAG_BOUNDS_MS, float("inf")), counts, strict=True):
        seen += count
        if seen >= wanted:
            return bound
    return float("inf")


async def load(told: argparse.Namespace, url: str, server: psutil.Process, data: Path) -> None:
    """N paced sessions."""
    recorder = Recorder(url, data)
    if told.pin:
        recorder.process.cpu_affinity([0])
        for process in (server, psutil.Process()):
            process.cpu_affinity(list(range(1, psutil.cpu_count() or 2)) or [0])
    async with open_broker(BrokerSettings(redis_url=url)) as broker:
        await announce_worker(broker)
        kind = SessionKind.AUDIO_DUPLEX
        if told.merging:
            await merge_an_hour(broker, recorder, data)
        sessions = [Session(broker, number, kind) for number in range(told.sessions)]
        for session in sessions:
            await session.begin()
        loop = asyncio.get_running_loop()
        first = loop.time() + 1.0
        begin, stop = first + WARM_UP_S, first + WARM_UP_S + told.seconds
        async with asyncio.TaskGroup() as talks:
            for place, session in enumerate(sessions):
                offset = place / len(sessions)
                talks.create_task(session.talk(first + offset, stop + offset, told.speak))
            await asyncio.sleep(begin - loop.time())
            before, used, redis_used = recorder.counters(), spent(recorder.process), spent(server)
            await asyncio.sleep(stop - loop.time())
            after, busy = recorder.counters(), spent(recorder.process) - used
            redis_busy = spent(server) - redis_used
        lag = [b - a for a, b in zip(before["lag"]["counts"], after["lag"]["counts"], strict=True)]
        report: dict[str, Any] = {
            "sessions": told.sessions,
            "seconds": told.seconds,
            "speak": told.speak,
            "pinned": told.pin,
            "merges_meanwhile": after["merges_waiting"],
            "recorder_cpu_ms_per_session_s": round(busy * 1e3 / told.seconds / told.sessions, 3),
            "recorder_core_share": round(busy / told.seconds, 3),
            "redis_cpu_ms_per_session_s": round(redis_busy * 1e3 / told.seconds / told.sessions, 3),
            "entries_per_s": round((after["entries"] - before["entries"]) / told.seconds, 1),
            "lag_ms_p50_below": percentile(lag, 0.5),
            "lag_ms_p99_below": percentile(lag, 0.99),
            "lag_ms_worst": round(after["lag"]["worst_ms"], 1),
            "rss_mib": round(recorder.process.memory_info().rss / 2**20, 1),
        }
        used, ended = spent(recorder.process), time.monotonic()
        for session in sessions:
            await session.end()
        await until_recorded(data, sessions, merged=False)
        report["finished_s"] = round(time.monotonic() - ended, 1)
        if not told.merging:
            await until_recorded(data, sessions, merged=True)
            report["merged_s"] = round(time.monotonic() - ended, 1)
            merging = (spent(recorder.process) - used) / sum(s.units for s in sessions)
            report["merge_cpu_ms_per_session_s"] = round(merging * 1e3, 3)
        metas = [meta_of(data, session) for session in sessions]
        report["chunks_sent"] = sum(session.units for session in sessions)
        report["chunks_recorded"] = sum(meta.chunks or 0 for meta in metas if meta)
        report["incomplete"] = sum(
            m is None or m.state is not RecordingState.COMPLETE for m in metas
        )
    recorder.stop()
    print(json.dumps(report, indent=2))
    if report["incomplete"] or report["chunks_sent"] != report["chunks_recorded"]:
        sys.exit("something was lost")


class Peak:
    """The most memory a process had since it was last asked (MiB)."""

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
        """And begin anew."""
        most, self._most = self._most, 0.0
        return round(most, 1)


def frame(number: int) -> bytes:
    """A camera's picture: 640 by 480, with some noise in it."""
    rough = np.random.default_rng(number).integers(0, 255, (48, 64, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(rough).resize((640, 480)).save(file, "JPEG", quality=80)
    return file.getvalue()


async def feed(session: Session, recorder: Recorder, units: range, *, frames: bool) -> None:
    """As fast as the recorder takes them."""
    pictures = [(frame(number),) if frames else () for number in range(20)]
    for unit in units:
        while 2 * unit - recorder.counters()["entries"] > AHEAD:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        await session.unit(SPEECH if unit % 4 >= 2 else SILENT, pictures[unit % len(pictures)])


async def merge_an_hour(broker: Broker, recorder: Recorder, data: Path) -> None:
    """Returns when that has begun."""
    session = Session(broker, 1_000_000, SessionKind.OMNI_DUPLEX)
    await session.begin()
    await feed(session, recorder, range(HOUR_UNITS), frames=True)
    await session.end()
    await until_recorded(data, [session], merged=False)


async def hour(told: argparse.Namespace, url: str, data: Path) -> None:
    """One long session, in a hurry."""
    recorder = Recorder(url, data)
    kind = SessionKind.OMNI_DUPLEX if told.frames else SessionKind.AUDIO_DUPLEX
    async with open_broker(BrokerSettings(redis_url=url)) as broker:
        await announce_worker(broker)
        session = Session(broker, 0, kind)
        await session.begin()
        journal = data / "sessions" / session.recording / TIMELINE_FILE
        peak, memory, began = Peak(recorder.process), {}, time.monotonic()
        used = spent(recorder.process)
        part = HOUR_UNITS // 6
        for done in range(0, HOUR_UNITS, part):
            await feed(session, recorder, range(done, done + part), frames=told.frames)
            memory[f"after_{(done + part) // 60}_min"] = peak.taken()
        fed, journal_kib = time.monotonic() - began, round(journal.stat().st_size / 1024)
        feeding = spent(recorder.process) - used
        await session.end()
        await until_recorded(data, [session], merged=False)
        memory["while_finishing"], ended, used = (
            peak.taken(),
            time.monotonic(),
            spent(recorder.process),
        )
        await until_recorded(data, [session], merged=True)
        memory["while_merging"] = peak.taken()
        meta = meta_of(data, session)
        assert meta is not None
        folder = journal.parent
        report = {
            "units": HOUR_UNITS,
            "frames": bool(told.frames),
            "fed_in_s": round(fed, 1),
            "recorder_cpu_ms_per_session_s": round(feeding * 1e3 / HOUR_UNITS, 3),
            "peak_rss_mib": memory,
            "journal_kib": journal_kib,
            "merge_s": round(time.monotonic() - ended, 1),
            "merge_cpu_s": round(spent(recorder.process) - used, 1),
            "state": meta.state,
            "replay": meta.replay,
            "chunks": meta.chunks,
            "files_mib": {
                name: round((folder / name).stat().st_size / 2**20, 1)
                for name in ("recording.json", meta.merged_replay, meta.merged_replay_video)
                if name
            },
        }
    recorder.stop()
    print(json.dumps(report, indent=2))


def main() -> None:
    """Start everything, measure, print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--speak", type=float, default=0.5, help="share of units that speak")
    parser.add_argument("--pin", action="store_true", help="the recorder alone on core 0")
    parser.add_argument("--merging", action="store_true", help="while an hour is merged")
    parser.add_argument("--hour", action="store_true", help="one session of 3600 units")
    parser.add_argument("--frames", action="store_true", help="with --hour: a picture a second")
    parser.add_argument("--be-recorder", action="store_true", help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.be_recorder:
        be_recorder()
        return
    with tempfile.TemporaryDirectory() as folder, redis(Path(folder)) as (url, server):
        data = Path(folder) / "data"
        uvloop.run(hour(told, url, data) if told.hour else load(told, url, server, data))


if __name__ == "__main__":
    main()
