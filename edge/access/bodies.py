"""Request bodies: the key first, then size and structure, then the framework parses them."""

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from antiphon.edge.access.guards import Guard
from antiphon.edge.access.limits import MIN_UPLOAD_RATE, ByteBudget, Reservation
from antiphon.edge.errors import BudgetExceeded, HttpError, NotJson, http_error_response
from antiphon.edge.json_text import check_depth, load_json
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput

MAX_BODIES_BYTES = 32 * 1024 * 1024
"""Bytes of all bodies that one edge holds while they arrive; chats and uploads have other limits."""

MAX_BODY_DEPTH = 64
"""Lists and objects within each other. The framework's parser refuses about 900."""

_KIB = 1024
_BODY_TIMEOUT_S = 30.0

_UNKNOWN_BYTES = 64 * _KIB
_UNKNOWN_TIMEOUT_S = 10.0
"""Without a valid key, and for paths without a guard, where no route reads a body."""


@dataclass(frozen=True, slots=True)
class BodyRoute:
    """A route that takes a body. `parsed`: the framework reads it as JSON before the route runs."""

    path: str
    pattern: re.Pattern[str]
    methods: frozenset[str]
    guard: Guard
    parsed: bool


def body_routes(routers: Iterable[APIRouter], guard: Guard) -> list[BodyRoute]:
    """The routes of `routers` with a method that may have a body."""
    return [
        BodyRoute(
            route.path,
            route.path_regex,
            frozenset(route.methods or ()),
            guard,
            route.body_field is not None,
        )
        for router in routers
        for route in router.routes
        if isinstance(route, APIRoute) and set(route.methods or ()) - {"GET", "HEAD"}
    ]


@dataclass(frozen=True, slots=True)
class RequestBodies:
    """ASGI middleware in front of everything that reads a body.

    It refuses a request without a valid key before it reads the body, then limits size and time. A body
    that the framework parses is read whole, and refused if its structure or values cannot be used.
    `limits` has the routes whose limit is not `limit`; None: the route limits its body.
    """

    app: ASGIApp
    routes: Sequence[BodyRoute]
    limit: int
    limits: Mapping[str, int | None]
    budget: ByteBudget = field(
        default_factory=lambda: ByteBudget(
            MAX_BODIES_BYTES, "request bodies", always=_UNKNOWN_BYTES
        )
    )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _has_body(scope):
            await self.app(scope, receive, send)
            return
        with self.budget.reserve() as held:
            try:
                with _refusals():
                    receive = await self._checked(scope, receive, held)
            except HttpError as error:
                response = await http_error_response(HTTPConnection(scope), error)
                await response(scope, receive, send)
            except ClientDisconnect:
                return
            else:
                await self.app(scope, receive, send)

    async def _checked(self, scope: Scope, receive: Receive, held: Reservation) -> Receive:
        """The `receive` for the route. Raises what `_refusals` turns into HttpErrors."""
        route, params = self._route_of(scope)
        if route is None:
            return _LimitedBody(receive, _UNKNOWN_BYTES, _UNKNOWN_TIMEOUT_S).receive
        await route.guard(HTTPConnection({**scope, "path_params": params}))
        limit = self.limits.get(route.path, self.limit)
        if limit is None:
            return receive
        _check_length(_announced(scope), limit)
        body = _LimitedBody(receive, limit, _BODY_TIMEOUT_S)
        if not route.parsed:
            return body.receive
        data = await _read(body, held)
        if data:
            check_depth(load_json(data), MAX_BODY_DEPTH)
        return _BufferedBody(data, receive).receive

    def _route_of(self, scope: Scope) -> tuple[BodyRoute | None, dict[str, str]]:
        for route in self.routes:
            if scope["method"] in route.methods and (found := route.pattern.match(scope["path"])):
                return route, found.groupdict()
        return None, {}


@contextmanager
def _refusals() -> Iterator[None]:
    """Turns the errors of a body into HttpErrors."""
    try:
        yield
    except NotJson as error:
        raise HttpError(400, ErrorCode.INVALID_JSON, str(error)) from None
    except InvalidInput as error:
        status = 413 if error.code is ErrorCode.MESSAGE_TOO_LARGE else 422
        raise HttpError(status, error.code, error.message, field=error.field) from None
    except BudgetExceeded as error:
        raise HttpError(503, ErrorCode.QUEUE_FULL, str(error), retry_after_s=1) from None


def _has_body(scope: Scope) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in scope["headers"]
    )


def _announced(scope: Scope) -> int:
    """The body's length, if the client states it; the server has checked that it is a number."""
    return int(dict(scope["headers"]).get(b"content-length", b"0"))


def _check_length(size: int, limit: int) -> None:
    """Raises HttpError."""
    if size > limit:
        raise HttpError(413, ErrorCode.MESSAGE_TOO_LARGE, f"the body is longer than {limit} bytes")


async def _read(body: "_LimitedBody", held: Reservation) -> bytes:
    """Raises ClientDisconnect, HttpError or BudgetExceeded."""
    data, more = bytearray(), True
    while more:
        try:
            message = await body.receive()
        except asyncio.CancelledError:  # the server stops
            text = "this server is shutting down; try again"
            raise HttpError(503, ErrorCode.SERVER_SHUTDOWN, text, retry_after_s=1) from None
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        piece = message.get("body", b"")
        held.add(len(piece))
        data += piece
        more = message.get("more_body", False)
    return bytes(data)


class _LimitedBody:
    def __init__(self, receive: Receive, limit: int, timeout_s: float) -> None:
        self._receive = receive
        self._limit = limit
        self._timeout_s = timeout_s
        self._received = 0
        self._more = True
        self._deadline = asyncio.get_running_loop().time() + timeout_s

    async def receive(self) -> Message:
        """Raises HttpError. The disconnect message after the body has no deadline."""
        idle_deadline = asyncio.get_running_loop().time() + self._timeout_s
        deadline = min(self._deadline, idle_deadline) if self._more else None
        try:
            async with asyncio.timeout_at(deadline):
                message = await self._receive()
        except TimeoutError:
            text = f"the body takes too long: {self._received} bytes received"
            raise HttpError(408, ErrorCode.SLOW_CONSUMER, text) from None
        size = len(message.get("body", b""))
        self._received += size
        self._deadline += size / MIN_UPLOAD_RATE
        self._more = message.get("more_body", False)
        _check_length(self._received, self._limit)
        return message


class _BufferedBody:
    """A body that was read already, and what follows it."""

    def __init__(self, data: bytes, receive: Receive) -> None:
        self._data: bytes | None = data
        self._receive = receive

    async def receive(self) -> Message:
        data, self._data = self._data, None
        if data is None:
            return await self._receive()
        return {"type": "http.request", "body": data, "more_body": False}
