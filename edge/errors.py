"""Errors of the edge: close codes, exceptions, and what a client receives for each."""

import re
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, Response

from antiphon.broker.errors import (
    BrokerUnavailable,
    QueueFull,
    SessionExists,
    StaleFence,
    StoreFull,
    TooManySessions,
)
from antiphon.edge.openai_clients import is_openai_socket, unserved_route
from antiphon.shared_schemas.entries import ErrorOut
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput, name_field
from antiphon.shared_schemas.states import EndReason
from antiphon.shared_schemas.wire import Error


class Close(IntEnum):
    """WebSocket close codes."""

    NORMAL = 1000
    UNSUPPORTED = 1003
    POLICY = 1008
    TOO_BIG = 1009
    INTERNAL = 1011
    RESTART = 1012
    TRY_LATER = 1013
    BETA_API = 4000
    REPLACED = 4409
    RESUME_EXPIRED = 4410


CLOSE_REASONS = {Close.REPLACED: "replaced", Close.RESUME_EXPIRED: "resume_expired"}
"""Reasons of the close codes that no message precedes."""


class ClientGone(Exception):
    """The client closed the connection, or the connection broke."""

    def __init__(self, *, normal: bool = False) -> None:
        """`normal`: the client closed it with code 1000, so it will not resume."""
        super().__init__()
        self.normal = normal


class SlowConsumer(Exception):
    """The client does not read what it is sent."""


class NotJson(Exception):
    """A frame is not JSON text; the connection must close."""


class Draining(Exception):
    """This edge is shutting down and accepts no new session."""


class ChatRequested(Exception):
    """The client of a full-duplex session asks for `mode=chat` instead. Its connection stays open.

    `queue_done`: it has been notified that a worker holds its session.
    """

    def __init__(self, *, queue_done: bool = False) -> None:
        super().__init__("the client asks for chat")
        self.queue_done = queue_done


class ResumeExpired(Exception):
    """No session can be resumed with this token."""


class PageDisabled(Exception):
    """An operator has switched this page off."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is currently disabled")


class TooManyConnections(Exception):
    """One address has too many connections, or opens too many per minute."""


class BudgetExceeded(Exception):
    """This edge already holds its maximum of bytes of chat requests, bodies or incomplete messages."""


@dataclass(frozen=True, slots=True)
class Fault:
    """An error message and how the connection closes; `close` is None if the session continues."""

    message: Error
    close: Close | None = None
    expected: bool = True


class ChatFailed(Exception):
    """A chat that was admitted has no answer. `reason`: why its session ended."""

    def __init__(self, fault: Fault, reason: EndReason = EndReason.ERROR) -> None:
        super().__init__(fault.message.message)
        self.fault = fault
        self.reason = reason


def error_message(
    code: ErrorCode | str, text: str, *, field: str | None = None, retryable: bool | None = None
) -> Error:
    """An `error` message. Its text is sent as `error` and `message`: clients read either."""
    return Error(error=text, message=text, code=str(code), field=field, retryable=retryable)


_PERMANENT = frozenset(
    {
        ErrorCode.CANCELLED,
        ErrorCode.CONTEXT_FULL,
        ErrorCode.INVALID_FIELD,
        ErrorCode.NOT_READY,
    }
)
"""Ends of a session after which the same requests would fail again."""


def worker_error(entry: ErrorOut) -> Error:
    """The message for an error of a worker. `retryable` is absent if the session continues."""
    retryable = entry.code not in _PERMANENT if entry.fatal else None
    return error_message(entry.code, entry.message, field=entry.field, retryable=retryable)


def end_reason(entry: ErrorOut) -> EndReason:
    """Why a session ends with this error of a worker."""
    return EndReason.CONTEXT_FULL if entry.code == ErrorCode.CONTEXT_FULL else EndReason.ERROR


_EXPECTED: dict[type[Exception], tuple[ErrorCode, Close]] = {
    NotJson: (ErrorCode.INVALID_JSON, Close.UNSUPPORTED),
    PageDisabled: (ErrorCode.PAGE_OFF, Close.POLICY),
    StaleFence: (ErrorCode.SESSION_EXISTS, Close.POLICY),
    QueueFull: (ErrorCode.QUEUE_FULL, Close.TRY_LATER),
    TooManySessions: (ErrorCode.RATE_LIMITED, Close.TRY_LATER),
    StoreFull: (ErrorCode.STORE_FULL, Close.TRY_LATER),
    BudgetExceeded: (ErrorCode.QUEUE_FULL, Close.TRY_LATER),
    TooManyConnections: (ErrorCode.RATE_LIMITED, Close.TRY_LATER),
    Draining: (ErrorCode.SERVER_SHUTDOWN, Close.TRY_LATER),
    BrokerUnavailable: (ErrorCode.BROKER_UNAVAILABLE, Close.TRY_LATER),
    SlowConsumer: (ErrorCode.INTERNAL, Close.TRY_LATER),
}
_TEXTS: dict[type[Exception], str] = {
    StaleFence: "the session was taken over or is over",
    Draining: "this server is shutting down; reconnect",
    BrokerUnavailable: "the server's store does not answer",
    SlowConsumer: "the answer could not be delivered; try again",
}
"""For clients. The text of every other expected error is its own."""


def explain(error: Exception) -> Fault:
    """Map an exception to its error message and close code."""
    if isinstance(error, InvalidInput):
        message = error_message(error.code, error.message, field=error.field)
        return Fault(message, Close.POLICY if error.code == ErrorCode.INVALID_SESSION_ID else None)
    if isinstance(error, SessionExists):
        message = error_message(ErrorCode.SESSION_EXISTS, str(error), field="session_id")
        return Fault(message, Close.POLICY)
    for kind, (code, close) in _EXPECTED.items():
        if isinstance(error, kind):
            text = _TEXTS.get(kind, str(error))
            retryable = close is Close.TRY_LATER
            return Fault(error_message(code, text, retryable=retryable), close)
    message = error_message(ErrorCode.INTERNAL, "internal error", retryable=True)
    return Fault(message, Close.INTERNAL, expected=False)


_LOST = (ErrorCode.BROKER_UNAVAILABLE, "the server lost this session; start a new one")
_CLOSE_OF_END = {
    ErrorCode.CANCELLED: Close.POLICY,
    ErrorCode.CONTEXT_FULL: Close.INTERNAL,
    ErrorCode.INTERNAL: Close.INTERNAL,
}
_ENDS: dict[EndReason | None, tuple[ErrorCode, str]] = {
    EndReason.CANCELLED: (ErrorCode.CANCELLED, "the session was cancelled"),
    EndReason.CONTEXT_FULL: (ErrorCode.CONTEXT_FULL, "the context is full"),
    EndReason.WORKER_LOST: (ErrorCode.WORKER_LOST, "the worker was lost and no other took over"),
    EndReason.SERVER_SHUTDOWN: (
        ErrorCode.SERVER_SHUTDOWN,
        "the worker is shutting down; reconnect",
    ),
    EndReason.EDGE_LOST: _LOST,
    None: _LOST,
}


SHUTDOWN = replace(explain(Draining()), close=Close.RESTART)
"""For the connections that an edge closes when it shuts down."""


def explain_end(reason: EndReason | None) -> Fault:
    """Map the reason why a session ended to the error that its client receives."""
    code, text = _ENDS.get(reason, (ErrorCode.INTERNAL, f"the session ended ({reason})"))
    close = _CLOSE_OF_END.get(code, Close.TRY_LATER)
    return Fault(error_message(code, text, retryable=code not in _PERMANENT), close)


class Problem(BaseModel):
    """The body of an HTTP error."""

    error: str
    message: str
    code: str
    retryable: bool
    field: str | None = None


_STATUS_HEADERS = {
    401: {"WWW-Authenticate": "Bearer"},
    426: {"Upgrade": "websocket", "Connection": "Upgrade"},
}
"""Headers that HTTP requires with a status."""


class HttpError(HTTPException):
    """An HTTP error with a `Problem` body. It also rejects a WebSocket that is not accepted yet.

    Metrics count it by its code, or as `counted_as`: a code may have several causes.
    """

    def __init__(
        self,
        status: int,
        code: ErrorCode,
        message: str,
        *,
        field: str | None = None,
        retry_after_s: int | None = None,
        counted_as: str | None = None,
    ) -> None:
        headers = dict(_STATUS_HEADERS.get(status, {}))
        if retry_after_s is not None:
            headers["Retry-After"] = str(retry_after_s)
        super().__init__(status, message, headers)
        self.code = code
        self.field = field
        self.retryable = retry_after_s is not None
        self.counted_as = counted_as or code


_FRAMEWORK_CODES = {
    400: ErrorCode.INVALID_JSON,
    404: ErrorCode.NOT_FOUND,
    405: ErrorCode.METHOD_NOT_ALLOWED,
}


_OPENAI_PATH = re.compile(r"/openai/|/v1/(?!realtime(?:$|/schema))")
"""Errors below it have the form of OpenAI's API, which its SDKs read.

So have those of its WebSockets. HTTP requests to `/v1/realtime` come from pages and clients whose WebSocket was
refused, and which read the other form.
"""

_OPENAI_STATUS: dict[str, int] = {
    ErrorCode.MESSAGE_TOO_LARGE: 413,
    ErrorCode.TOO_COMPLEX: 413,
    ErrorCode.PAGE_OFF: 403,
    ErrorCode.RATE_LIMITED: 429,
    ErrorCode.SLOW_CONSUMER: 408,
    ErrorCode.INFERENCE_ERROR: 500,
    ErrorCode.INTERNAL: 500,
    ErrorCode.QUEUE_FULL: 503,
    ErrorCode.STORE_FULL: 503,
    ErrorCode.NO_WORKER: 503,
    ErrorCode.WORKER_LOST: 503,
    ErrorCode.BROKER_UNAVAILABLE: 503,
    ErrorCode.SERVER_SHUTDOWN: 503,
}
_OPENAI_NAMES: dict[str, str] = {
    ErrorCode.UNAUTHORIZED: "invalid_api_key",
    ErrorCode.CONTEXT_FULL: "context_length_exceeded",
    ErrorCode.RATE_LIMITED: "rate_limit_exceeded",
}


def openai_status(code: str) -> int:
    """What a client sends again, its SDK sends again by itself: 408, 409, 429 and 5xx. The rest is 400."""
    return _OPENAI_STATUS.get(code, 400)


def openai_error(status: int, code: str, text: str, field: str | None) -> dict[str, Any]:
    """The body of an error in the form of OpenAI's API."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    name = _OPENAI_NAMES.get(code, str(code))
    return {"error": {"message": text, "type": kind, "param": field, "code": name}}


async def http_error_response(connection: HTTPConnection, error: Exception) -> Response:
    """Exception handler for HttpError."""
    assert isinstance(error, HttpError)
    connection.app.state.edge.metrics.rejected.labels(error.counted_as).inc()
    return _problem_response(
        connection, error, error.code, retryable=error.retryable, field=error.field
    )


async def invalid_request_response(connection: HTTPConnection, error: Exception) -> Response:
    """Exception handler for values that do not fit their fields. Does not repeat the input."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    invalid = name_field(first["type"], first["msg"], first["loc"][1:])
    refused = HttpError(422, invalid.code, invalid.message, field=invalid.field)
    return await http_error_response(connection, refused)


async def framework_error_response(connection: HTTPConnection, error: Exception) -> Response:
    """Exception handler for errors that the framework raises: unknown route, invalid JSON."""
    assert isinstance(error, HTTPException)
    if error.status_code == 404 and (remedy := unserved_route(connection.url.path)):
        error = HTTPException(404, remedy, error.headers)
    code = _FRAMEWORK_CODES.get(error.status_code, ErrorCode.INVALID_FIELD)
    return _problem_response(connection, error, code, retryable=False)


async def unavailable_response(connection: HTTPConnection, error: Exception) -> Response:
    """Exception handler for BrokerUnavailable."""
    text = explain(error).message.message
    failure = HttpError(503, ErrorCode.BROKER_UNAVAILABLE, text, retry_after_s=1)
    return _problem_response(connection, failure, failure.code, retryable=True)


def _problem_response(
    connection: HTTPConnection,
    error: HTTPException,
    code: ErrorCode,
    *,
    retryable: bool,
    field: str | None = None,
) -> Response:
    text = error.detail
    if _OPENAI_PATH.match(connection.url.path) or is_openai_socket(connection):
        status = 400 if error.status_code == 422 else error.status_code
        return JSONResponse(openai_error(status, code, text, field), status, error.headers)
    problem = Problem(error=text, message=text, code=code, retryable=retryable, field=field)
    return JSONResponse(problem.model_dump(exclude_none=True), error.status_code, error.headers)
