"""The waits of connections between two requests end when the edge shuts down."""

import asyncio

import pytest

from antiphon.edge.edge_context import ChatConnections
from antiphon.edge.errors import Draining


async def _wait(chats: ChatConnections, limit_s: float) -> None:
    async with chats.wait(limit_s):
        await asyncio.Event().wait()


async def test_a_shutdown_ends_every_wait() -> None:
    chats = ChatConnections()
    waits = [asyncio.create_task(_wait(chats, 60.0)) for _ in range(2)]
    await asyncio.sleep(0)
    chats.close()
    for wait in waits:
        with pytest.raises(Draining):
            await wait


async def test_a_shutdown_at_the_moment_at_which_a_wait_expires() -> None:
    chats = ChatConnections()
    expires = asyncio.create_task(_wait(chats, 0.0))
    waits = asyncio.create_task(_wait(chats, 60.0))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not expires.done(), "its time is over, and its task has not run since"
    chats.close()
    for wait in (expires, waits):
        with pytest.raises(Draining):
            await wait
