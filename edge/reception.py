"""How a connection begins, whatever it speaks: accepted, let in, or told why not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog
from fastapi import WebSocket
from starlette.requests import HTTPConnection

from edge.admission import join_queue
from edge.connection import Connection, Line
from edge.dialects import Dialect
from edge.errors import ClientGone, Draining, PageOff, TooManyConnections, explain
from edge.node import Edge
from edge.protocols.contract import Close
from edge.seats import Seat
from shared_schemas.apps import App
from shared_schemas.errors import ErrorCode, InvalidInput
from shared_schemas.ids import is_session_id, new_recording_id
from shared_schemas.registry import Ticket
from shared_schemas.states import SessionKind
from shared_schemas.wire import encode

log = structlog.get_logger()

PROTOCOL = "antiphon.v1"
"""What a client that offers subprotocols gets: never the one that carries its key."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """A session that stands in the queue."""

    seat: Seat
    ticket: Ticket
    recording: str


@asynccontextmanager
async def reception(socket: WebSocket, dialect: Dialect) -> AsyncIterator[tuple[Edge, Connection]]:
    """An accepted connection. What is raised inside is told to the client and closes it."""
    edge: Edge = socket.app.state.edge
    offered = socket.scope.get("subprotocols", ())
    await socket.accept(subprotocol=PROTOCOL if PROTOCOL in offered else None)
    connection = Connection(socket)
    try:
        yield edge, connection
    except ClientGone:
        log.info("client_gone_early", path=socket.url.path)
    except TooManyConnections as error:
        await refuse(connection, dialect, error)
        connection.force_close(Close.TRY_LATER, "rate_limited")
    except Exception as error:  # noqa: BLE001 - the door of the process: told, logged, closed
        await refuse(connection, dialect, error)


@asynccontextmanager
async def visit(edge: Edge, caller: HTTPConnection, app: App) -> AsyncIterator[None]:
    """A stay that counts for its address. Raises TooManyConnections, PageOff, BrokerUnavailable."""
    with edge.visitors.stay(edge.access.visitor(caller)):
        await check_open(edge, app)
        yield


async def check_open(edge: Edge, app: App) -> None:
    """Raises PageOff, on every edge from the moment the switch was turned; or BrokerUnavailable."""
    if await edge.broker.apps.is_off(app.app_id):
        raise PageOff(app.name)


def check_session_id(sid: str) -> None:
    """Raises InvalidInput; the routes take any text, so that a bad id is answered and not just dropped."""
    if not is_session_id(sid):
        text = "session_id: must be 1 to 64 of A-Z a-z 0-9 _ -"
        raise InvalidInput(text, field="session_id", code=ErrorCode.INVALID_SESSION_ID)


async def admit(edge: Edge, seat: Seat, kind: SessionKind) -> Admitted:
    """Enqueue the seat's session. Raises Draining, SessionExists, QueueFull or BrokerUnavailable."""
    if edge.draining:
        raise Draining
    sid, recording = seat.sid, new_recording_id()
    ticket = await join_queue(
        edge.broker, edge.endings, sid, kind, edge=edge.id, recording=recording
    )
    seat.take(ticket.number)
    log.info("session_joined", sid=sid, kind=kind, ticket=ticket.number)
    return Admitted(seat, ticket, recording)


async def refuse(line: Line, dialect: Dialect, error: Exception) -> None:
    """Tell why there is no session, and close."""
    fault = explain(error)
    if not fault.expected:
        log.error("connection_crashed", exc_info=error)
    try:
        for message in dialect(fault):
            await line.send(encode(message))
        await line.close(fault.close or Close.POLICY)
    except ClientGone:
        log.info("refused_client_gone", code=fault.message.code)
