"""`POST /api/chat`, one request with its history and one answer, and the two stop buttons."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import orjson
import pybase64
import structlog
from fastapi import APIRouter, Request, Response
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse

from antiphon.broker.service.process import first_of
from antiphon.edge.access.guards import client_owner, remembered_chat
from antiphon.edge.access.limits import Reservation
from antiphon.edge.edge_context import EdgeContext
from antiphon.edge.errors import ChatFailed, ClientGone, Close, Fault
from antiphon.edge.json_text import Utf8Text
from antiphon.edge.media.decode import too_large
from antiphon.edge.protocols.chat import decode_request
from antiphon.edge.routes.deps import NEEDS_REDIS, TAKES_BODY, EdgeDep, error_responses
from antiphon.edge.routes.models import StopAnswer, StopRequest
from antiphon.edge.session.admission import SessionRequest
from antiphon.edge.session.chat import ChatAnswer, OnDelta, new_chat, run_chat
from antiphon.edge.session.handshake import limit_connections, refuse
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.apps import TURNBASED
from antiphon.shared_schemas.entries import ChatIn
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.messages.chat import (
    ChatProblem,
    ChatRequest,
    ChatResponse,
    TokenStats,
)
from antiphon.shared_schemas.registry import SessionCommand
from antiphon.shared_schemas.states import SessionKind

log = structlog.get_logger()

_HERE = "#/paths/~1api~1chat/post/requestBody/content/application~1json/schema"
_REQUEST = ChatRequest.model_json_schema(ref_template=f"{_HERE}/$defs/{{model}}")
_BODY: dict[str, Any] = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": _REQUEST}}}
}
_PROBLEMS = error_responses(
    ChatProblem,
    {
        400: "The body is not JSON",
        403: "The page is switched off",
        408: "The body took too long",
        409: "The request was taken out of the queue",
        413: "The body is too long",
        422: "A field cannot be used; `field` names it",
        429: "Too many requests from this address",
        500: "The engine failed",
        503: "No capacity or no worker just now, or Redis does not answer",
    },
)

_STATUS_OF_CLOSE = {
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


@dataclass(frozen=True, slots=True)
class Body:
    """The complete body of a request. `reservation` counts its bytes, and what it expands to."""

    data: bytearray
    headers: Mapping[str, str]
    reservation: Reservation


Decode = Callable[[Body], Awaitable[ChatIn]]
"""Raises InvalidInput, NotJson or BudgetExceeded."""


@router.post(
    PATH,
    response_model=ChatResponse,
    responses=_PROBLEMS,
    openapi_extra=_BODY,
    tags=["chat"],
)
async def chat(edge: EdgeDep, request: Request) -> Response:
    """Answer in one piece. If the client disconnects, the worker is freed."""
    try:
        answer = await answer_request(edge, request, "chat", partial(_decode, edge))
    except ClientGone:
        return Response(status_code=_CLIENT_GONE)
    except ChatFailed as failed:
        return problem_response(failed.fault)
    return chat_response(answer)


async def answer_request(
    edge: EdgeContext,
    request: Request,
    protocol: str,
    decode: Decode,
    on_delta: OnDelta | None = None,
) -> ChatAnswer:
    """Serve an HTTP request as one chat. Raises ClientGone or ChatFailed."""
    try:
        async with limit_connections(edge, request, TURNBASED):
            with edge.chat_budget.reserve() as reservation:
                asked = new_chat(protocol, edge.access.client_id(request))
                return await first_of(
                    _serve(
                        edge,
                        asked,
                        await _read_body(request, edge.settings, reservation),
                        decode,
                        on_delta,
                    ),
                    _client_left(request),
                )
    except (ClientGone, ClientDisconnect):
        log.info("client_gone_early", path=request.url.path)
        raise ClientGone from None
    except ChatFailed:
        raise
    except Exception as error:
        raise ChatFailed(refuse(edge, error)) from error


async def _serve(
    edge: EdgeContext,
    asked: SessionRequest,
    body: Body,
    decode: Decode,
    on_delta: OnDelta | None,
) -> ChatAnswer:
    decoding = decode(body)
    del body  # freed when it is decoded
    return await run_chat(edge, asked, await decoding, on_delta)


async def _client_left(request: Request) -> NoReturn:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    raise ClientGone


def chat_response(answer: ChatAnswer) -> Response:
    done = answer.done
    body = ChatResponse(
        text=done.text,
        audio_data=pybase64.b64encode_as_string(done.audio) if done.audio else None,
        tokens_generated=done.generated_tokens,
        duration_ms=done.duration_ms,
        token_stats=TokenStats(
            input_tokens=done.input_tokens,
            generated_tokens=done.generated_tokens,
            total_tokens=done.input_tokens + done.generated_tokens,
        ),
        recording_session_id=answer.recording,
        tool_calls=done.tool_calls or None,
        queue_wait_ms=round(answer.waited_s * 1000),
        estimated_queue_wait_s=answer.estimate_s,
    ).model_dump(mode="json", exclude=None if done.tool_calls else {"tool_calls"})
    return Response(orjson.dumps(body), media_type="application/json")


def problem_response(fault: Fault) -> Response:
    """The error of a request that has no answer."""
    error = fault.message
    problem = ChatProblem(
        error=error.error,
        message=error.message,
        detail=error.message,
        code=error.code,
        field=error.field,
        retryable=error.retryable,
    )
    close = fault.close or Close.POLICY
    status = _STATUS_OF_CODE.get(error.code, _STATUS_OF_CLOSE[close])
    retry = {"Retry-After": "1"} if close in (Close.TRY_LATER, Close.RESTART) else None
    return JSONResponse(problem.model_dump(), status, retry)


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


async def _decode(edge: EdgeContext, body: Body) -> ChatIn:
    uploads = edge.broker.voices.sound
    return await decode_request(Utf8Text(body.data), edge.settings, uploads, streaming=False)


async def _read_body(request: Request, limits: EdgeSettings, reservation: Reservation) -> Body:
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
    return Body(body, request.headers, reservation)
