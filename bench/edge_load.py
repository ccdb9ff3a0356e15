"""Loads one edge process: N sessions that send a second of audio a second and get one back.

    python bench/edge_load.py --sessions 100 --seconds 15 --form text

`--form` is how sound travels: base64 in JSON text, or as float32 (`f32`) or 16-bit (`s16`) samples in
binary frames. The bytes are those of the WebSocket messages, without the 6 to 14 of each frame's head.

Three processes stand beside the edge: redis-server (no persistence), a peer that plays the worker
and answers each chunk at once with a second of speech, and this one, which plays the clients. CPU is
process time of the edge and of Redis over the measured window; the latency is from a client's send
to the whole result in its hands, so it contains the peer's and the client's own share.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import uvloop
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from broker.client import Broker, open_broker
from broker.embedded import find_redis_server
from broker.registry import WorkerReport
from broker.settings import BrokerSettings
from shared_schemas.audio import PcmFormat, float_bytes, to_pcm16
from shared_schemas.binary_frames import BINARY_PROTOCOL, to_frame, to_text
from shared_schemas.media import Raw
from shared_schemas.registry import Claim
from shared_schemas.states import EndReason, SessionKind, SessionState, WorkerState
from shared_schemas.stream_entries import (
    ChunkIn,
    PreparedOut,
    PrepareIn,
    ResultOut,
    StopIn,
    StoppedOut,
    StreamPosition,
)
from shared_schemas.unit_result import UnitResult

ROOT = Path(__file__).parents[1]
WARM_UP_S = 3.0
GRACE_S = 3.0
PEER = "bench-peer"
KINDS = frozenset({SessionKind.AUDIO_DUPLEX})


# --- the worker's part ---------------------------------------------------------------------------


async def play_worker(settings: BrokerSettings, slots: int) -> None:
    """Claim everything and answer every chunk at once, until killed."""
    async with open_broker(settings) as broker, asyncio.TaskGroup() as tasks:
        held: dict[str, int] = {}
        await _beat(broker, slots, held)
        tasks.create_task(_keep_up(broker, slots, held))
        while True:
            claim = await broker.leases.claim(PEER)
            if claim is None:
                await asyncio.sleep(0.02)
            else:
                held[claim.sid] = claim.epoch
                tasks.create_task(_serve(broker, claim, held))


async def _keep_up(broker: Broker, slots: int, held: dict[str, int]) -> None:
    while True:
        await asyncio.sleep(1.0)
        await _beat(broker, slots, held)
        for sid in await broker.leases.renew(PEER, held):
            held.pop(sid, None)


async def _beat(broker: Broker, slots: int, held: dict[str, int]) -> None:
    report = WorkerReport(
        engine=PEER,
        model="none",
        kinds=KINDS,
        slots=slots,
        state=WorkerState.DUPLEX_ACTIVE,
        device="cpu",
        address="",
        open=True,
    )
    await broker.registry.worker_beat(PEER, len(held), report)


SPEECH = UnitResult(
    is_listen=False,
    text="one second of speech",
    audio=np.random.default_rng(1).uniform(-0.5, 0.5, 24_000).astype(np.float32),
    n_tokens=12,
)


async def _serve(broker: Broker, claim: Claim, held: dict[str, int]) -> None:
    writer = await broker.streams.output_writer(claim.sid, claim.ticket, claim.epoch)
    start = StreamPosition.before(claim.ticket)
    async with broker.reader.subscribe(broker.keys.inbound(claim.sid), start) as inputs:
        async for position, entry in inputs:
            match entry:
                case PrepareIn():
                    await broker.leases.move(claim.sid, PEER, claim.epoch, SessionState.PREPARING)
                    await writer.append(PreparedOut(input_n=position.n, prompt_length=1))
                    await broker.leases.move(claim.sid, PEER, claim.epoch, SessionState.ACTIVE)
                case ChunkIn(at=at):
                    read_at = broker.clock.now_ms()
                    await writer.append(_answer(position.n, at, read_at))
                case StopIn():
                    await writer.append(StoppedOut())
                    break
    held.pop(claim.sid, None)
    await broker.sessions.end(claim.sid, EndReason.STOPPED, ticket=claim.ticket)


def _answer(n: int, received_at: float, read_at: float) -> ResultOut:
    return ResultOut.of(
        SPEECH,
        input_n=n,
        received_at=received_at,
        read_at=read_at,
        prefill_ms=0.0,
        wall_clock_ms=0.0,
    )


# --- the clients' part ---------------------------------------------------------------------------


@dataclass
class Tally:
    """What all clients saw in the measured window."""

    measuring: bool = False
    sent: int = 0
    received: int = 0
    late_ms: list[float] = field(default_factory=list)
    bytes_up: int = 0
    bytes_down: int = 0


@dataclass(frozen=True)
class Form:
    """How sound travels: a second of it as one message, and what the connection asks for."""

    chunk: str | bytes
    subprotocols: list[Subprotocol] | None = None
    query: str = ""

    @classmethod
    def of(cls, name: str) -> Form:
        """`text`, `f32` or `s16`."""
        sound = np.random.default_rng(2).uniform(-0.5, 0.5, 16_000).astype(np.float32)
        if name == "text":
            return cls(to_text({"type": "audio_chunk", "audio": Raw(float_bytes(sound))}))
        pcm = PcmFormat(name)
        data = float_bytes(sound) if pcm is PcmFormat.F32 else to_pcm16(sound).tobytes()
        chunk = to_frame({"type": "audio_chunk", "audio": Raw(data, pcm)})
        return cls(chunk, [Subprotocol(BINARY_PROTOCOL)], f"?pcm={pcm}")


async def _until(socket_: ClientConnection, type_: str) -> None:
    while json.loads(await socket_.recv())["type"] != type_:
        pass


async def converse(
    url: str, form: Form, number: int, tally: Tally, start_at: float, stop_at: float
) -> None:
    """One client: a chunk each second at its own phase of the second."""
    loop = asyncio.get_running_loop()
    address = f"{url}/ws/duplex/adx_bench_{number}{form.query}"
    async with connect(
        address, compression=None, max_size=None, subprotocols=form.subprotocols
    ) as socket_:
        await _until(socket_, "queue_done")
        await socket_.send('{"type":"prepare"}')
        await _until(socket_, "prepared")
        pending: list[tuple[float, bool]] = []
        reading = asyncio.create_task(_read(socket_, pending, tally))
        due = start_at + (number * 0.61803) % 1.0
        while due < stop_at:
            await asyncio.sleep(due - loop.time())
            pending.append((time.perf_counter(), tally.measuring))
            tally.sent += tally.measuring
            tally.bytes_up += len(form.chunk) * tally.measuring
            await socket_.send(form.chunk)
            due += 1.0
        await asyncio.sleep(GRACE_S)
        reading.cancel()
        await socket_.send('{"type":"stop"}')


async def _read(socket_: ClientConnection, pending: list[tuple[float, bool]], tally: Tally) -> None:
    async for message in socket_:
        head = message[:40] if isinstance(message, str) else message[4:44].decode()
        if '"result"' in head:
            sent_at, counted = pending.pop(0)
            if counted:
                tally.received += 1
                tally.bytes_down += len(message)
                tally.late_ms.append((time.perf_counter() - sent_at) * 1000)
        elif '"error"' in head:
            raise RuntimeError(message)


# --- the run -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cpu:
    """Process time (s) of the edge and of Redis, and resident memory (MiB) of the edge."""

    edge: float
    redis: float
    edge_rss: float

    @classmethod
    def of(cls, edge: int, redis: int) -> Cpu:
        """What the two processes have used up to now."""

        def spent(pid: int) -> float:
            times = psutil.Process(pid).cpu_times()
            return float(times.user + times.system)

        rss = psutil.Process(edge).memory_info().rss / 2**20
        return cls(spent(edge), spent(redis), rss)


async def measure(
    url: str, form: str, sessions: int, seconds: float, pids: tuple[int, int]
) -> dict[str, Any]:
    """Connect everyone, warm up, measure; `pids` are the edge's and Redis's."""
    loop = asyncio.get_running_loop()
    ramp_s = 0.5 + sessions * 0.02
    tally = Tally()
    start_at = loop.time() + ramp_s
    measure_at = start_at + WARM_UP_S
    stop_at = measure_at + seconds
    async with asyncio.TaskGroup() as clients:
        for number in range(sessions):
            talk = converse(url, Form.of(form), number, tally, start_at, stop_at)
            clients.create_task(talk)
            await asyncio.sleep(0.01)
        await asyncio.sleep(measure_at - loop.time())
        before, began = Cpu.of(*pids), loop.time()
        tally.measuring = True
        await asyncio.sleep(stop_at - loop.time())
        tally.measuring = False
        after, took = Cpu.of(*pids), loop.time() - began
    late = np.array(tally.late_ms)
    return {
        "form": form,
        "sessions": sessions,
        "seconds": round(took, 1),
        "edge_cpu_ms_per_session_s": round((after.edge - before.edge) * 1e3 / took / sessions, 3),
        "redis_cpu_ms_per_session_s": round(
            (after.redis - before.redis) * 1e3 / took / sessions, 3
        ),
        "latency_ms_p50": round(float(np.percentile(late, 50)), 1),
        "latency_ms_p99": round(float(np.percentile(late, 99)), 1),
        "latency_ms_max": round(float(late.max()), 1),
        "bytes_up_per_chunk": round(tally.bytes_up / tally.sent),
        "bytes_down_per_result": round(tally.bytes_down / tally.received),
        "results": tally.received,
        "lost": tally.sent - tally.received,
        "edge_rss_mib": round(after.edge_rss, 1),
    }


@contextmanager
def process(*command: str, **environment: str) -> Iterator[int]:
    """A child process, by its id; ended at the end."""
    child = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.DEVNULL
    )
    try:
        yield child.pid
    finally:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(timeout=15)
        except subprocess.TimeoutExpired:
            child.kill()


def free_port() -> int:
    """A port nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(url: str) -> None:
    """Return when it answers 200."""
    deadline = time.monotonic() + 20
    while True:
        try:
            httpx.get(url).raise_for_status()
        except httpx.HTTPError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def main() -> None:
    """Start everything, measure, print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--form", choices=["text", "f32", "s16"], default="text")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        uvloop.run(play_worker(BrokerSettings(redis_url=options.peer), options.sessions))
        return

    redis_port, port = free_port(), free_port()
    redis_url = f"redis://127.0.0.1:{redis_port}/0"
    server = (str(find_redis_server().path), "--port", str(redis_port), "--save", "")
    peer = (sys.executable, __file__, "--peer", redis_url, "--sessions", str(options.sessions))
    with ExitStack() as stack:
        redis_pid = stack.enter_context(process(*server, "--appendonly", "no"))
        time.sleep(0.5)
        edge_pid = stack.enter_context(
            process(
                *(sys.executable, "-m", "edge"),
                ANTIPHON_REDIS_URL=redis_url,
                ANTIPHON_PORT=str(port),
                ANTIPHON_DRAIN_S="0",
            )
        )
        stack.enter_context(process(*peer, PYTHONPATH=str(ROOT)))
        wait_for(f"http://127.0.0.1:{port}/health")
        pids = (edge_pid, redis_pid)
        url = f"ws://127.0.0.1:{port}"
        report = uvloop.run(measure(url, options.form, options.sessions, options.seconds, pids))
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
