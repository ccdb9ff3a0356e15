"""`GET /api/admin/live`: the whole system as it changes, as Server-Sent Events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

import orjson
from fastapi import APIRouter
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from antiphon.edge.live_feed import Message
from antiphon.edge.routes.dependencies import EdgeDep

_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

admin_router = APIRouter(prefix="/api/admin", tags=["health"])


@admin_router.get("/live", include_in_schema=False)  # it has no end for a tool to wait for
async def live(edge: EdgeDep) -> StreamingResponse:
    """A snapshot, then changes and transitions until the client leaves."""
    return _EventStream(edge.live.messages())


class _EventStream(StreamingResponse):
    """Frees what it reads from as soon as the client is gone, wherever it was then."""

    def __init__(self, messages: AsyncGenerator[Message, None]) -> None:
        self._messages = messages
        frames = (_frame(message) async for message in messages)
        super().__init__(frames, media_type="text/event-stream", headers=_HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._messages):
            await super().__call__(scope, receive, send)


def _frame(message: Message) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (message.name.encode(), orjson.dumps(message.data))
