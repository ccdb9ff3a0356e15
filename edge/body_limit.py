"""Request bodies are cut off at a length before anything reads them whole."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from edge.refusals import Refusal
from shared_schemas.errors import ErrorCode


class BodyLimit:
    """ASGI middleware. Paths in `longer`, and those that end with one of `endings`, have their own limit.

    What is too long is refused where the route reads it, so that its handlers answer.
    """

    def __init__(
        self, app: ASGIApp, limit: int, longer: Mapping[str, int], endings: Mapping[str, int]
    ) -> None:
        self._app = app
        self._limit = limit
        self._longer = longer
        self._endings = endings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count what a request's body brings."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._limit_of(scope["path"])
        taken = 0

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > limit:
                text = f"the body is longer than {limit} bytes"
                raise Refusal(413, ErrorCode.MESSAGE_TOO_LARGE, text)
            return message

        await self._app(scope, counted, send)

    def _limit_of(self, path: str) -> int:
        endings = (limit for end, limit in self._endings.items() if path.endswith(end))
        return self._longer.get(path) or next(endings, self._limit)
