"""Request bodies are cut off at a length, and after a time, before anything reads them whole."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from antiphon.edge.errors import HttpError
from antiphon.shared_schemas.errors import ErrorCode

_PATIENCE_S = 30.0
_SLOWEST = 16 * 1024
"""Bytes per second: for each of so many that came a body gets a second more."""


class BodyLimit:
    """ASGI middleware. Paths in `longer`, and those that end with one of `endings`, have their own limit;
    the routes of those in `measured` see to it themselves.

    What is too long is refused where the route reads it, so that its handlers answer.
    """

    def __init__(
        self,
        app: ASGIApp,
        limit: int,
        longer: Mapping[str, int],
        endings: Mapping[str, int],
        measured: Collection[str],
    ) -> None:
        self._app = app
        self._limit = limit
        self._longer = longer
        self._endings = endings
        self._measured = measured

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count what a request's body brings."""
        if scope["type"] != "http" or scope["path"] in self._measured:
            await self._app(scope, receive, send)
            return
        body = _Body(receive, self._limit_of(scope["path"]))
        await self._app(scope, body.receive, send)

    def _limit_of(self, path: str) -> int:
        endings = (limit for end, limit in self._endings.items() if path.endswith(end))
        return self._longer.get(path) or next(endings, self._limit)


class _Body:
    """What one request brings, and since when."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive = receive
        self._limit = limit
        self._taken = 0
        self._more = True
        self._due = asyncio.get_running_loop().time() + _PATIENCE_S

    async def receive(self) -> Message:
        """Raises HttpError. What follows the body, the client's leaving, may take as long as it likes."""
        try:
            async with asyncio.timeout_at(self._due if self._more else None):
                message = await self._receive()
        except TimeoutError:
            text = f"the body takes too long: {self._taken} bytes came"
            raise HttpError(408, ErrorCode.SLOW_CONSUMER, text) from None
        size = len(message.get("body", b""))
        self._taken += size
        self._due += size / _SLOWEST
        self._more = message.get("more_body", False)
        if self._taken > self._limit:
            text = f"the body is longer than {self._limit} bytes"
            raise HttpError(413, ErrorCode.MESSAGE_TOO_LARGE, text)
        return message
