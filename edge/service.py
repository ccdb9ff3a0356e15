"""One edge process: start, serve, drain."""

import asyncio
import gc
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from typing import Any

import structlog
import uvicorn
from fastapi import FastAPI

from antiphon.broker.service.listening import listen
from antiphon.broker.service.process import (
    first_of,
    freeze_heap,
    keep_freed_memory,
    stop_on_signals,
)
from antiphon.broker.service.status_port import serve_http, status_port
from antiphon.edge.access.http_limits import HttpConnectionLimiter
from antiphon.edge.app import create_app
from antiphon.edge.edge_context import EdgeContext
from antiphon.edge.routes.socket_routes import LONG_FRAMES
from antiphon.edge.settings import EdgeSettings
from antiphon.edge.transport.fair_queue import FairQueue
from antiphon.edge.transport.http_protocol import EdgeHttpProtocol
from antiphon.edge.transport.http_server import EdgeServer
from antiphon.edge.transport.websocket_protocol import EdgeWebSocketProtocol

log = structlog.get_logger()

WS_MAX_BYTES = 16 * 1024 * 1024
"""A larger frame closes the connection with 1009 before it is read. Chats may send more."""

_SHUTDOWN_S = 3

_NEW_OBJECTS = 5000
"""Before a garbage collection: Python's 700 are the messages of some sessions, which need none."""

_MIDDLE_COLLECTIONS = 30
"""Before a full garbage collection, which takes 40 ms with 500 connections: Python's 10 are one burst."""


async def run(settings: EdgeSettings, stop: asyncio.Event | None = None) -> None:
    """Serve until `stop` is set (SIGTERM and SIGINT set it by default), then drain.

    Raises CannotListen, and BrokerUnavailable without Redis.
    """
    stop = stop or stop_on_signals()
    async with serving(settings) as (edge, url):
        freeze_heap()
        keep_freed_memory()
        gc.set_threshold(_NEW_OBJECTS, gc.get_threshold()[1], _MIDDLE_COLLECTIONS)
        log.info("edge_ready", edge=edge.id, url=url, status=edge.status_address)
        await first_of(stop.wait(), asyncio.shield(edge.upkeep))  # no edge works without its upkeep
        log.info("edge_draining", sessions=len(edge.events.serving()))
        await edge.drain()
    log.info("edge_stopped")


@asynccontextmanager
async def serving(settings: EdgeSettings) -> AsyncIterator[tuple[EdgeContext, str]]:
    """A listening edge and its base URL; closes all open connections at the end."""
    with closing(bind(settings.host, settings.port)) as listener:
        app = create_app(settings)
        async with app.router.lifespan_context(app):
            if app.state.edge.access.open_to_everyone:
                remedy = "set ANTIPHON_API_KEYS_FILE or ANTIPHON_API_KEYS, or listen on 127.0.0.1"
                log.warning("edge_without_keys", listens_on=settings.host, remedy=remedy)
            edge: EdgeContext = app.state.edge
            server = _server(app, edge)
            edge.refuse_newcomers = server.refuse_newcomers
            async with (
                _status_port(edge) as edge.status_address,
                serve_http(server, listener, "edge-server") as address,
            ):
                try:
                    yield edge, f"http://{address}"
                finally:
                    edge.admin_feed.close()


def bind(host: str, port: int) -> socket.socket:
    """A listening socket. Raises CannotListen."""
    listener = listen("the edge (ANTIPHON_HOST, ANTIPHON_PORT)", host, port, backlog=2048)
    listener.setblocking(False)
    return listener


def _status_port(edge: EdgeContext) -> AbstractAsyncContextManager[str]:
    """Not the clients' port: metrics are for operators, and each scrape reads Redis."""

    def health() -> tuple[bool, dict[str, Any]]:
        status = "draining" if edge.draining else "healthy"
        sessions = len(edge.events.serving())
        about = {"status": status, "ready": not edge.draining, "edge_id": edge.id}
        return True, {**about, "sessions": sessions}

    settings, metrics = edge.settings, edge.metrics
    return status_port(
        settings.health_host,
        settings.edge_health_port,
        health,
        metrics.registry,
        setting="ANTIPHON_EDGE_HEALTH_PORT",
        refresh=lambda: metrics.fleet.refresh(edge.broker),
    )


def _server(app: FastAPI, edge: EdgeContext) -> EdgeServer:
    settings = edge.settings
    limiter = HttpConnectionLimiter(
        settings.request_head_s,
        settings.send_stall_s,
        settings.max_sockets_per_address,
        edge.access.peer_limit_key,
        edge.metrics.rejected,
    )
    shared = {"connection_limiter": limiter, "fair_queue": FairQueue()}
    ws = {
        **shared,
        "long_frames": dict.fromkeys(LONG_FRAMES, max(WS_MAX_BYTES, settings.max_chat_bytes)),
        "bytes_per_s": settings.input_bytes_per_s,
        "budget": edge.chat_budget,
    }
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    config = uvicorn.Config(
        app,
        http=type("HttpProtocol", (EdgeHttpProtocol,), shared),
        ws=type("WsProtocol", (EdgeWebSocketProtocol,), ws),
        ws_max_size=WS_MAX_BYTES,
        ws_per_message_deflate=False,
        ws_ping_interval=settings.ping_interval_s,
        ws_ping_timeout=settings.ping_timeout_s,
        lifespan="off",
        access_log=False,
        proxy_headers=False,  # access/addresses.py reads the headers, from trusted proxies only
        server_header=False,
        log_config=None,
        timeout_graceful_shutdown=_SHUTDOWN_S,
    )
    return EdgeServer(config, limiter)
