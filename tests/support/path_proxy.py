"""A reverse proxy that serves an edge below a path, and may not pass WebSockets."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from support.tcp_server import HOST, connection_to, pump, tcp_server

_HOP_BY_HOP = re.compile(rb"(?im)^(connection|upgrade):.*\r\n")


@asynccontextmanager
async def path_proxy(target: int, path: str, *, websockets: bool = True) -> AsyncIterator[str]:
    """The URL below which it serves the edge at port `target`, as http://127.0.0.1:9/voice.

    It removes `path` from requests, as `location /voice/ { proxy_pass http://edge/; }` of nginx does.
    Without `websockets` it sends HTTP/1.0 and no `Upgrade`, as nginx does unless it is configured to.
    """
    forward = partial(_forward, target, path.encode(), websockets)
    async with tcp_server(forward, limit=1 << 20) as port:
        yield f"http://{HOST}:{port}{path}"


async def _forward(
    target: int,
    path: bytes,
    websockets: bool,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Each connection carries one request or one WebSocket."""
    first, _, fields = (await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")
    method, address, version = first.split(b" ")
    if not address.startswith(path + b"/"):
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        return
    if not websockets:
        version = b"HTTP/1.0"
    if not (websockets and b"upgrade: websocket" in fields.lower()):
        fields = b"Connection: close\r\n" + _HOP_BY_HOP.sub(b"", fields)
    async with connection_to(target) as (replies, requests):
        requests.write(b"%b %b %b\r\n%b" % (method, address.removeprefix(path), version, fields))
        pumps = [
            asyncio.create_task(pump(reader, requests)),
            asyncio.create_task(pump(replies, writer)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait(pumps[1:])
        finally:
            for each in pumps:
                each.cancel()
