"""Dependencies and helpers that the HTTP routes share."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from fastapi import Depends, Request
from pydantic import BaseModel

from antiphon.edge.edge_context import EdgeContext
from antiphon.edge.errors import HttpError, Problem, TooManyConnections
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.registry import QueueSnapshot

HIDDEN_ID = "hidden"
"""Replaces the id of a session in what clients may read."""

Responses = dict[int | str, dict[str, Any]]
"""Of a route, for OpenAPI."""


def error_responses(model: type[BaseModel], texts: Mapping[int, str]) -> Responses:
    """The errors of a route: their body, and what each status means."""
    return {status: {"model": model, "description": text} for status, text in texts.items()}


NEEDS_REDIS = error_responses(Problem, {503: "Redis is not available"})

_DESCRIPTIONS = {
    400: "The input is invalid",
    401: "A key or the admin token is required",
    403: "Not allowed",
    404: "Not found",
    408: "The client stopped sending",
    409: "The limit is reached",
    413: "The body is too long, or has too many brackets and commas",
    422: "A field cannot be used; `field` names it",
    429: "Too many requests from this address",
    507: "The server's disk is full",
}


def problem_responses(*statuses: int) -> Responses:
    """Errors with their usual meaning."""
    return error_responses(Problem, {status: _DESCRIPTIONS[status] for status in statuses})


TAKES_BODY = problem_responses(400, 408, 413, 422)
"""Errors of every route with a body."""


def edge_context(request: Request) -> EdgeContext:
    edge: EdgeContext = request.app.state.edge
    return edge


EdgeDep = Annotated[EdgeContext, Depends(edge_context)]


async def visible_snapshot(edge: EdgeDep, request: Request) -> QueueSnapshot:
    """The queue and the running sessions. Ids of sessions are shown to administrators only."""
    snapshot = await edge.broker.queue.snapshot()
    if edge.access.is_admin(request):
        return snapshot
    return replace(
        snapshot,
        waiting=tuple(replace(row, sid=HIDDEN_ID) for row in snapshot.waiting),
        running=tuple(replace(row, sid=HIDDEN_ID) for row in snapshot.running),
    )


SnapshotDep = Annotated[QueueSnapshot, Depends(visible_snapshot)]


async def rate_limited(edge: EdgeDep, request: Request) -> None:
    """Counts the request like a new connection of its address. Raises HttpError."""
    try:
        edge.connection_limiter.count(edge.access.client_limit_key(request))
    except TooManyConnections as error:
        raise HttpError(429, ErrorCode.RATE_LIMITED, str(error), retry_after_s=60) from None


RATE_LIMITED = Depends(rate_limited)
