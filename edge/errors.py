"""Errors of the edge: close codes, exceptions, and what a client receives for each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

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
    REPLACED = 4409
    RESUME_EXPIRED = 4410


CLOSE_REASONS = {Close.REPLACED: "replaced", Close.RESUME_EXPIRED: "resume_expired"}
"""Reasons of the close codes that no message precedes."""


class ClientGone(Exception):
    """The client closed the connection, or the connection broke."""


class SlowConsumer(Exception):
    """The client does not read what it is sent."""


class NotJson(Exception):
    """A frame is not JSON text; the connection must close."""


class Draining(Exception):
    """This edge is shutting down and accepts no new session."""


class Replaced(Exception):
    """A newer connection of the same client has taken over the session."""


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
}
_TEXTS: dict[type[Exception], str] = {
    StaleFence: "the session was taken over or is over",
    Draining: "this server is shutting down; reconnect",
    BrokerUnavailable: "the server's store does not answer",
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
    """An HTTP error with a `Problem` body. It also rejects a WebSocket that is not accepted yet."""

    def __init__(
        self,
        status: int,
        code: ErrorCode,
        message: str,
        *,
        field: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        headers = dict(_STATUS_HEADERS.get(status, {}))
        if retry_after_s is not None:
            headers["Retry-After"] = str(retry_after_s)
        super().__init__(status, message, headers)
        self.code = code
        self.field = field
        self.retryable = retry_after_s is not None


_FRAMEWORK_CODES = {
    400: ErrorCode.INVALID_JSON,
    404: ErrorCode.NOT_FOUND,
    405: ErrorCode.METHOD_NOT_ALLOWED,
}


async def http_error_response(connection: HTTPConnection, error: Exception) -> Response:
    """Exception handler for HttpError."""
    assert isinstance(error, HttpError)
    connection.app.state.edge.metrics.rejected.labels(error.code).inc()
    return _problem_response(error, error.code, retryable=error.retryable, field=error.field)


async def invalid_request_response(connection: HTTPConnection, error: Exception) -> Response:
    """Exception handler for values that do not fit their fields. Does not repeat the input."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    invalid = name_field(first["type"], first["msg"], first["loc"][1:])
    refused = HttpError(422, invalid.code, invalid.message, field=invalid.field)
    return await http_error_response(connection, refused)


async def framework_error_response(_: HTTPConnection, error: Exception) -> Response:
    """Exception handler for errors that the framework raises: unknown route, invalid JSON."""
    assert isinstance(error, HTTPException)
    code = _FRAMEWORK_CODES.get(error.status_code, ErrorCode.INVALID_FIELD)
    return _problem_response(error, code, retryable=False)


async def unavailable_response(_: HTTPConnection, error: Exception) -> Response:
    """Exception handler for BrokerUnavailable."""
    text = explain(error).message.message
    failure = HttpError(503, ErrorCode.BROKER_UNAVAILABLE, text, retry_after_s=1)
    return _problem_response(failure, failure.code, retryable=True)


def _problem_response(
    error: HTTPException, code: ErrorCode, *, retryable: bool, field: str | None = None
) -> Response:
    text = error.detail
    problem = Problem(error=text, message=text, code=code, retryable=retryable, field=field)
    return JSONResponse(problem.model_dump(exclude_none=True), error.status_code, error.headers)
