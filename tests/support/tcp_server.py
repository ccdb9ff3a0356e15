"""TCP servers whose connections all end with them.

`asyncio.start_server` leaves connections open that arrive while it closes, and those whose client does
not read. The garbage collector then reports them in a later test.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

HOST = "127.0.0.1"

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def tcp_server(
    handler: Handler,
    *,
    port: int = 0,
    limit: int = 1 << 16,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[int]:
    """Serves each connection with `handler`, and closes it afterwards. Yields the port (0: any free one).

    At the end it cancels the handlers and aborts their connections. A handler may fail because its
    connection ends.
    """
    connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
    over = False

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            await handler(reader, writer)
            writer.close()
            await writer.wait_closed()

    def ended(task: asyncio.Task[None]) -> None:
        # A task that is cancelled before its first step runs no line of `serve`.
        connections.pop(task).transport.abort()
        if not task.cancelled():
            task.result()  # asyncio reports an error of the handler

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if over:
            writer.transport.abort()
            return
        task = asyncio.create_task(serve(reader, writer))
        connections[task] = writer
        task.add_done_callback(ended)

    server = await asyncio.start_server(accept, HOST, port, limit=limit, ssl=tls)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        over = True
        for listener in server.sockets:  # asyncio loses what it has accepted when the server closes
            asyncio.get_running_loop().remove_reader(listener.fileno())
        await _steps()
        server.close()
        for task, writer in connections.items():
            task.cancel()
            writer.transport.abort()
        await asyncio.gather(*connections, return_exceptions=True)
        await _steps()


@asynccontextmanager
async def connection_to(
    port: int,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Closes the connection after everything written has left, or at once if the block fails."""
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        yield reader, writer
        writer.close()
        await writer.wait_closed()
    finally:
        writer.transport.abort()


async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Forward everything until one of the two ends."""
    with suppress(OSError):
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()


async def _steps() -> None:
    """As many iterations of the event loop as it takes to accept, or to abort, a connection."""
    for _ in range(4):
        await asyncio.sleep(0)
