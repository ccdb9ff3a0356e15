"""Servers of the edge's protocols with any application, and clients that write bytes."""

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from antiphon.broker.service.listening import listen
from antiphon.broker.service.status_port import serve_http
from antiphon.edge.access.http_limits import HttpConnectionLimiter
from antiphon.edge.access.limits import ByteBudget
from antiphon.edge.metrics import EdgeMetrics
from antiphon.edge.transport.fair_queue import FairQueue
from antiphon.edge.transport.http_protocol import EdgeHttpProtocol
from antiphon.edge.transport.http_server import EdgeServer
from antiphon.edge.transport.websocket_protocol import EdgeWebSocketProtocol

App = Callable[[Any, Any, Any], Awaitable[None]]
Address = tuple[str, int]

_WITHIN_S = 60.0
_BACKLOG = 200


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

    def total(self, kind: str) -> int:
        return self._seen.get(kind, Counter()).total()

    def span(self, kind: str) -> int:
        """Iterations from the first to the last event."""
        return max(self._seen[kind]) - min(self._seen[kind]) + 1

    async def wait_for(self, kind: str, total: int) -> None:
        async with asyncio.timeout(_WITHIN_S):
            while self.total(kind) < total:
                await asyncio.sleep(0)


def limiter_of(stall_s: float = 60.0, *, address: str | None = None) -> HttpConnectionLimiter:
    """Counts all connections as those of `address`; None: without a cap."""
    return HttpConnectionLimiter(
        60.0, stall_s, 100, lambda _: address, EdgeMetrics("edge").rejected
    )


def protocols(
    app: App, limiter: HttpConnectionLimiter, http: type[EdgeHttpProtocol] = EdgeHttpProtocol
) -> uvicorn.Config:
    """The configuration of a server with the protocols of the edge."""
    shared = {"connection_limiter": limiter, "fair_queue": FairQueue()}
    sockets = {**shared, "bytes_per_s": 1000.0, "budget": ByteBudget(1000)}
    return uvicorn.Config(
        app,
        http=type("HttpProtocol", (http,), shared),
        ws=type("WsProtocol", (EdgeWebSocketProtocol,), sockets),
        lifespan="off",
        log_config=None,
        timeout_graceful_shutdown=1,
    )


@asynccontextmanager
async def serving(
    app: App,
    made: Callable[[EdgeHttpProtocol], object] = id,
    *,
    http: type[EdgeHttpProtocol] = EdgeHttpProtocol,
    limiter: HttpConnectionLimiter | None = None,
) -> AsyncIterator[tuple[Address, ServerState]]:
    """A server of the edge's protocols. Calls `made` for each new connection."""

    class Http(http):  # type: ignore[misc, valid-type]
        def connection_made(self, transport: Any) -> None:
            made(self)
            super().connection_made(transport)

    config = protocols(app, limiter_of() if limiter is None else limiter, Http)
    config.load()
    state = ServerState()
    create: Any = config.http_protocol_class
    factory = partial(create, config=config, server_state=state, app_state={})
    server = await asyncio.get_running_loop().create_server(
        factory, "127.0.0.1", 0, backlog=_BACKLOG
    )
    yield server.sockets[0].getsockname(), state
    server.close()
    async with asyncio.timeout(_WITHIN_S):
        while state.connections or state.tasks:
            await asyncio.sleep(0.01)


@asynccontextmanager
async def accepting(
    app: App, http: type[EdgeHttpProtocol], limiter: HttpConnectionLimiter
) -> AsyncIterator[Address]:
    """The server of the edge, which accepts connections itself."""
    with listen("a test", "127.0.0.1", 0, backlog=_BACKLOG) as listener:
        listener.setblocking(False)
        server = EdgeServer(protocols(app, limiter, http), limiter)
        async with serve_http(server, listener, "test-server") as address:
            yield address_of(address)


def address_of(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)


async def exchange(address: Address, *pieces: bytes) -> bytes:
    """Everything that the server sends until it closes; `pieces` are sent one after another."""
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setblocking(False)
        received = bytearray()
        async with asyncio.timeout(_WITHIN_S):
            await loop.sock_connect(client, address)
            reading = asyncio.create_task(_read(client, received))
            try:
                for piece in pieces:
                    await loop.sock_sendall(client, piece)
                    await asyncio.sleep(0)
            except ConnectionError:
                pass  # the server may close while the client still sends
            await reading
    return bytes(received)


async def _read(client: socket.socket, received: bytearray) -> None:
    try:
        while data := await asyncio.get_running_loop().sock_recv(client, 65536):
            received += data
    except ConnectionError:
        pass
