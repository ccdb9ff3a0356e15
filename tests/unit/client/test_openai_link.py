"""The connections of `antiphon bench` to OpenAI's APIs, with servers that send something else."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest
from websockets.asyncio.server import ServerConnection, serve

from antiphon.client.errors import ClientError
from antiphon.client.openai_link import OpenAiLink, connect_live, connect_openai_realtime
from antiphon.client.options import ClientOptions

Connect = Callable[[str, ClientOptions], AbstractAsyncContextManager[OpenAiLink]]


@pytest.mark.parametrize("connect", [connect_live, connect_openai_realtime])
@pytest.mark.parametrize(
    ("frame", "words"),
    [
        ("", "the server sent something unreadable"),
        ("<html>", "the server sent something unreadable"),
        ("[]", "a message has no type"),
        (b"\0", "the server sent something unreadable"),
        ('{"type": "error"}', "the server sent an error without a text"),
        ('{"type": "error", "error": "busy"}', "busy"),
        ('{"type": "error", "error": {"message": "busy"}}', "busy"),
    ],
)
async def test_what_is_no_event_is_named(connect: Connect, frame: str | bytes, words: str) -> None:
    async def send(socket: ServerConnection) -> None:
        await socket.send(frame)
        await socket.wait_closed()

    async with asyncio.timeout(60), serve(send, "127.0.0.1", 0) as server:
        host, port = next(iter(server.sockets)).getsockname()[:2]
        with pytest.raises(ClientError, match=words):
            async with connect(f"ws://{host}:{port}", {}):
                pass
