"""The HTTP port of a service: `/health` and `/ready` for containers, `/metrics` for Prometheus."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from typing import Any

import orjson
import uvicorn
from prometheus_client import CollectorRegistry, make_asgi_app

from antiphon.broker.service.listening import listen

Health = Callable[[], tuple[bool, dict[str, Any]]]
"""Whether the service is healthy, and the body of the answer."""

Refresh = Callable[[], Awaitable[None]]
"""Takes the values that a scrape reads; called before each."""


class HttpServer(uvicorn.Server):
    """uvicorn's server for a service that handles signals itself."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The service ends its work first."""
        yield


@asynccontextmanager
async def serve_http(server: HttpServer, listener: socket.socket, name: str) -> AsyncIterator[str]:
    """Serve on a listening socket during the block, in a task of this name; yields `host:port`."""
    serving = asyncio.create_task(server.serve(sockets=[listener]), name=name)
    host, port = listener.getsockname()[:2]
    try:
        yield f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    finally:
        server.should_exit = True
        await serving


@asynccontextmanager
async def status_port(
    host: str,
    port: int,
    health: Health,
    registry: CollectorRegistry,
    *,
    setting: str,
    refresh: Refresh | None = None,
) -> AsyncIterator[str]:
    """Serve during the block; yields `host:port`. Port 0 takes a free one.

    `setting`: the variable that has the port. Raises CannotListen, which names it.
    """
    config = uvicorn.Config(
        status_app(health, registry, refresh),
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    page = f"the health page (ANTIPHON_HEALTH_HOST, {setting})"
    with closing(listen(page, host, port)) as listener:
        async with serve_http(HttpServer(config), listener, "status-port") as address:
            yield address


def status_app(health: Health, registry: CollectorRegistry, refresh: Refresh | None) -> Any:
    """The ASGI application: 200 or 503 on `/health` and `/ready`, the exposition on `/metrics`, else 404.

    A service is ready if it is well, unless `ready` in its health page is false.
    """
    metrics = make_asgi_app(registry)

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["path"] == "/metrics":
            if refresh is not None:
                await refresh()
            await metrics(scope, receive, send)
        elif scope["path"] in ("/health", "/ready"):
            well, about = health()
            if scope["path"] == "/ready":
                well = well and about.get("ready", True)
            await _answer(send, 200 if well else 503, about)
        else:
            await _answer(send, 404, {"error": "there are /health, /ready and /metrics"})

    return app


async def _answer(send: Any, status: int, body: dict[str, Any]) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": orjson.dumps(body)})
