"""Recorders with short intervals for tests, in this process or in one that can be killed."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO

from antiphon.broker.settings import BrokerSettings
from antiphon.recorder_service.metrics import RecorderMetrics
from antiphon.recorder_service.service import run
from antiphon.recorder_service.settings import RecorderSettings
from support.constants import variables
from support.fork_server import ForkedProcess, fork_server

QUICK = {
    "recorder_health_port": 0,
    "recorder_upkeep_s": 0.1,
    "recorder_silence_s": 0.6,
    "recorder_settle_s": 0.2,
    "recorder_look_s": 0.3,
    "recorder_retry_s": 0.1,
}


def quick(settings: BrokerSettings, data_dir: Path, **more: float) -> RecorderSettings:
    """Settings with short intervals."""
    return RecorderSettings(**settings.model_dump(), data_dir=data_dir, **{**QUICK, **more})


def environment(settings: RecorderSettings) -> dict[str, str]:
    return variables(settings.model_dump(exclude_none=True))


@asynccontextmanager
async def process(
    settings: RecorderSettings, log: list[str] | None = None
) -> AsyncIterator[ForkedProcess]:
    """A recorder in its own process; kills it at the end if it still runs.

    `log` gets the lines of its log. They come through a pipe, which no limit of file sizes concerns.
    """
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        try:
            child = await asyncio.to_thread(
                fork_server().start,
                "antiphon.recorder_service.__main__",
                folder=Path.cwd(),
                environment={**os.environ, **environment(settings)},
                output=Path(f"/proc/{os.getpid()}/fd/{writing}"),
            )
            collecting = asyncio.create_task(_collect(pipe, [] if log is None else log))
            try:
                yield child
            finally:
                child.kill()
                await ended(child)
        finally:
            os.close(writing)
        await collecting


async def ended(child: ForkedProcess) -> int:
    """Waits for the end of the process and returns its exit status."""
    return await asyncio.to_thread(child.wait, timeout=60)


async def _collect(pipe: BinaryIO, lines: list[str]) -> None:
    loop, stream = asyncio.get_running_loop(), asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), pipe)
    while line := await stream.readline():
        lines.append(line.decode())
    transport.close()


def count(metrics: RecorderMetrics, name: str, **labels: str) -> float:
    """One sample of a recorder's metrics."""
    value = metrics.registry.get_sample_value(f"antiphon_recorder_{name}", labels)
    assert value is not None, name
    return value


@asynccontextmanager
async def in_process(
    settings: RecorderSettings, metrics: RecorderMetrics | None = None
) -> AsyncIterator[asyncio.Event]:
    """A recorder in this process; setting the event stops it early."""
    stop = asyncio.Event()
    task = asyncio.create_task(run(settings, stop, metrics))
    try:
        yield stop
    finally:
        stop.set()
        await task
