"""Measures what a recorder keeps after a burst: memory and connections to Redis.

    python bench/recorder_burst.py --sessions 600 --at-once 200 --units 3 --idle 75

Short sessions run in waves. Afterwards the recorder is idle for `--idle` seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from pathlib import Path

import uvloop

from antiphon.broker.client import open_broker
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.states import SessionKind
from processes import private_redis
from recorder_peer import (
    SPEECH,
    RecorderProcess,
    WrittenSession,
    announce_worker,
    wait_until_recorded,
)


async def wave(sessions: list[WrittenSession], units: int, data: Path) -> None:
    for session in sessions:
        await session.begin()
    for _ in range(units):
        await asyncio.gather(*(session.unit(SPEECH) for session in sessions))
    for session in sessions:
        await session.end()
    await wait_until_recorded(data, sessions, merged=True)


async def burst(options: argparse.Namespace, url: str, data: Path) -> None:
    """Run the burst and print JSON."""
    recorder = RecorderProcess(url, data)
    readings: dict[str, dict[str, float]] = {}

    def note(name: str) -> None:
        readings[name] = {
            "rss_mib": round(recorder.process.memory_info().rss / 2**20, 1),
            "connections": len(recorder.process.net_connections("tcp")),
            "threads": recorder.process.num_threads(),
        }

    async with open_broker(BrokerSettings(redis_url=url)) as broker:
        await announce_worker(broker)
        kind = SessionKind.AUDIO_DUPLEX
        await wave([WrittenSession(broker, -1, kind)], 1, data)
        note("before")
        for first in range(0, options.sessions, options.at_once):
            numbers = range(first, min(first + options.at_once, options.sessions))
            await wave(
                [WrittenSession(broker, number, kind) for number in numbers], options.units, data
            )
        note("burst")
        await asyncio.sleep(options.idle)
        note("idle")
    recorder.stop()
    print(json.dumps(vars(options) | readings, indent=2))


def main() -> None:
    """Start Redis and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=600)
    parser.add_argument("--at-once", type=int, default=200)
    parser.add_argument("--units", type=int, default=3)
    parser.add_argument("--idle", type=float, default=75.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, private_redis() as (url, _):
        uvloop.run(burst(options, url, Path(folder) / "data"))


if __name__ == "__main__":
    main()
