"""Attacks an edge with one client while others talk, and measures what the others notice.

    python bench/hostile_client.py --sessions 50 --seconds 8 [--kinds empty-pings,json]

For each kind of attack it starts a private Redis, an edge, and a peer that answers each second of
audio at once. The other clients are those of `bench/edge_load.py`. Their latency is from the due time of a
chunk to its whole result. Another process attacks as fast as it can, and connects again when it is cut off.
It sends `X-Forwarded-For`, so that the limits of one address apply to it.

`health` is the longest time of `/health` on a new connection of somebody else, without those that
failed: they were cut off or not answered with 200.

The longest iteration is that of the edge's event loop, in CPU time: other clients wait for it. The longest wait
is the CPU time of the edge's other threads between two iterations: the loop waits for the interpreter's lock
while a thread has it. Unlike the latency, both are meaningful on a busy machine.
"""

import argparse
import asyncio
import base64
import json
import math
import secrets
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psutil
import uvloop

from antiphon.broker.service.listening import free_port
from antiphon.broker.service.logs import configure_logging
from antiphon.cli.load.plan import LoadPlan
from antiphon.cli.load.report import report_of
from antiphon.cli.load.run import run_load
from antiphon.cli.load.users import LoadInputs
from antiphon.cli.stack.usage import ProcessUsage
from antiphon.client.options import ClientOptions
from antiphon.edge.service import run as run_edge
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.audio import INPUT_RATE
from edge_load import load_plan, recording
from hostile_http import DOWNLOAD, HEADERS, RECORDING, Health, HttpAttack, http_kinds, watch_health
from processes import ROOT, private_redis, process, spent, wait_for

MIB = 1024 * 1024
CONT, TEXT, CLOSE, PING, PONG = 0, 1, 8, 9, 10
BLOCK_FRAMES = 10_000
DOWNLOAD_BYTES = 64 * MIB
JSON_BODY = b'{"name":[' + b"[]," * 1_870_000 + b"[]]}"

Outcome = Counter[str]
"""How often each thing happened to the attacker."""


def frame(opcode: int, data: bytes = b"", *, fin: bool = True, length: int | None = None) -> bytes:
    """A client's frame with a mask of zeros. `length` announces more bytes than it has."""
    size, head = len(data) if length is None else length, bytes([fin << 7 | opcode])
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 65536:
        head += struct.pack("!BH", 0x80 | 126, size)
    else:
        head += struct.pack("!BQ", 0x80 | 127, size)
    return head + bytes(4) + data


LONG_MESSAGE = frame(TEXT, b'{"messages":"' + b"A" * (60 * MIB) + b'"}')
VIDEO = base64.b64encode(b"\0\0\0\x20ftypisom" + bytes(44 * MIB))
CHAT = b'{"messages":[{"role":"user","content":[{"type":"video","data":"%s"}]}]}' % VIDEO
"""A request that the edge accepts."""


class Attack:
    """The connections of one attacker to the edge at `port`."""

    def __init__(self, port: int, seconds: float) -> None:
        self.port = port
        self.outcome: Outcome = Counter()
        self._end = time.monotonic() + seconds

    @property
    def over(self) -> bool:
        return time.monotonic() > self._end

    async def again(self, attack: Callable[[], Awaitable[str]]) -> None:
        """Attack until the time is over; count how each connection ended."""
        while not self.over:
            try:
                async with asyncio.timeout(max(0.01, self._end - time.monotonic())):
                    ended = await attack()
            except TimeoutError:
                ended = "open at the end"
            except (ConnectionError, asyncio.IncompleteReadError):
                ended = "cut off"
            self.outcome[ended] += 1

    async def flood(self, start: bytes, piece: bytes) -> str:
        """Send frames on a WebSocket until the server closes it."""
        reader, writer = await self._socket(f"/ws/duplex/adx_{secrets.token_hex(8)}")
        block = piece * BLOCK_FRAMES
        closed = asyncio.create_task(_close_of(reader))
        try:
            writer.write(start)
            while not closed.done():
                with suppress(ConnectionError):
                    writer.write(block)
                    await writer.drain()
                await asyncio.sleep(0)
            return await closed
        finally:
            closed.cancel()
            writer.transport.abort()

    async def unfinished(self) -> str:
        """Send most of a message of 16 MiB, and then nothing."""
        reader, writer = await self._socket(f"/ws/duplex/adx_{secrets.token_hex(8)}")
        try:
            writer.write(frame(TEXT, length=16 * MIB) + bytes(15 * MIB))
            return await _close_of(reader)
        finally:
            writer.transport.abort()

    async def long_message(self) -> str:
        """Send a chat of 60 MiB in one frame, and read its refusal."""
        reader, writer = await self._socket("/ws/chat")
        try:
            writer.write(LONG_MESSAGE)
            return await _close_of(reader)
        finally:
            writer.transport.abort()

    async def chat(self) -> str:
        """Send a chat of 59 MiB, which the edge accepts and keeps until a worker takes it."""
        reader, writer = await self._socket("/ws/chat?resume=1")
        try:
            writer.write(frame(TEXT, CHAT))
            await reader.readexactly(2)
            return "queued"
        finally:
            writer.transport.abort()

    async def idle(self) -> str:
        reader, writer = await self._socket("/ws/chat")
        try:
            return await _close_of(reader)
        finally:
            writer.transport.abort()

    async def request(self, line: str, body: bytes = b"", *, missing: int = 0) -> str:
        """Send a request, with `missing` bytes of its body left out, and read the status."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            kind = "Content-Type: application/json\r\n" if body else ""
            head = (
                f"{line} HTTP/1.1\r\n{HEADERS}{kind}Content-Length: {len(body) + missing}\r\n\r\n"
            )
            writer.write(head.encode() + body)
            return "HTTP " + (await reader.readline()).decode().split()[1]
        finally:
            writer.transport.abort()

    async def unread(self, path: str) -> str:
        """Request a long response and read only its status."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1024)
        try:
            writer.write(f"GET {path} HTTP/1.1\r\n{HEADERS}\r\n".encode())
            status = (await reader.readline()).decode().split()[1]
            while status == "200" and _connected(writer):  # noqa: ASYNC110 - the kernel has no event
                await asyncio.sleep(0.2)
            return f"HTTP {status}" if status != "200" else "cut off"
        finally:
            writer.transport.abort()

    async def _socket(self, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        key = base64.b64encode(bytes(16)).decode()
        writer.write(
            f"GET {path} HTTP/1.1\r\n{HEADERS}Upgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
        )
        await reader.readuntil(b"\r\n\r\n")
        return reader, writer


def _connected(writer: asyncio.StreamWriter) -> bool:
    """False once the server has closed or reset the connection: nothing is read to notice it."""
    info = writer.get_extra_info("socket").getsockopt(6, 11, 1)  # TCP_INFO: the state
    return bool(info[0] == 1)


async def _close_of(reader: asyncio.StreamReader) -> str:
    """The close frame of the server; skips its messages."""
    while True:
        opcode, size = await reader.readexactly(2)
        if size == 126:
            (size,) = struct.unpack("!H", await reader.readexactly(2))
        data = await reader.readexactly(size)
        if opcode & 15 == CLOSE:
            code, reason = struct.unpack("!H", data[:2])[0], data[2:].decode()
            return f"{code} {reason}".strip()


async def many(attack: Attack, count: int, one: Callable[[], Awaitable[str]]) -> None:
    await asyncio.gather(*(attack.again(one) for _ in range(count)))


def _floods(start: bytes, piece: bytes) -> Callable[[Attack], Awaitable[None]]:
    return lambda attack: attack.again(lambda: attack.flood(start, piece))


def _http(count: int, one: HttpAttack) -> Callable[[Attack], Awaitable[None]]:
    return lambda attack: many(attack, count, lambda: one(attack.port))


KINDS: dict[str, Callable[[Attack], Awaitable[None]]] = {
    "none": lambda _: asyncio.sleep(0),
    "empty-pings": _floods(b"", frame(PING)),
    "long-pings": _floods(b"", frame(PING, bytes(125))),
    "pongs": _floods(b"", frame(PONG)),
    "empty-frames": _floods(frame(TEXT, fin=False), frame(CONT, fin=False)),
    "2-byte-fragments": _floods(frame(TEXT, fin=False), frame(CONT, b"  ", fin=False)),
    "short-messages": _floods(b"", frame(TEXT, b"{}")),
    "long-messages": lambda to: to.again(to.long_message),
    "long-chats": lambda to: to.again(to.chat),
    "unfinished-messages": lambda to: many(to, 60, to.unfinished),
    "slow-bodies": lambda to: many(
        to, 100, lambda: to.request("POST /api/assets/ref_audio", bytes(5 * MIB), missing=1)
    ),
    "unread-downloads": lambda to: many(to, 300, lambda: to.unread(DOWNLOAD)),
    "json": lambda to: to.again(lambda: to.request("POST /api/assets/ref_audio", JSON_BODY)),
    "connections": lambda to: many(to, 500, to.idle),
    **{name: _http(count, one) for name, (count, one) in http_kinds().items()},
}


async def measured_edge() -> str:
    """Run an edge until SIGTERM. Returns its longest iteration and longest wait since SIGUSR1, in ms."""
    longest, loop = [0.0, 0.0], asyncio.get_running_loop()
    last = time.thread_time(), time.process_time()
    loop.add_signal_handler(signal.SIGUSR1, lambda: longest.__setitem__(slice(2), (0.0, 0.0)))

    def tick() -> None:
        nonlocal last
        now = time.thread_time(), time.process_time()
        iteration, whole = (after - before for after, before in zip(now, last, strict=True))
        longest[:], last = (max(longest[0], iteration), max(longest[1], whole - iteration)), now
        loop.call_later(0.002, tick)

    tick()
    await run_edge(EdgeSettings())
    return " ".join(str(seconds * 1000) for seconds in longest)


async def watch_memory(edge: psutil.Process, seen: list[int]) -> None:
    while True:
        seen.append(edge.memory_info().rss)
        await asyncio.sleep(0.1)


async def measure(port: int, edge: psutil.Process, kind: str, plan: LoadPlan) -> dict[str, Any]:
    """Put the load on the edge, with an attack from its first second to its last."""
    before, seen, attackers = list[int](), list[float](), list[subprocess.Popen[bytes]]()

    def usage() -> ProcessUsage:
        """Called when the measured window begins and when it ends."""
        seen.append(spent(edge))
        if not attackers:
            before.append(edge.memory_info().rss)
            edge.send_signal(signal.SIGUSR1)
            attack = ("--attack", kind, "--port", str(port), "--seconds", str(plan.seconds))
            command = (sys.executable, __file__, *attack)
            attackers.append(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE))
        return ProcessUsage.of({})

    grown, health = list[int](), Health()
    watching = [
        asyncio.create_task(watch_memory(edge, grown)),
        asyncio.create_task(watch_health(port, health)),
    ]
    url, inputs = f"ws://127.0.0.1:{port}", LoadInputs.of([recording(INPUT_RATE)], 1.0)
    report = report_of(await run_load(url, ClientOptions(), plan, inputs, usage), {})
    for task in watching:
        task.cancel()
    await asyncio.wait(watching)
    output, _ = await asyncio.to_thread(attackers[0].communicate)
    latency = report["kinds"]["audio"]
    return {
        "kind": kind,
        "p50_ms": latency["latency_ms"].get("p50"),
        "p99_ms": latency["latency_ms"].get("p99"),
        "health_ms": max(health.seconds, default=math.nan) * 1000,
        "health_failures": health.failures,
        "lost": latency["lost"],
        "edge_cpu": (seen[-1] - seen[0]) / plan.seconds,
        "rss_growth_mib": (max(grown, default=0) - before[0]) / MIB,
        "attacker": json.loads(output or "{}"),
    }


def run(kind: str, plan: LoadPlan) -> dict[str, Any]:
    """Start the processes, measure, and stop them."""
    port = free_port()
    with tempfile.TemporaryDirectory() as temporary:
        folder, times = Path(temporary), Path(temporary) / "times"
        result = _run(kind, plan, port, folder, times)
        iteration_ms, wait_ms = map(float, times.read_text().split())
        return {**result, "iteration_ms": iteration_ms, "wait_ms": wait_ms}


def _run(kind: str, plan: LoadPlan, port: int, folder: Path, times: Path) -> dict[str, Any]:
    with ExitStack() as stack:
        (folder / "sessions" / RECORDING).mkdir(parents=True)
        with (folder / "sessions" / RECORDING / "frontend_replay.wav").open("wb") as file:
            file.truncate(DOWNLOAD_BYTES)
        redis_url, _ = stack.enter_context(private_redis())
        settings = {
            "ANTIPHON_REDIS_URL": redis_url,
            "ANTIPHON_PORT": str(port),
            "ANTIPHON_EDGE_HEALTH_PORT": "0",
            "ANTIPHON_DRAIN_S": "0",
            "ANTIPHON_DATA_DIR": str(folder),
            "ANTIPHON_TRUSTED_PROXIES": "127.0.0.1",
            "ANTIPHON_API_KEYS": "",
        }
        command = (sys.executable, __file__, "--edge", str(times))
        edge = stack.enter_context(process(*command, folder=ROOT, **settings))
        script, slots = str(ROOT / "bench" / "edge_load.py"), str(plan.sessions)
        peer = (sys.executable, script, "--peer", redis_url, "--sessions", slots)
        stack.enter_context(process(*peer, PYTHONPATH=str(ROOT)))
        wait_for(f"http://127.0.0.1:{port}/health")
        return uvloop.run(measure(port, psutil.Process(edge), kind, plan))


async def attack_edge(kind: str, port: int, seconds: float) -> Outcome:
    attack = Attack(port, seconds)
    await KINDS[kind](attack)
    return attack.outcome


FIGURES = {
    "p50_ms": "p50 ms",
    "p99_ms": "p99 ms",
    "health_ms": "health ms",
    "health_failures": "health failed",
    "lost": "lost",
    "iteration_ms": "longest iteration ms",
    "wait_ms": "longest wait ms",
}
"""Whole numbers of a row, and the columns that show them."""


def row_of(result: dict[str, Any]) -> str:
    """A row of the table, in Markdown."""
    ended = ", ".join(f"{how} × {n}" for how, n in result["attacker"].items())
    cells = (
        result["kind"],
        *(f"{result[name]:.0f}" for name in FIGURES),
        f"{result['edge_cpu']:.0%}",
        f"{result['rss_growth_mib']:.0f}",
        ended,
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--kinds", default=",".join(KINDS), help="of " + ", ".join(KINDS))
    parser.add_argument("--attack", choices=list(KINDS), help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--edge", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.edge:
        configure_logging("edge")
        options.edge.write_text(uvloop.run(measured_edge()))
        return
    if options.attack:
        outcome = asyncio.run(attack_edge(options.attack, options.port, options.seconds))
        print(json.dumps(dict(outcome.most_common())))
        return
    columns = ("attack", *FIGURES.values(), "edge CPU")
    print(f"| {' | '.join(columns)} | RSS growth MiB | the attacker |")
    print("|---" * (len(columns) + 2) + "|", flush=True)
    for kind in options.kinds.split(","):
        print(row_of(run(kind, load_plan(options.sessions, options.seconds))), flush=True)


if __name__ == "__main__":
    main()
