"""The servers of the tests leave no connection behind, which would fail a later test."""

import asyncio
import gc
import socket
from collections.abc import Iterator

import pytest

from support.tcp_proxy import tcp_proxy

LONG = bytes(50_000_000)
"""More than the buffers of the kernel take."""


@pytest.fixture
def target() -> Iterator[int]:
    """The port of a server that reads nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_a_connection_that_arrives_at_the_end(target: int) -> None:
    async def connect(steps: int) -> None:
        async with tcp_proxy(target) as proxy:
            socket.create_connection(("127.0.0.1", proxy.port)).close()
            for _ in range(steps):
                await asyncio.sleep(0)

    for steps in range(6):
        asyncio.run(connect(steps))
        gc.collect()


def test_what_nobody_reads(target: int) -> None:
    async def write() -> None:
        async with tcp_proxy(target) as proxy:
            _, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            writer.write(LONG)
            await asyncio.sleep(0.05)
        writer.transport.abort()

    asyncio.run(write())
    gc.collect()
