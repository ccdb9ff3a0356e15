"""Messages of every size in both directions, and clients that leave early."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import uvicorn
from starlette.websockets import WebSocketDisconnect
from uvicorn.server import ServerState
from websockets.asyncio.client import connect

from antiphon.edge.access.http_limits import HttpConnectionLimiter
from antiphon.edge.access.limits import ByteBudget
from antiphon.edge.metrics import EdgeMetrics
from antiphon.edge.transport.fair_queue import FairQueue
from antiphon.edge.transport.websocket_protocol import EdgeWebSocketProtocol
from support.raw_socket import HANDSHAKE


async def test_messages_of_every_size_arrive_as_they_were_sent() -> None:
    sizes = (0, 1, 125, 126, 65_535, 65_536, 200_000)
    messages: list[str | bytes] = [kind * size for kind in ("a", b"b") for size in sizes]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        for message in messages:
            while not scope["state"]["controls"].send_now(message):
                await asyncio.sleep(0)  # until the client has read the messages before it
        await receive()

    async with serving(app) as (address, _), connect("ws://{}:{}".format(*address)) as client:
        async with asyncio.timeout(90):
            assert [await client.recv() for _ in messages] == messages


async def test_reading_pauses_only_if_the_application_does_not_wait_for_the_message() -> None:
    paused: list[bool] = []
    may_receive = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        state = scope["state"]
        protocol = state["controls"]
        for _ in range(3):
            await state["controls"].receive_frame(binary=False)
            paused.append(protocol.read_paused)
            protocol.send_now("next")
        while protocol.queue.empty():
            await asyncio.sleep(0)
        paused.append(protocol.read_paused)
        may_receive.set()
        await state["controls"].receive_frame(binary=False)
        paused.append(protocol.read_paused)
        protocol.send_now("end")
        await receive()

    async with serving(app) as (address, _), connect("ws://{}:{}".format(*address)) as client:
        async with asyncio.timeout(90):
            for _ in range(3):
                await client.send("wanted")
                assert await client.recv() == "next"
            await client.send("not wanted yet")
            await may_receive.wait()
            assert await client.recv() == "end"
    assert paused == [False, False, False, True, False]


@pytest.mark.parametrize(
    ("query", "longest"),
    [
        ("mode=chat", 5000),
        ("a=b&mode=chat", 5000),
        ("mode=video&mode=chat", 5000),
        ("mode=chat&mode=video", 1000),
        ("mode=chat&mo%64e=video", 1000),
        ("mode=chat&mode=", 1000),
        ("", 1000),
    ],
)
async def test_long_messages_are_for_the_mode_that_the_route_takes(
    query: str, longest: int
) -> None:
    """That is the last one."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        controls = scope["state"]["controls"]
        controls.send_now(str(controls.conn.max_message_size))
        await receive()

    async with serving(app, ws_max_size=1000, long_frames={"/path?mode=chat": 5000}) as (
        address,
        _,
    ):
        url = "ws://{}:{}/path?{}".format(*address, query)
        async with connect(url) as client, asyncio.timeout(90):
            assert await client.recv() == str(longest)


@asynccontextmanager
async def serving(
    app: Any, ws_max_size: int = 16 * 1024 * 1024, long_frames: Mapping[str, int] | None = None
) -> AsyncIterator[tuple[tuple[str, int], ServerState]]:
    """The address of a server of this application, and its state."""
    limits = {
        "bytes_per_s": 1000.0,
        "budget": ByteBudget(1000),
        "connection_limiter": HttpConnectionLimiter(
            10.0, 10.0, 0, lambda _: None, EdgeMetrics("edge").rejected
        ),
        "fair_queue": FairQueue(),
        "long_frames": long_frames or {},
    }
    config = uvicorn.Config(
        app,
        ws=type("Protocol", (EdgeWebSocketProtocol,), limits),
        ws_max_size=ws_max_size,
        lifespan="off",
        log_config=None,
    )
    config.load()
    state = ServerState()
    assert isinstance(config.http_protocol_class, type)
    factory = partial(config.http_protocol_class, config=config, server_state=state, app_state={})
    server = await asyncio.get_running_loop().create_server(factory, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname(), state


async def test_a_client_that_leaves_before_its_handshake_is_accepted_is_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refused = asyncio.get_running_loop().create_future()

    async def app(scope: Any, _receive: Any, send: Any) -> None:
        scope["state"]["controls"].transport.abort()
        try:
            await send({"type": "websocket.accept"})
        except OSError as error:
            refused.set_result(error)
            raise WebSocketDisconnect from None
        refused.set_result(None)

    async with serving(app) as (address, state):
        _, writer = await asyncio.open_connection(*address)
        writer.write(HANDSHAKE)
        async with asyncio.timeout(90):
            assert isinstance(await refused, OSError)
            while state.tasks:
                await asyncio.sleep(0.01)
        writer.close()
    assert "Exception" not in caplog.text
