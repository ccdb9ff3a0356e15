"""A TCP proxy in front of a real service. The test sets its target and the answers that it drops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress


class TcpProxy:
    """Forwards connections to `target`, a port of this machine; refuses them while that is None."""

    def __init__(self, target: int) -> None:
        self.target: int | None = target
        self.port = 0
        self.lost = 0
        self._lose = 0
        self._visits: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def lose_next_answer(self) -> None:
        """And the connection with it; what it answers has been done all the same."""
        self._lose += 1

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._visits.add(task)
        try:
            if self.target is not None:
                await self._pass_on(self.target, reader, writer)
        finally:
            writer.close()
            self._visits.discard(task)

    async def _pass_on(
        self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with suppress(OSError):  # the service or the client has disconnected
            answers, questions = await asyncio.open_connection("127.0.0.1", port)
            ways = [
                asyncio.create_task(_pump(reader, questions, lambda: False)),
                asyncio.create_task(_pump(answers, writer, self._loses)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                questions.close()

    def _loses(self) -> bool:
        if not self._lose:
            return False
        self._lose -= 1
        self.lost += 1
        return True

    async def close(self) -> None:
        for task in list(self._visits):
            task.cancel()
        await asyncio.gather(*self._visits, return_exceptions=True)


async def _pump(
    source: asyncio.StreamReader, sink: asyncio.StreamWriter, loses: Callable[[], bool]
) -> None:
    with suppress(OSError):
        while (data := await source.read(1 << 16)) and not loses():
            sink.write(data)
            await sink.drain()


@asynccontextmanager
async def tcp_proxy(target: int) -> AsyncIterator[TcpProxy]:
    """A proxy on a free port."""
    proxy = TcpProxy(target)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.close()
        await server.wait_closed()
