"""Plain HTTP requests to the paths of the WebSockets, as from a proxy that does not pass `Upgrade`."""

from __future__ import annotations

from fastapi import APIRouter, Request

from antiphon.edge.errors import HttpError
from antiphon.edge.routes import sockets
from antiphon.edge.routes.deps import EdgeDep
from antiphon.shared_schemas.errors import ErrorCode

_TEXT = (
    "this address accepts WebSockets only, and the request has no `Upgrade: websocket`; "
    "a proxy in front of this server must pass the headers `Upgrade` and `Connection`"
)

router = APIRouter(include_in_schema=False)
"""Open to everyone: without `Upgrade`, a request of a browser has lost its API key too."""


async def upgrade_required(edge: EdgeDep, request: Request) -> None:
    """Pages ask by POST, which has their `Origin`, why their WebSocket was refused."""
    edge.access.check_origin(request)
    raise HttpError(426, ErrorCode.UPGRADE_REQUIRED, _TEXT)


for _route in sockets.router.routes:
    router.add_api_route(_route.path, upgrade_required, methods=["GET", "HEAD", "POST"])  # type: ignore[attr-defined]
