"""`POST /api/chat`, one request with its history and one answer, and the two stop buttons."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import structlog
from fastapi import APIRouter, Request, Response
from starlette.requests import ClientDisconnect

from antiphon.edge.access.guards import client_owner, remembered_chat
from antiphon.edge.access.limits import Reservation
from antiphon.edge.context import EdgeContext
from antiphon.edge.errors import ClientGone, Close, Fault, error_message
from antiphon.edge.json_text import Utf8Text
from antiphon.edge.media.decode import too_large
from antiphon.edge.protocols.chat import (
    ChatDecoder,
    ChatHttpMachine,
    decode_request,
    encode_http_error,
)
from antiphon.edge.routes.deps import NEEDS_REDIS, TAKES_BODY, EdgeDep
from antiphon.edge.routes.models import StopAnswer, StopRequest
from antiphon.edge.routes.sockets import new_chat
from antiphon.edge.session.admission import AdmittedSession, ConnectOptions
from antiphon.edge.session.handshake import limit_connections, reject
from antiphon.edge.session.session import ProtocolSpec, serve_session
from antiphon.edge.settings import EdgeSettings
from antiphon.edge.transport.connection import Encoding, ServerFrame
from antiphon.shared_schemas.apps import TURNBASED
from antiphon.shared_schemas.entries import ChatIn, InEntry, StopIn
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.messages.chat import ChatProblem, ChatRequest, ChatResponse, HttpBody
from antiphon.shared_schemas.registry import SessionCommand
from antiphon.shared_schemas.states import SessionKind
from antiphon.shared_schemas.wire import ServerMessage, TextParts, encode_text

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
        503: "No capacity or no worker just now, or Redis does not answer",
    }.items()
}

_STATUS_OF_CLOSE = {
    Close.NORMAL: 200,
    Close.UNSUPPORTED: 400,
    Close.POLICY: 422,
    Close.INTERNAL: 500,
    Close.RESTART: 503,
    Close.TRY_LATER: 503,
}
_STATUS_OF_CODE: dict[str, int] = {
    ErrorCode.MESSAGE_TOO_LARGE: 413,
    ErrorCode.CANCELLED: 409,
    ErrorCode.PAGE_OFF: 403,
    ErrorCode.RATE_LIMITED: 429,
    ErrorCode.SLOW_CONSUMER: 408,
}
_CLIENT_GONE = 499

PATH = "/api/chat"

router = APIRouter()


class HttpExchange:
    """An HTTP request as a connection without further input. The message it is sent is the body."""

    def __init__(self, request: Request) -> None:
        self.encoding = Encoding(encode=self._encode)
        self._request = request
        self._body: str | bytes = b""
        self._code: str | None = None
        self._close: Close | None = None

    async def receive(self) -> str | bytes:
        """Waits until the client leaves. Raises ClientGone."""
        while (await self._request.receive())["type"] != "http.disconnect":
            pass
        raise ClientGone

    async def send(self, frame: ServerFrame) -> None:
        self.send_now(frame)

    def send_now(self, frame: ServerFrame) -> bool:
        self._body = frame.text() if isinstance(frame, TextParts) else frame
        return True

    async def close(self, code: Close) -> None:
        self._close = code

    def force_close(self, code: Close, reason: str) -> None:
        """Without a body, the response is an error: the answer cannot be delivered."""
        self._close = code
        if not self._body:
            text = f"the answer could not be delivered ({reason}); try again"
            fault = Fault(error_message(ErrorCode.INTERNAL, text, retryable=True))
            self._body = "".join(map(self._encode, encode_http_error(fault)))

    def probe(self, answered: Callable[[], None]) -> None:
        """A request cannot be resumed, so there is no token to confirm."""

    def response(self) -> Response:
        """The response, once the session is over."""
        if self._close is None:
            return Response(status_code=_CLIENT_GONE)
        status = _STATUS_OF_CLOSE[self._close]
        if self._code is not None:
            status = _STATUS_OF_CODE.get(self._code, status)
        retry = {"Retry-After": "1"} if self._close in (Close.TRY_LATER, Close.RESTART) else None
        return Response(self._body, status, retry, media_type="application/json")

    def _encode(self, message: ServerMessage) -> str:
        body = message.body if isinstance(message, HttpBody) else None
        self._code = body.code if isinstance(body, ChatProblem) else None
        return encode_text(message).text()


def _start(
    context: EdgeContext, admitted: AdmittedSession, first: InEntry | None
) -> tuple[ChatDecoder, ChatHttpMachine]:
    assert isinstance(first, ChatIn)
    clock, settings = asyncio.get_running_loop().time, context.settings
    machine = ChatHttpMachine(first, admitted.recording, clock, settings.no_worker_grace_s)
    return ChatDecoder(settings), machine


CHAT_HTTP: ProtocolSpec[StopIn] = ProtocolSpec(_start, encode_http_error, turns=True)


@router.post(
    PATH,
    response_model=ChatResponse,
    responses=_PROBLEMS,
    openapi_extra=_BODY,
    tags=["chat"],
)
async def chat(edge: EdgeDep, request: Request) -> Response:
    """Answer in one piece. If the client disconnects, the worker is freed."""
    exchange = HttpExchange(request)
    try:
        async with limit_connections(edge, request, TURNBASED):
            with edge.chat_budget.reserve() as reservation:
                read_first = partial(_read_request, request, edge, reservation)
                asked = replace(new_chat(), client=edge.access.client_id(request))
                await serve_session(edge, exchange, CHAT_HTTP, asked, ConnectOptions(), read_first)
    except (ClientGone, ClientDisconnect):
        log.info("client_gone_early", path=PATH)
    except Exception as error:  # noqa: BLE001 - last resort: report and log
        await reject(edge, exchange, encode_http_error, error)
    return exchange.response()


@router.post("/api/streaming/stop", responses=NEEDS_REDIS, name="stop", tags=["chat"])
async def stop_chat(edge: EdgeDep, request: Request) -> StopAnswer:
    """Stop the answer of this browser's last `/ws/chat`, which ends with `done`."""
    sid = remembered_chat(request)
    if sid and await edge.broker.sessions.send_command(
        sid, SessionKind.CHAT, SessionCommand.INTERRUPT
    ):
        return StopAnswer(success=True, message="stop signal sent")
    return StopAnswer(success=False, message="no chat of this browser is being answered")


@router.post(
    "/api/half_duplex/stop",
    responses=NEEDS_REDIS | TAKES_BODY,
    name="stop",
    tags=["talk"],
)
async def stop_half_duplex(edge: EdgeDep, stop: StopRequest, request: Request) -> StopAnswer:
    """Stop the current answer of a half-duplex session at any worker; the session continues.

    Only the browser that opened the session (by its secret or cookie) and administrators may do so.
    """
    owner = client_owner(request, stop.client_secret) or "unknown"
    owner = "" if edge.access.is_admin(request) else owner
    if await edge.broker.sessions.send_command(
        stop.session_id, SessionKind.HALF_DUPLEX, SessionCommand.INTERRUPT, owner=owner
    ):
        return StopAnswer(success=True, message="stop signal sent")
    return StopAnswer(success=False, message="this client has no such active half-duplex session")


async def _read_request(request: Request, edge: EdgeContext, reservation: Reservation) -> ChatIn:
    """Raises InvalidInput, NotJson or BudgetExceeded."""
    body = await _read_body(request, edge.settings, reservation)
    uploads = edge.broker.voices.sound
    return await decode_request(Utf8Text(body), edge.settings, uploads, streaming=False)


async def _read_body(request: Request, limits: EdgeSettings, reservation: Reservation) -> bytearray:
    """Raises InvalidInput as soon as it is too long or too late, or BudgetExceeded."""
    body, timeout_s = bytearray(), limits.chat_request_s
    try:
        async with asyncio.timeout(timeout_s):
            async for piece in request.stream():
                body += piece
                if len(body) > limits.max_chat_bytes:
                    raise too_large(len(body), limits.max_chat_bytes)
                reservation.add(len(piece))
    except TimeoutError:
        text = f"request not complete within {timeout_s:g} s; it came to {len(body)} bytes"
        raise InvalidInput(text, code=ErrorCode.SLOW_CONSUMER) from None
    return body
