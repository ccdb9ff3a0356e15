"""One address before several edges, as a load balancer has it: which one answers is for the test to say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class FrontDoor:
    """Passes connections on to `edge_port`; while that is None it refuses them."""

    def __init__(self, edge_port: int) -> None:
        self.edge_port: int | None = edge_port
        self.port = 0
        self._visits: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._visits.add(task)
        try:
            if self.edge_port is not None:
                await self._pass_on(self.edge_port, reader, writer)
        finally:
            writer.close()
            self._visits.discard(task)

    async def _pass_on(
        self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with suppress(OSError):  # an edge or a browser that is gone
            answers, questions = await asyncio.open_connection("127.0.0.1", port)
            ways = [
                asyncio.create_task(_pump(reader, questions)),
                asyncio.create_task(_pump(answers, writer)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                questions.close()

    async def close(self) -> None:
        for task in list(self._visits):
            task.cancel()
        await asyncio.gather(*self._visits, return_exceptions=True)


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()


@asynccontextmanager
async def front_door(edge_port: int) -> AsyncIterator[FrontDoor]:
    """A door on a free port."""
    door = FrontDoor(edge_port)
    server = await asyncio.start_server(door.serve, "127.0.0.1", 0)
    door.port = server.sockets[0].getsockname()[1]
    try:
        yield door
    finally:
        server.close()
        await door.close()
        await server.wait_closed()
