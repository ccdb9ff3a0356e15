"""`/ws/chat` and `POST /api/chat`: one request with its history, one answer."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

import structlog
from fastapi import APIRouter, Request, Response, WebSocket
from starlette.requests import ClientDisconnect

from antiphon.edge.access.limits import Reservation
from antiphon.edge.boarding import Berth, boarding
from antiphon.edge.chat_cookie import remember_chat, remembered_chat
from antiphon.edge.context import EdgeContext
from antiphon.edge.dialects import Dialect, plain
from antiphon.edge.doors.chat import ChatDoor, read_body, read_request
from antiphon.edge.doors.frames import check_size
from antiphon.edge.errors import ClientGone
from antiphon.edge.http_line import HttpLine
from antiphon.edge.live_session import LiveSession
from antiphon.edge.protocols.chat import ChatMachine
from antiphon.edge.protocols.chat_http import ChatHttpMachine, http
from antiphon.edge.reception import reception, refuse, visit
from antiphon.edge.routes.deps import NEEDS_REDIS, EdgeDep
from antiphon.edge.routes.models import StopAnswer
from antiphon.edge.settings import EdgeSettings
from antiphon.edge.transport.connection import ClientConnection
from antiphon.edge.wishes import Wishes, read_wishes
from antiphon.shared_schemas.apps import TURNBASED
from antiphon.shared_schemas.chat_messages import ChatProblem, ChatRequest, ChatResponse
from antiphon.shared_schemas.entries import ChatIn
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.events import SessionCommand
from antiphon.shared_schemas.states import SessionKind

log = structlog.get_logger()

_HERE = "#/paths/~1api~1chat/post/requestBody/content/application~1json/schema"
_REQUEST = ChatRequest.model_json_schema(ref_template=f"{_HERE}/$defs/{{model}}")
_BODY: dict[str, Any] = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": _REQUEST}}}
}
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": ChatProblem, "description": text}
    for status, text in {
        400: "The body is not JSON",
        403: "The page is switched off",
        408: "The body took too long",
        409: "The request was taken out of the queue",
        413: "The body is too long",
        422: "A field cannot be used; `field` names it",
        429: "Too many requests from this address",
        500: "The engine failed",
        503: "No capacity just now, or Redis does not answer",
    }.items()
}

router = APIRouter(tags=["chat"])


@router.websocket("/ws/chat")
async def chat_socket(socket: WebSocket) -> None:
    """Serve one client: the first frame is the request."""
    name = _new_name()
    async with (
        reception(socket, plain, remember_chat(socket, name)) as (edge, connection),
        visit(edge, socket, TURNBASED),
    ):
        wishes = read_wishes(socket.query_params)
        machine = partial(ChatMachine, resumable=wishes.resume)
        with edge.chat_budget.reserve() as reservation:
            asked = _request(connection, edge, wishes, reservation)
            await _serve(edge, connection, name, asked, machine, plain, wishes)


@router.post("/api/chat", response_model=ChatResponse, responses=_PROBLEMS, openapi_extra=_BODY)
async def chat(edge: EdgeDep, request: Request) -> Response:
    """Answer in one piece. A client that gives up frees the worker."""
    line = HttpLine(request)
    try:
        async with visit(edge, request, TURNBASED):
            with edge.chat_budget.reserve() as reservation:
                asked = _posted(request, edge, reservation)
                await _serve(edge, line, _new_name(), asked, ChatHttpMachine, http, Wishes())
    except (ClientGone, ClientDisconnect):
        log.info("client_gone_early", path="/api/chat")
    except Exception as error:  # noqa: BLE001 - the door of the process: told and logged
        await refuse(edge, line, http, error)
    return line.response()


@router.post("/api/streaming/stop", responses=NEEDS_REDIS)
async def stop(edge: EdgeDep, request: Request) -> StopAnswer:
    """Cut the answer short that this browser's last `/ws/chat` is getting; it ends with `done`."""
    name = remembered_chat(request)
    if name and await edge.broker.sessions.send_command(
        name, SessionKind.CHAT, SessionCommand.INTERRUPT
    ):
        return StopAnswer(success=True, message="stop signal sent")
    return StopAnswer(success=False, message="no chat of this browser is being answered")


def _new_name() -> str:
    return f"chat_{secrets.token_hex(8)}"


async def _request(
    connection: ClientConnection, edge: EdgeContext, wishes: Wishes, reservation: Reservation
) -> ChatIn | None:
    """None where the session has it. Raises BudgetExceeded, too."""
    if wishes.back:
        return None
    frame = await _first_frame(connection, edge)
    reservation.add(len(frame))
    request = await read_request(frame, edge.settings, edge.broker.voices.sound)
    return replace(request, progress=wishes.progress)


async def _posted(request: Request, edge: EdgeContext, reservation: Reservation) -> ChatIn:
    body = await _body(request, edge.settings, reservation)
    return await read_body(body, edge.settings, edge.broker.voices.sound)


async def _serve(
    edge: EdgeContext,
    line: ClientConnection,
    name: str,
    asked: Awaitable[ChatIn | None],
    machine: Callable[[ChatIn | None, str], ChatMachine],
    dialect: Dialect,
    wishes: Wishes,
) -> None:
    """The request's only holder is the machine, which lets go of it with the grant."""
    request = await asked
    berth = Berth(SessionKind.CHAT, "chat", [name])
    async with boarding(edge, berth, wishes) as admitted:
        translator = machine(request, admitted.recording)
        del request
        door, unsent = ChatDoor(edge.settings), edge.settings.unsent_turns
        await LiveSession(edge, line, admitted, door, translator, dialect, unsent).run()


async def _first_frame(line: ClientConnection, edge: EdgeContext) -> str | bytes:
    patience_s = edge.settings.chat_request_s
    try:
        async with asyncio.timeout(patience_s):
            return await line.receive()
    except TimeoutError:
        text = f"no request within {patience_s:g} s"
        raise InvalidInput(text, code=ErrorCode.NOT_READY) from None


async def _body(request: Request, limits: EdgeSettings, reservation: Reservation) -> bytes:
    """Raises InvalidInput as soon as it is too long or too late, or BudgetExceeded."""
    body, patience_s = bytearray(), limits.chat_request_s
    try:
        async with asyncio.timeout(patience_s):
            async for piece in request.stream():
                body += piece
                check_size(len(body), limits.max_chat_bytes)
                reservation.add(len(piece))
    except TimeoutError:
        text = f"request not complete within {patience_s:g} s; it came to {len(body)} bytes"
        raise InvalidInput(text, code=ErrorCode.SLOW_CONSUMER) from None
    return bytes(body)
