"""An HTTP request that waits for its answer, in the verbs of a connection."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import Request, Response

from antiphon.edge.errors import ClientGone, Close
from antiphon.edge.transport.connection import JSON
from antiphon.shared_schemas.chat_messages import ChatProblem
from antiphon.shared_schemas.errors import ErrorCode

_BY_CLOSE = {
    Close.NORMAL: 200,
    Close.UNSUPPORTED: 400,
    Close.POLICY: 422,
    Close.INTERNAL: 500,
    Close.RESTART: 503,
    Close.TRY_LATER: 503,
}
_BY_CODE: dict[str, int] = {
    ErrorCode.MESSAGE_TOO_LARGE: 413,
    ErrorCode.CANCELLED: 409,
    ErrorCode.PAGE_OFF: 403,
    ErrorCode.RATE_LIMITED: 429,
    ErrorCode.SLOW_CONSUMER: 408,
}
_CLIENT_GONE = 499


class HttpLine:
    """Takes no further input; the one message it is sent becomes the body."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._body: str | bytes = b""
        self.encoding = JSON
        self._close: Close | None = None

    async def receive(self) -> str | bytes:
        """Waits until the client leaves. Raises ClientGone."""
        while (await self._request.receive())["type"] != "http.disconnect":
            pass
        raise ClientGone

    async def send(self, frame: str | bytes) -> None:
        """Keep the answer."""
        self._body = frame

    async def close(self, code: Close) -> None:
        """How it ended."""
        self._close = code

    def force_close(self, code: Close, reason: str) -> None:  # noqa: ARG002 - as a socket has it
        """Nothing was sent yet, so there is nobody to cut off."""
        self._close = code

    def probe(self, answered: Callable[[], None]) -> None:
        """A request is not asked whether it listens."""

    def response(self) -> Response:
        """The answer, once the session is over."""
        if self._close is None:
            return Response(status_code=_CLIENT_GONE)
        status = _BY_CLOSE[self._close]
        if status != _BY_CLOSE[Close.NORMAL]:
            status = _BY_CODE.get(ChatProblem.model_validate_json(self._body).code, status)
        wait = {"Retry-After": "1"} if self._close in (Close.TRY_LATER, Close.RESTART) else None
        return Response(self._body, status, wait, media_type="application/json")
