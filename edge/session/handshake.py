"""The beginning of a connection, for all protocols: accept it, count it, or reject it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import structlog
from fastapi import WebSocket
from starlette.requests import HTTPConnection

from antiphon.edge.edge_context import EdgeContext
from antiphon.edge.errors import (
    ClientGone,
    Close,
    Fault,
    PageDisabled,
    ResumeExpired,
    TooManyConnections,
    explain,
)
from antiphon.edge.protocols.machine import ErrorEncoder
from antiphon.edge.transport.connection import (
    ClientConnection,
    SocketConnection,
    choose_subprotocol,
)
from antiphon.shared_schemas.apps import App

log = structlog.get_logger()


@asynccontextmanager
async def accept(
    socket: WebSocket,
    encode_error: ErrorEncoder,
    headers: Sequence[tuple[bytes, bytes]] = (),
    subprotocols: Sequence[str] = (),
) -> AsyncIterator[tuple[EdgeContext, SocketConnection]]:
    """An accepted connection that encodes JSON. An exception inside is reported and closes it.

    `subprotocols`: those of the protocol, in addition to the shared ones.
    """
    context: EdgeContext = socket.app.state.edge
    subprotocol = choose_subprotocol(socket.scope.get("subprotocols", ()), subprotocols)
    await socket.accept(subprotocol=subprotocol, headers=headers)
    connection = SocketConnection(socket)
    try:
        yield context, connection
    except ClientGone:
        log.info("client_gone_early", path=socket.url.path)
    except ResumeExpired:
        log.info("resume_refused", path=socket.url.path)
        context.metrics.resumes.labels("expired").inc()
        with suppress(ClientGone):
            await connection.close(Close.RESUME_EXPIRED)
    except TooManyConnections as error:
        await reject(context, connection, encode_error, error)
        connection.force_close(Close.TRY_LATER, "rate_limited")
    except Exception as error:  # noqa: BLE001 - last resort: report, log, close
        await reject(context, connection, encode_error, error)


@asynccontextmanager
async def limit_connections(
    context: EdgeContext, caller: HTTPConnection, app: App
) -> AsyncIterator[None]:
    """Count a connection for its address. Raises TooManyConnections, PageDisabled, BrokerUnavailable."""
    with context.connection_limiter.hold(context.access.client_limit_key(caller)):
        if await context.broker.apps.is_disabled(app.app_id):
            raise PageDisabled(app.name)
        yield


def refuse(context: EdgeContext, error: Exception) -> Fault:
    """Count and log why there is no session. Returns what its client receives."""
    fault = explain(error)
    context.metrics.rejected.labels(fault.message.code).inc()
    if not fault.expected:
        log.error("connection_crashed", exc_info=error)
    return fault


async def reject(
    context: EdgeContext, connection: ClientConnection, encode_error: ErrorEncoder, error: Exception
) -> None:
    """Report why there is no session, and close."""
    fault = refuse(context, error)
    try:
        for message in encode_error(fault):
            await connection.send(connection.encoding.encode(message))
        await connection.close(fault.close or Close.POLICY)
    except ClientGone:
        log.info("refused_client_gone", code=fault.message.code)
