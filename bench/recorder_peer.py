"""A recorder process, and sessions that are written to Redis in place of edges and workers."""

import asyncio
import atexit
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import psutil
import uvloop
from prometheus_client import CollectorRegistry

from antiphon.broker.client import Broker
from antiphon.broker.retry import retry_until_available
from antiphon.broker.service.logs import configure_logging
from antiphon.cli.stack.processes import huge_pages
from antiphon.recorder_service.metrics import RecorderMetrics
from antiphon.recorder_service.service import run
from antiphon.recorder_service.settings import RecorderSettings
from antiphon.shared_schemas.audio import float_bytes
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.entries import ChunkIn, PreparedOut, PrepareIn, ResultOut
from antiphon.shared_schemas.ids import new_recording_id
from antiphon.shared_schemas.recording import META_FILE, Meta, RecordingState, parse_meta
from antiphon.shared_schemas.registry import WorkerReport
from antiphon.shared_schemas.states import EndReason, SessionKind, WorkerState
from antiphon.shared_schemas.unit_result import UnitResult
from processes import ROOT

_DICE = np.random.default_rng(1)
_USER_AUDIO = float_bytes(_DICE.uniform(-0.5, 0.5, 16_000).astype(np.float32))
SPEECH = UnitResult(
    is_listen=False,
    text="one second of speech",
    audio=_DICE.uniform(-0.5, 0.5, 24_000).astype(np.float32),
    n_tokens=12,
)
SILENT = UnitResult(is_listen=True)


class RecorderProcess:
    """Runs this file as a recorder, which answers questions about its counters."""

    def __init__(self, redis_url: str, data_dir: Path) -> None:
        settings = {"ANTIPHON_REDIS_URL": redis_url, "ANTIPHON_DATA_DIR": str(data_dir)}
        self._child = subprocess.Popen(
            [sys.executable, __file__],
            cwd=ROOT,
            env={
                **os.environ,
                **huge_pages(),
                **settings,
                "PYTHONPATH": str(ROOT),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        atexit.register(self._child.kill)  # also after an error
        self.process = psutil.Process(self._child.pid)

    def counters(self) -> dict[str, float]:
        """All of them."""
        return self._ask("all")

    def entries(self) -> float:
        """How many entries it has written: costs it much less than `counters`."""
        return self._ask("entries")["entries_total"]

    def _ask(self, question: str) -> dict[str, float]:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(f"{question}\n")
        self._child.stdin.flush()
        counted: dict[str, float] = json.loads(self._child.stdout.readline())
        return counted

    def stop(self) -> None:
        self._child.send_signal(signal.SIGTERM)
        self._child.wait(timeout=30)


class WrittenSession:
    """One session, written to Redis as its edge and its worker write it."""

    def __init__(self, broker: Broker, number: int, kind: SessionKind) -> None:
        self._broker = broker
        self._sid = f"bench_{number}"
        self._kind = kind
        self.recording = new_recording_id()
        self._ticket = 0
        self.units = 0

    async def begin(self) -> None:
        """Queue, claim and prepare it."""
        broker, kind = self._broker, self._kind
        ticket = await broker.queue.join(self._sid, kind, edge="bench", recording=self.recording)
        claim = await broker.leases.claim("bench")
        assert claim is not None
        self._ticket = ticket.number
        self._input = await broker.streams.input_writer(self._sid, ticket.number)
        self._output = await broker.streams.output_writer(self._sid, ticket.number, claim.epoch)
        await self._input.append(PrepareIn(system_prompt="Be brief.", config=DuplexConfig()))
        await self._output.append(PreparedOut(input_n=1, prompt_length=12))

    async def unit(self, result: UnitResult, frames: tuple[bytes, ...] = ()) -> None:
        """Write a chunk and its result."""
        chunk = ChunkIn(audio=_USER_AUDIO, frames=frames)
        position = await retry_until_available(lambda: self._input.append(chunk), "append")
        times = {"received_at": 0.0, "read_at": 0.0, "prefill_ms": 30.0, "wall_clock_ms": 80.0}
        out = ResultOut.of(result, input_n=position.n, **times)
        await retry_until_available(lambda: self._output.append(out), "append")
        self.units += 1

    async def talk(self, start: float, stop: float, speak: float) -> None:
        """Write a unit each second."""
        loop = asyncio.get_running_loop()
        dice, due = np.random.default_rng(self._ticket), start
        while due < stop:
            await asyncio.sleep(due - loop.time())
            await self.unit(SPEECH if dice.random() < speak else SILENT)
            due += 1.0

    async def end(self) -> None:
        await self._broker.sessions.end(self._sid, EndReason.STOPPED, ticket=self._ticket)


async def announce_worker(broker: Broker) -> None:
    """Register a worker, in whose name the sessions are claimed."""
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
    await broker.registry.worker_beat("bench", report)


def meta_of(data_dir: Path, session: WrittenSession) -> Meta | None:
    """The `meta.json` of its recording; None before it exists."""
    path = data_dir / "sessions" / session.recording / META_FILE
    return parse_meta(path.read_bytes()) if path.exists() else None


async def wait_until_recorded(
    data_dir: Path, sessions: list[WrittenSession], *, merged: bool
) -> None:
    """Return when all recordings are complete on disk, and `merged`."""

    def done(session: WrittenSession) -> bool:
        meta = meta_of(data_dir, session)
        if meta is None or meta.state is RecordingState.RECORDING:
            return False
        return not (merged and meta.is_busy)

    while not all(done(session) for session in sessions):  # noqa: ASYNC110 - the disk has no notification
        await asyncio.sleep(0.2)


def answer_to(question: str, metrics: RecorderMetrics) -> dict[str, float]:
    """The value of each sample, by its name without the common prefix and its labels."""
    asked = metrics.entries if question == "entries" else metrics.registry
    return {
        sample.name.removeprefix("antiphon_recorder_")
        + "".join(sample.labels.values()): sample.value
        for family in asked.collect()
        for sample in family.samples
    }


def run_recorder() -> None:
    """Record until SIGTERM; answer every line on stdin."""
    configure_logging("recorder")
    metrics = RecorderMetrics(CollectorRegistry())

    def answer() -> None:
        for line in sys.stdin:
            print(json.dumps(answer_to(line.strip(), metrics)), flush=True)

    threading.Thread(target=answer, daemon=True).start()
    uvloop.run(run(RecorderSettings(recorder_adopt_s=5.0), metrics=metrics))


if __name__ == "__main__":
    run_recorder()
