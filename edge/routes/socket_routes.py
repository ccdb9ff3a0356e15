"""The registry of the WebSockets: `add_socket` is all that serves a protocol at its paths.

Plain HTTP requests to these paths get 426: a proxy that does not pass `Upgrade` makes them of handshakes.
"""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Depends, Request, WebSocket
from starlette.routing import BaseRoute

from antiphon.edge.access.guards import CLIENT, Guard
from antiphon.edge.errors import HttpError
from antiphon.edge.routes.deps import EdgeDep
from antiphon.edge.session.admission import ConnectOptions, SessionRequest
from antiphon.edge.session.handshake import accept, limit_connections
from antiphon.edge.session.session import ProtocolSpec, serve_session
from antiphon.shared_schemas.apps import APP_OF_KIND
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.states import SessionKind

ROUTES: list[BaseRoute] = []
"""Of every protocol. An application has those that are registered when it is created."""

LONG_FRAMES: set[str] = set()
"""Paths, perhaps with a `?mode=`, whose frames may be as long as a chat request."""

_UPGRADE_TEXT = (
    "this address accepts WebSockets only, and the request has no `Upgrade: websocket`; "
    "a proxy in front of this server must pass the headers `Upgrade` and `Connection`"
)


def add_socket(
    *paths: str,
    serve: Callable[..., Awaitable[None]],
    guard: Guard = CLIENT,
    long_frames: Sequence[str] = (),
) -> None:
    """Serve a protocol at these paths. `serve` takes the WebSocket and the parameters of the path.

    A slash may follow the path: clients of WebSockets follow no redirections.
    """
    router = APIRouter()
    for path in paths:
        for address in (path,) if path.endswith("}") else (path, f"{path}/"):
            router.add_api_websocket_route(address, serve, dependencies=[Depends(guard)])
        router.add_api_route(
            path, upgrade_required, methods=["GET", "HEAD", "POST"], include_in_schema=False
        )
    ROUTES.extend(router.routes)
    for path, mark, query in (each.partition("?") for each in long_frames):
        LONG_FRAMES.update((f"{path}{mark}{query}", f"{path}/{mark}{query}"))


async def upgrade_required(edge: EdgeDep, request: Request) -> None:
    """Open to everyone: without `Upgrade`, a request of a browser has lost its API key too.

    Pages ask by POST, which has their `Origin`, why their WebSocket was refused.
    """
    edge.access.check_origin(request)
    raise HttpError(426, ErrorCode.UPGRADE_REQUIRED, _UPGRADE_TEXT)


@dataclass(frozen=True, slots=True)
class SocketProtocol:
    """A protocol whose connections are one new session each, which ends with its connection.

    `name`: in metrics. `id_prefix`: of its sessions' ids. `counts_clients`: the sessions of one key or
    address are limited; not so if all connections come from a provider.
    """

    name: str
    spec: ProtocolSpec[Any]
    kind: SessionKind
    id_prefix: str
    counts_clients: bool = True
    subprotocols: Sequence[str] = ()

    async def serve(self, socket: WebSocket) -> None:
        async with (
            accept(socket, self.spec.encode_error, subprotocols=self.subprotocols) as (
                context,
                connection,
            ),
            limit_connections(context, socket, APP_OF_KIND[self.kind]),
        ):
            client = context.access.client_id(socket) if self.counts_clients else ""
            sid = f"{self.id_prefix}_{secrets.token_hex(8)}"
            request = SessionRequest(self.kind, self.name, [sid], client=client)
            await serve_session(context, connection, self.spec, request, ConnectOptions())
