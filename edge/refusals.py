"""HTTP answers that say no, in one form for requests and for handshakes."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, Response

from antiphon.edge.routes.models import Problem
from antiphon.shared_schemas.errors import ErrorCode

_CODES = {
    400: ErrorCode.INVALID_JSON,
    404: ErrorCode.NOT_FOUND,
    405: ErrorCode.METHOD_NOT_ALLOWED,
}


class Refusal(HTTPException):
    """Answered as a Problem; a WebSocket that was not accepted yet gets it instead of the upgrade."""

    def __init__(
        self, status: int, code: ErrorCode, message: str, *, retry_after_s: int | None = None
    ) -> None:
        headers = {"Retry-After": str(retry_after_s)} if retry_after_s is not None else {}
        if status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        super().__init__(status, message, headers)
        self.code = code
        self.retryable = retry_after_s is not None


async def answer_plainly(_: HTTPConnection, error: Exception) -> Response:
    """The exception handler of what the framework refuses by itself: no route, no JSON."""
    assert isinstance(error, HTTPException)
    code = _CODES.get(error.status_code, ErrorCode.INVALID_FIELD)
    problem = Problem(error=error.detail, message=error.detail, code=code, retryable=False)
    return JSONResponse(problem.model_dump(), error.status_code, error.headers)


async def answer(connection: HTTPConnection, error: Exception) -> Response:
    """The exception handler of Refusal."""
    assert isinstance(error, Refusal)
    text = error.detail
    connection.app.state.edge.metrics.rejected.labels(error.code).inc()
    problem = Problem(error=text, message=text, code=error.code, retryable=error.retryable)
    return JSONResponse(problem.model_dump(), error.status_code, error.headers)
