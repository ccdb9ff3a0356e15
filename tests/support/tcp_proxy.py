"""A TCP proxy in front of a real server. It loses replies, resets connections, and slows or stops them."""

import asyncio
import math
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from support.tcp_server import connection_to, tcp_server

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""SO_LINGER with a time of zero: close() sends RST instead of FIN."""

_PIECES = 16
"""Pieces of data that are on their way in one direction."""


class TcpProxy:
    """Forwards connections to `target`, a port of this machine. While it is None, they are refused."""

    def __init__(self, target: int) -> None:
        self.target: int | None = target
        self.port = 0
        self.lost = 0
        self.accepted = 0
        """Connections that were forwarded since the start."""
        self.delay_s = 0.0
        """Latency, in both directions; it does not limit the rate."""
        self.piece_bytes = 1 << 16
        """Most bytes that are forwarded at once."""
        self.request_bytes_per_s = self.reply_bytes_per_s = math.inf
        """The rates of each connection. They may change at any time."""
        self._lose = 0
        self._running = asyncio.Event()
        self._running.set()
        self._replying = asyncio.Event()
        self._replying.set()
        self._clients: set[asyncio.StreamWriter] = set()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """As the URL of a Redis server."""
        return f"redis://{self.address}/0"

    @property
    def open_connections(self) -> int:
        return len(self._clients)

    def lose_next_answer(self) -> None:
        """Close the connection instead of forwarding the next reply. The request has taken effect."""
        self._lose += 1

    def reset(self) -> int:
        """Reset (RST) every open connection to the clients; returns how many."""
        clients = list(self._clients)
        for writer in clients:
            opened: socket.socket = writer.get_extra_info("socket")
            if opened.fileno() >= 0:  # closed by the client, and not noticed yet
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            writer.transport.abort()
        return len(clients)

    def limit(self, bytes_per_s: float) -> None:
        self.request_bytes_per_s = self.reply_bytes_per_s = bytes_per_s

    def freeze(self) -> None:
        """Forward nothing, on open and on new connections, until `thaw`. No connection is closed."""
        self._running.clear()

    def freeze_replies(self) -> None:
        """Forward what clients send, but nothing to them, until `thaw`."""
        self._replying.clear()

    def thaw(self) -> None:
        """Forward again, including what arrived while frozen."""
        self._running.set()
        self._replying.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients.add(writer)
        try:
            if self.target is not None:
                await self._forward(self.target, reader, writer)
        finally:
            self._clients.discard(writer)

    async def _forward(
        self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        async with connection_to(port) as (replies, requests):
            self.accepted += 1
            pumps = [
                asyncio.create_task(self._pump(reader, requests, self._running, is_reply=False)),
                asyncio.create_task(self._pump(replies, writer, self._replying, is_reply=True)),
            ]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()

    async def _pump(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        allowed: asyncio.Event,
        *,
        is_reply: bool,
    ) -> None:
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_PIECES)
        now = asyncio.get_running_loop().time

        async def read() -> None:
            with suppress(OSError):
                while (data := await source.read(self.piece_bytes)) and not (
                    is_reply and self._loses()
                ):
                    await pieces.put((now() + self.delay_s, data))
            await pieces.put((0.0, b""))

        reading = asyncio.create_task(read())
        try:
            with suppress(OSError):
                while (piece := await pieces.get())[1]:
                    await asyncio.sleep(max(0.0, piece[0] - now()))
                    await self._running.wait()
                    await allowed.wait()
                    await self._write(sink, piece[1], is_reply=is_reply)
        finally:
            reading.cancel()

    async def _write(self, sink: asyncio.StreamWriter, data: bytes, *, is_reply: bool) -> None:
        while data:
            rate = self.reply_bytes_per_s if is_reply else self.request_bytes_per_s
            size = len(data) if math.isinf(rate) else max(1, int(rate / 10))
            part, data = data[:size], data[size:]
            sink.write(part)
            await sink.drain()
            await asyncio.sleep(len(part) / rate)

    def _loses(self) -> bool:
        if not self._lose:
            return False
        self._lose -= 1
        self.lost += 1
        return True


@asynccontextmanager
async def tcp_proxy(target: int) -> AsyncIterator[TcpProxy]:
    """A proxy on a free port."""
    proxy = TcpProxy(target)
    async with tcp_server(proxy.serve) as proxy.port:
        yield proxy
