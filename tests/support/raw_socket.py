"""A WebSocket client that writes frames by hand, as fast as the socket takes them."""

import asyncio
import base64
import os
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
CONT, TEXT, CLOSE, PING, PONG = 0, 1, 8, 9, 10
_WITHIN_S = 45.0


def frame(opcode: int, data: bytes = b"", *, fin: bool = True, length: int | None = None) -> bytes:
    """A client's frame. `length` announces more bytes than it has."""
    size = len(data) if length is None else length
    head = bytes([fin << 7 | opcode])
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 65536:
        head += struct.pack("!BH", 0x80 | 126, size)
    else:
        head += struct.pack("!BQ", 0x80 | 127, size)
    return head + bytes(4) + data  # a mask of zeros leaves the data as it is


@dataclass
class RawSocket:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        """Ignores that the server has closed the connection."""
        try:
            self.writer.write(data)
            await self.writer.drain()
        except ConnectionError:
            pass

    async def frame(self) -> tuple[int, bytes]:
        """The next frame of the server."""
        async with asyncio.timeout(_WITHIN_S):
            opcode, size = await self.reader.readexactly(2)
            if size == 126:
                (size,) = struct.unpack("!H", await self.reader.readexactly(2))
            return opcode & 15, await self.reader.readexactly(size)

    async def closed(self) -> tuple[int, str]:
        """Code and reason of the server's close; ignores other frames."""
        while (received := await self.frame())[0] != CLOSE:
            pass
        (code,) = struct.unpack("!H", received[1][:2])
        return code, received[1][2:].decode()

    async def ended(self) -> None:
        """The server has closed the TCP connection, which may break a write of this side."""
        async with asyncio.timeout(_WITHIN_S):
            with suppress(ConnectionError):
                while await self.reader.read(65536):
                    pass


@asynccontextmanager
async def raw_socket(ws_url: str, path: str) -> AsyncIterator[RawSocket]:
    """A connection to `ws://host:port` after its handshake."""
    host, port = ws_url.removeprefix("ws://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    key = base64.b64encode(os.urandom(16)).decode()
    writer.write(
        f"GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
    )
    assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
    try:
        yield RawSocket(reader, writer)
    finally:
        writer.transport.abort()
