"""How a route gets at the running edge."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Request

from antiphon.edge.context import EdgeContext
from antiphon.edge.errors import Problem


def edge_context(request: Request) -> EdgeContext:
    """The edge that this application serves."""
    edge: EdgeContext = request.app.state.edge
    return edge


EdgeDep = Annotated[EdgeContext, Depends(edge_context)]

NEEDS_REDIS: dict[int | str, dict[str, Any]] = {
    503: {"model": Problem, "description": "Redis does not answer"}
}

_REFUSALS = {
    400: "The input cannot be used",
    401: "A key or the admin token is required",
    403: "Not allowed",
    404: "There is none",
    408: "The client stopped sending",
    409: "There is no room",
    413: "The body is too long",
    429: "Too many requests from this address",
}


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For OpenAPI: the ways in which a route says no."""
    return {status: {"model": Problem, "description": _REFUSALS[status]} for status in statuses}


TAKES_BODY = problem_responses(400, 413)
"""What a body may be refused for before its route sees it."""
