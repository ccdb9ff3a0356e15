"""The HTTP attacks of `bench/hostile_client.py`: bodies, heads, requests and connections."""

import asyncio
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from antiphon.edge.settings import EdgeSettings
from antiphon.edge.transport.http_protocol import DISCARDED_BODY_BYTES

HEADERS = "Host: localhost\r\nX-Forwarded-For: 203.0.113.9\r\n"
RECORDING = "ab" * 16
DOWNLOAD = f"/api/sessions/{RECORDING}/assets/frontend_replay.wav"
_UPLOAD = f"/api/sessions/{RECORDING}/upload-recording"
_SLOW_BYTES = 500
_SLOW_EVERY_S = 0.25
_HANDSHAKE = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)

HttpAttack = Callable[[int], Awaitable[str]]
"""One connection to the port, or one after another; returns how it ended."""


def head(line: str, *headers: str) -> bytes:
    lines = "".join(f"{header}\r\n" for header in headers)
    return f"{line} HTTP/1.1\r\n{HEADERS}{lines}\r\n".encode()


async def stream(port: int, start: bytes, piece: bytes, pause_s: float = 0.0) -> str:
    """Send pieces as fast as the server takes them until it closes. Returns its first status."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = asyncio.create_task(reader.read())
    try:
        writer.write(start)
        while not answer.done():
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause_s)
        return _status(await answer)
    except ConnectionError:
        return _status(await answer) if answer.done() and not answer.exception() else "cut off"
    finally:
        answer.cancel()
        writer.transport.abort()


async def ask(port: int, request: bytes, *, at_once: int = 1, keep: bool = True) -> str:
    """Send requests on one connection, `at_once` together, and read each answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        while True:
            writer.write(request * at_once)
            for _ in range(at_once):
                status, length = await _head(reader)
                await reader.readexactly(length)
            if not keep:
                return f"HTTP {status}"
    finally:
        writer.transport.abort()


async def read_slowly(port: int, path: str) -> str:
    """Read a response at 2 kB/s."""
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        await loop.sock_connect(client, ("127.0.0.1", port))
        await loop.sock_sendall(client, head(f"GET {path}"))
        status = _status(await loop.sock_recv(client, 100))
        while await loop.sock_recv(client, _SLOW_BYTES):  # noqa: ASYNC110 - it reads slowly
            await asyncio.sleep(_SLOW_EVERY_S)
        return status


async def knock(port: int) -> str:
    """Connect and reset the connection at once."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    linger = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()
    return "connected"


@dataclass
class Health:
    """The seconds that requests of `/health` took or wait, and how many of them failed."""

    seconds: list[float] = field(default_factory=list)
    failures: int = 0


async def watch_health(port: int, health: Health) -> None:
    """Ask on new connections, as a client that has nothing to do with the others."""
    while True:
        began, well = time.monotonic(), True
        try:
            well = await _is_well(port)
        except OSError:
            well = False
        finally:  # a request that still waits when the measurement ends is slow, not failed
            if well:
                health.seconds.append(time.monotonic() - began)
            else:
                health.failures += 1
        await asyncio.sleep(0.1)


async def _is_well(port: int) -> bool:
    """Whether `/health` answers 200."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return (await reader.readline()).split()[1:2] == [b"200"]
    finally:
        writer.close()


async def _head(reader: asyncio.StreamReader) -> tuple[int, int]:
    """The status and the length of the body."""
    lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
    lengths = [int(line[15:]) for line in lines if line.startswith(b"content-length:")]
    return int(lines[0].split()[1]), lengths[0] if lengths else 0


def _status(answer: bytes) -> str:
    return f"HTTP {answer.split()[1].decode()}" if answer else "closed"


def _largest_script() -> str:
    folder = EdgeSettings().pages_dir / "static"
    scripts: list[Path] = sorted(folder.glob("*.js"), key=lambda path: path.stat().st_size)
    return f"/static/{scripts[-1].name}" if scripts else "/docs"


_GZIP = "Accept-Encoding: gzip"
_CHUNKED = "Transfer-Encoding: chunked"
_ENDLESS = "Content-Length: 10000000000"
_ONE_BYTE = b"1\r\n \r\n" * 10_000
_REFUSED = head("POST /nowhere", f"Content-Length: {DISCARDED_BODY_BYTES}")
_LONG = "Content-Length: 100000000"
_PART = (
    b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n'
    b"Content-Type: audio/wav\r\n\r\nRIFF\xff\xff\xff\x7fWAVEfmt "
)
_FORM = "Content-Type: multipart/form-data; boundary=b"


def http_kinds() -> Mapping[str, tuple[int, HttpAttack]]:
    """Each attack, with its number of connections."""
    schema = "/v1/realtime/schema.json"
    preflight = ("Origin: http://localhost", "Access-Control-Request-Method: GET")
    padded = b"1;" + b"a" * 60_000
    return {
        "small-chunks": (
            8,
            partial(stream, start=head("POST /nowhere", _CHUNKED), piece=_ONE_BYTE),
        ),
        "small-chunks-of-uploads": (
            16,
            partial(stream, start=head(f"POST {_UPLOAD}", _CHUNKED, _FORM), piece=_ONE_BYTE),
        ),
        "chunk-extensions": (8, partial(stream, start=head("POST /", _CHUNKED), piece=padded)),
        "trailers": (
            8,
            partial(stream, start=head("POST /", _CHUNKED) + b"0\r\n", piece=b"a:b\r\n" * 10_000),
        ),
        "endless-bodies": (
            8,
            partial(stream, start=head("POST /nowhere", _ENDLESS), piece=bytes(65_536)),
        ),
        "refused-bodies": (8, partial(ask, request=_REFUSED + bytes(DISCARDED_BODY_BYTES))),
        "uploads": (
            8,
            partial(
                stream, start=head(f"POST {_UPLOAD}", _LONG, _FORM) + _PART, piece=bytes(65_536)
            ),
        ),
        "bytewise-bodies": (
            190,
            partial(stream, start=head("POST /nowhere", _ENDLESS), piece=b"a", pause_s=0.002),
        ),
        "many-headers": (10, partial(ask, request=head("GET /health", *["a:b"] * 13_000))),
        "most-headers": (10, partial(ask, request=head("GET /health", *["a:b"] * 90))),
        "scripts": (190, partial(ask, request=head(f"GET {_largest_script()}", _GZIP))),
        "slow-scripts": (190, partial(read_slowly, path=_largest_script())),
        "documents": (190, partial(ask, request=head("GET /openapi.json", _GZIP))),
        "schemas": (190, partial(ask, request=head(f"GET {schema}", _GZIP))),
        "not-found": (190, partial(ask, request=head("GET /nowhere"))),
        "heads": (190, partial(ask, request=head("HEAD /nowhere/at/all"))),
        "preflights": (190, partial(ask, request=head("OPTIONS /health", *preflight))),
        "pipelined": (20, partial(ask, request=head("GET /health"), at_once=1000)),
        "continues": (
            50,
            partial(
                ask,
                request=head("POST /nowhere", "Expect: 100-continue", "Content-Length: 9"),
                keep=False,
            ),
        ),
        "handshakes": (
            50,
            partial(
                ask,
                request=head("GET /ws/chat", _HANDSHAKE.strip(), "Content-Length: 9"),
                keep=False,
            ),
        ),
        "short-connections": (50, partial(ask, request=head("GET /health"), keep=False)),
        "resets": (50, knock),
        "slow-downloads": (190, partial(read_slowly, path=DOWNLOAD)),
    }
