"""How a connection begins, whatever it speaks: accepted, let in, or told why not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import structlog
from fastapi import WebSocket
from starlette.requests import HTTPConnection

from antiphon.edge.context import EdgeContext
from antiphon.edge.dialects import Dialect
from antiphon.edge.errors import (
    ClientGone,
    Close,
    PageDisabled,
    ResumeExpired,
    TooManyConnections,
    explain,
)
from antiphon.edge.transport.connection import (
    ClientConnection,
    SocketConnection,
    choose_encoding,
    choose_subprotocol,
)
from antiphon.shared_schemas.apps import App
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.ids import is_session_id
from antiphon.shared_schemas.wire import encode

log = structlog.get_logger()


@asynccontextmanager
async def reception(
    socket: WebSocket, dialect: Dialect, headers: Sequence[tuple[bytes, bytes]] = ()
) -> AsyncIterator[tuple[EdgeContext, SocketConnection]]:
    """An accepted connection. What is raised inside is told to the client and closes it."""
    edge: EdgeContext = socket.app.state.edge
    protocol = choose_subprotocol(socket.scope.get("subprotocols", ()))
    await socket.accept(subprotocol=protocol, headers=headers)
    connection = SocketConnection(socket)
    try:
        connection.encoding = choose_encoding(protocol, socket.query_params.get("pcm"))
        yield edge, connection
    except ClientGone:
        log.info("client_gone_early", path=socket.url.path)
    except ResumeExpired:
        log.info("resume_refused", path=socket.url.path)
        edge.metrics.resumes.labels("expired").inc()
        with suppress(ClientGone):
            await connection.close(Close.RESUME_EXPIRED)
    except TooManyConnections as error:
        await refuse(edge, connection, dialect, error)
        connection.force_close(Close.TRY_LATER, "rate_limited")
    except Exception as error:  # noqa: BLE001 - the door of the process: told, logged, closed
        await refuse(edge, connection, dialect, error)


@asynccontextmanager
async def visit(edge: EdgeContext, caller: HTTPConnection, app: App) -> AsyncIterator[None]:
    """A stay that counts for its address. Raises TooManyConnections, PageDisabled, BrokerUnavailable."""
    with edge.connection_limiter.hold(edge.access.client_limit_key(caller)):
        await check_open(edge, app)
        yield


async def check_open(edge: EdgeContext, app: App) -> None:
    """Raises PageDisabled, on every edge from the moment the switch was turned; or BrokerUnavailable."""
    if await edge.broker.apps.is_off(app.app_id):
        raise PageDisabled(app.name)


def check_session_id(sid: str) -> None:
    """Raises InvalidInput; the routes take any text, so that a bad id is answered and not just dropped."""
    if not is_session_id(sid):
        text = "session_id: must be 1 to 64 of A-Z a-z 0-9 _ -"
        raise InvalidInput(text, field="session_id", code=ErrorCode.INVALID_SESSION_ID)


async def refuse(
    edge: EdgeContext, line: ClientConnection, dialect: Dialect, error: Exception
) -> None:
    """Tell why there is no session, and close."""
    fault = explain(error)
    edge.metrics.rejected.labels(fault.message.code).inc()
    if not fault.expected:
        log.error("connection_crashed", exc_info=error)
    try:
        for message in dialect(fault):
            await line.send(encode(message))
        await line.close(fault.close or Close.POLICY)
    except ClientGone:
        log.info("refused_client_gone", code=fault.message.code)
