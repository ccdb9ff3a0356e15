"""A TCP proxy before a real Redis that can lose an answer: the command is carried out all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class LossyProxy:
    """Passes everything on, until told to lose the next answer and the connection with it."""

    def __init__(self, upstream_port: int) -> None:
        self.port = 0
        self.lost = 0
        self._upstream_port = upstream_port
        self._lose = 0
        self._pumps: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def lose_next_answer(self) -> None:
        self._lose += 1

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._pumps.add(task)
        answers, commands = await asyncio.open_connection("127.0.0.1", self._upstream_port)
        try:
            async with asyncio.TaskGroup() as group:
                back = group.create_task(self._pump_answers(answers, writer))
                await self._pump(reader, commands)
                back.cancel()
        finally:
            for end in (writer, commands):
                end.close()
            self._pumps.discard(task)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()

    async def _pump_answers(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(1 << 16):
            if self._lose:
                self._lose -= 1
                self.lost += 1
                sink.close()
                return
            sink.write(data)
            await sink.drain()

    async def close(self) -> None:
        for task in list(self._pumps):
            task.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)


@asynccontextmanager
async def lossy_proxy(upstream_port: int) -> AsyncIterator[LossyProxy]:
    """A proxy to 127.0.0.1:`upstream_port` on a free port."""
    proxy = LossyProxy(upstream_port)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.close()
        await server.wait_closed()
