"""Many connections that begin or end at once: what one iteration of the event loop does for them."""

from __future__ import annotations

import asyncio
import gc
import socket
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import pytest
import uvicorn
import uvloop
from uvicorn.server import ServerState

from antiphon.edge.access.limits import ByteBudget, HttpConnectionLimiter
from antiphon.edge.errors import ClientGone
from antiphon.edge.metrics import EdgeMetrics
from antiphon.edge.transport.fair_queue import PER_ITERATION, FairQueue
from antiphon.edge.transport.http_protocol import EdgeHttpProtocol
from antiphon.edge.transport.websocket_protocol import EdgeWebSocketProtocol
from support.raw_socket import HANDSHAKE

CONNECTIONS = 100

App = Callable[[Any, Any, Any], Awaitable[None]]


class IterationCounter:
    """Counts events of a kind, and those of one iteration of the event loop."""

    def __init__(self) -> None:
        self._iteration = 0
        self._seen: dict[str, Counter[int]] = {}
        self._next_iteration()

    def _next_iteration(self) -> None:
        self._iteration += 1
        asyncio.get_running_loop().call_soon(self._next_iteration)

    def count(self, kind: str) -> None:
        self._seen.setdefault(kind, Counter())[self._iteration] += 1

    def most(self, kind: str) -> int:
        """Of one iteration."""
        return max(self._seen[kind].values())

    async def wait_for(self, kind: str, total: int) -> None:
        async with asyncio.timeout(60):
            while self._seen.get(kind, Counter()).total() < total:
                await asyncio.sleep(0)


@asynccontextmanager
async def serving(
    app: App, made: Callable[[EdgeHttpProtocol], object]
) -> AsyncIterator[tuple[tuple[str, int], ServerState]]:
    """A server of the edge's protocols. Calls `made` for each new connection."""
    limiter = HttpConnectionLimiter(60.0, 60.0, 0, lambda _: None, EdgeMetrics("edge").rejected)
    shared = {"connection_limiter": limiter, "fair_queue": FairQueue()}
    sockets = {**shared, "bytes_per_s": 1000.0, "budget": ByteBudget(1000)}

    class Http(EdgeHttpProtocol):
        def connection_made(self, transport: Any) -> None:
            made(self)
            super().connection_made(transport)

    config = uvicorn.Config(
        app,
        http=type("HttpProtocol", (Http,), shared),
        ws=type("WsProtocol", (EdgeWebSocketProtocol,), sockets),
        lifespan="off",
        log_config=None,
    )
    config.load()
    state = ServerState()
    assert isinstance(config.http_protocol_class, type)
    factory = partial(config.http_protocol_class, config=config, server_state=state, app_state={})
    server = await asyncio.get_running_loop().create_server(
        factory, "127.0.0.1", 0, backlog=2 * CONNECTIONS
    )
    yield server.sockets[0].getsockname(), state
    server.close()
    async with asyncio.timeout(60):
        while state.connections or state.tasks:
            await asyncio.sleep(0.01)


def connect(address: tuple[str, int], data: bytes) -> list[socket.socket]:
    """Connections with a request each, all within one iteration of the event loop."""
    clients = [socket.create_connection(address) for _ in range(CONNECTIONS)]
    for client in clients:
        client.sendall(data)
    return clients


@pytest.mark.parametrize("noticed_by", ["receive", "send"])
def test_an_iteration_begins_and_ends_a_bounded_number_of_connections(noticed_by: str) -> None:
    """Applications notice a lost connection while they receive, or all at once when they send."""

    async def run() -> dict[str, int]:
        iterations, closed = IterationCounter(), asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            iterations.count("handshakes")
            await receive()
            await send({"type": "websocket.accept"})
            iterations.count("accepted")
            if noticed_by == "send":
                await closed.wait()
                with pytest.raises(OSError):  # noqa: PT011 - uvicorn's exception has no message
                    await send({"type": "websocket.send", "text": "{}"})
            else:
                with pytest.raises(ClientGone):
                    await scope["state"]["receive_frame"](binary=False)
            iterations.count("ended")

        async with serving(app, lambda _: iterations.count("connections")) as (address, state):
            clients = connect(address, HANDSHAKE)
            await iterations.wait_for("accepted", CONNECTIONS)
            for client in clients:
                client.close()
            async with asyncio.timeout(60):
                while state.connections:
                    await asyncio.sleep(0)
            closed.set()
            await iterations.wait_for("ended", CONNECTIONS)
        kinds = ("connections", "handshakes", "accepted", "ended")
        return {kind: iterations.most(kind) for kind in kinds}

    most = uvloop.run(run())  # as in a service
    assert max(most.values()) <= PER_ITERATION, most


@pytest.mark.parametrize("closed_by", ["client", "server"])
def test_a_closed_connection_leaves_no_garbage(closed_by: str) -> None:
    """A full collection stops the event loop for longer than anything else in a burst."""

    async def run() -> int:
        iterations, protocols = IterationCounter(), list[weakref.ref[object]]()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            protocols.append(weakref.ref(scope["state"]["probe"].__self__))
            await receive()
            await send({"type": "websocket.accept"})
            iterations.count("accepted")
            if closed_by == "server":
                await send({"type": "websocket.close", "code": 1013})
            with suppress(ClientGone):
                await scope["state"]["receive_frame"](binary=False)

        made = list[weakref.ref[object]]()
        async with serving(app, lambda new: made.append(weakref.ref(new))) as (address, _):
            clients = connect(address, HANDSHAKE)
            await iterations.wait_for("accepted", CONNECTIONS)
            for client in clients:
                client.close()
        assert len(protocols) == len(made) == CONNECTIONS
        return sum(reference() is not None for reference in protocols + made)

    gc.disable()
    try:
        assert not uvloop.run(run())
    finally:
        gc.enable()
