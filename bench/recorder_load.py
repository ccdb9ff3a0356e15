"""Loads one recorder process with N duplex sessions: each second has a chunk and a result.

    python bench/recorder_load.py --sessions 200 --seconds 30 --speak 0.5 --pin

Two processes run beside the recorder: redis-server without persistence, and this process, which writes the
entries of edges and workers. With `--pin` the recorder has one core, and the others share the rest. The
figures are CPU times of the measured window. The lag is from the time of an entry to its write, as the
recorder counts it. After the window every session ends, and every chunk must be in its recording.
With `--merging`, an hour with pictures is merged at the same time.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import uvloop

from antiphon.broker.client import open_broker
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.recording import RecordingState
from antiphon.shared_schemas.states import SessionKind
from processes import private_redis, spent
from recorder_hour import merge_an_hour
from recorder_peer import (
    RecorderProcess,
    WrittenSession,
    announce_worker,
    meta_of,
    wait_until_recorded,
)

WARM_UP_S = 5.0


@dataclass(frozen=True)
class Reading:
    """The recorder's counters, and CPU seconds, at one moment."""

    counters: dict[str, float]
    recorder_s: float
    redis_s: float

    @classmethod
    def of(cls, recorder: RecorderProcess, server: psutil.Process) -> "Reading":
        return cls(recorder.counters(), spent(recorder.process), spent(server))


def lag_below_ms(was: dict[str, float], now: dict[str, float], share: float) -> float:
    """Upper bound (ms) of the histogram bucket that holds this share of the entries' lag."""
    wanted = share * (now["lag_seconds_count"] - was.get("lag_seconds_count", 0.0))
    for name, count in now.items():
        bound = name.removeprefix("lag_seconds_bucket")
        if bound != name and count - was.get(name, 0.0) >= wanted:
            return float(bound) * 1e3
    return float("inf")


def pin(recorder: RecorderProcess, server: psutil.Process) -> None:
    """Keep the recorder on core 0, and the others off it."""
    recorder.process.cpu_affinity([0])
    for process in (server, psutil.Process()):
        process.cpu_affinity(list(range(1, psutil.cpu_count() or 2)) or [0])


async def talk(
    sessions: list[WrittenSession],
    options: argparse.Namespace,
    recorder: RecorderProcess,
    server: psutil.Process,
) -> tuple[Reading, Reading]:
    """Run all sessions, spread over the second; returns readings before and after the measured window."""
    loop = asyncio.get_running_loop()
    first = loop.time() + 1.0
    begin, stop = first + WARM_UP_S, first + WARM_UP_S + options.seconds
    async with asyncio.TaskGroup() as talks:
        for place, session in enumerate(sessions):
            offset = place / len(sessions)
            talks.create_task(session.talk(first + offset, stop + offset, options.speak))
        await asyncio.sleep(begin - loop.time())
        before = Reading.of(recorder, server)
        await asyncio.sleep(stop - loop.time())
        return before, Reading.of(recorder, server)


def costs(options: argparse.Namespace, before: Reading, after: Reading) -> dict[str, Any]:
    """The figures of the measured window."""
    was, now = before.counters, after.counters
    busy, redis_busy = after.recorder_s - before.recorder_s, after.redis_s - before.redis_s
    session_seconds = options.seconds * options.sessions
    return {
        "merges_waiting": now["merges_waiting"],
        "recorder_cpu_ms_per_session_s": round(busy * 1e3 / session_seconds, 3),
        "recorder_core_share": round(busy / options.seconds, 3),
        "redis_cpu_ms_per_session_s": round(redis_busy * 1e3 / session_seconds, 3),
        "entries_per_s": round((now["entries_total"] - was["entries_total"]) / options.seconds, 1),
        "lag_ms_p50_below": lag_below_ms(was, now, 0.5),
        "lag_ms_p99_below": lag_below_ms(was, now, 0.99),
        "lag_ms_worst_below": lag_below_ms({}, now, 1.0),
    }


async def finish(
    sessions: list[WrittenSession], recorder: RecorderProcess, data: Path, *, merged: bool
) -> dict[str, Any]:
    """End all sessions; returns how long their recordings took, `merged` or not, and what they contain."""
    used, ended, report = spent(recorder.process), time.monotonic(), dict[str, Any]()
    for session in sessions:
        await session.end()
    await wait_until_recorded(data, sessions, merged=False)
    report["finished_s"] = round(time.monotonic() - ended, 1)
    if merged:
        await wait_until_recorded(data, sessions, merged=True)
        report["merged_s"] = round(time.monotonic() - ended, 1)
        merging = (spent(recorder.process) - used) / sum(s.units for s in sessions)
        report["merge_cpu_ms_per_session_s"] = round(merging * 1e3, 3)
    metas = [meta_of(data, session) for session in sessions]
    report["chunks_sent"] = sum(session.units for session in sessions)
    report["chunks_recorded"] = sum(meta.chunks or 0 for meta in metas if meta)
    report["incomplete"] = sum(m is None or m.state is not RecordingState.COMPLETE for m in metas)
    return report


async def load(options: argparse.Namespace, url: str, server: psutil.Process, data: Path) -> None:
    """Run the load and print JSON."""
    recorder = RecorderProcess(url, data)
    if options.pin:
        pin(recorder, server)
    async with open_broker(BrokerSettings(redis_url=url)) as broker:
        await announce_worker(broker)
        if options.merging:
            await merge_an_hour(broker, recorder, data)
        kind = SessionKind.AUDIO_DUPLEX
        sessions = [WrittenSession(broker, number, kind) for number in range(options.sessions)]
        for session in sessions:
            await session.begin()
        report = costs(options, *await talk(sessions, options, recorder, server))
        report["rss_mib"] = round(recorder.process.memory_info().rss / 2**20, 1)
        report |= await finish(sessions, recorder, data, merged=not options.merging)
    recorder.stop()
    asked = {name: getattr(options, name) for name in ("sessions", "seconds", "speak", "pin")}
    print(json.dumps(asked | report, indent=2))
    if report["incomplete"] or report["chunks_sent"] != report["chunks_recorded"]:
        sys.exit("chunks are missing in the recordings")


def main() -> None:
    """Start Redis and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--speak", type=float, default=0.5, help="share of units that speak")
    parser.add_argument("--pin", action="store_true", help="the recorder alone on core 0")
    parser.add_argument("--merging", action="store_true", help="while an hour is merged")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, private_redis() as (url, pid):
        uvloop.run(load(options, url, psutil.Process(pid), Path(folder) / "data"))


if __name__ == "__main__":
    main()
