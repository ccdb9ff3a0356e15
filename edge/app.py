"""The ASGI application of one edge."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import Depends, FastAPI, Request
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from antiphon.broker.errors import BrokerUnavailable
from antiphon.edge.access import ADMIN, CLIENT, METRICS, READER
from antiphon.edge.body_limit import BodyLimit
from antiphon.edge.context import open_edge
from antiphon.edge.errors import (
    HttpError,
    Problem,
    explain,
    framework_error_response,
    http_error_response,
)
from antiphon.edge.routes import (
    apps,
    chat,
    defaults,
    duplex,
    half_duplex,
    health,
    live,
    metrics,
    pages,
    presets,
    queue,
    realtime,
    session_list,
    session_shares,
    session_writes,
    sessions,
    voices,
    workers,
)
from antiphon.edge.routes.dependencies import problem_responses
from antiphon.edge.routes.session_writes import UPLOAD_ROUTE
from antiphon.edge.settings import EdgeSettings

_DESCRIPTION = """Full-duplex voice and video conversations with MiniCPM-o 4.5.

Conversations run over WebSockets: `/ws/duplex/{session_id}`, `/ws/half_duplex/{session_id}`,
`/v1/realtime?mode=video|audio` and `/ws/chat`."""


_REGISTRIES = (presets, voices, apps, defaults)
_REFUSED = problem_responses(401, 403)


def create_app(settings: EdgeSettings) -> FastAPI:
    """The application; its lifespan connects to Redis and leaves `app.state.edge` to the routes."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_edge(settings) as edge:
            app.state.edge = edge
            yield

    app = FastAPI(
        title="Antiphon",
        version=version("antiphon"),
        description=_DESCRIPTION,
        lifespan=lifespan,
    )
    _include_routes(app)
    app.add_exception_handler(BrokerUnavailable, _unavailable)
    app.add_exception_handler(HttpError, http_error_response)
    app.add_exception_handler(HTTPException, framework_error_response)
    _add_middleware(app, settings)
    return app


def _include_routes(app: FastAPI) -> None:
    """Every router stands behind one of the two guards, but for those that say they are open."""
    app.include_router(health.public_router)
    app.include_router(pages.router)
    app.include_router(metrics.router, dependencies=[Depends(METRICS)])
    for routes in (health, queue, duplex, half_duplex, chat, realtime, *_REGISTRIES):
        app.include_router(routes.router, dependencies=[Depends(CLIENT)], responses=_REFUSED)
    for routes in (session_writes, session_shares):
        app.include_router(routes.router, dependencies=[Depends(CLIENT)], responses=_REFUSED)
    app.include_router(sessions.router, dependencies=[Depends(READER)], responses=_REFUSED)
    for administered in (queue, apps, live, workers, session_list):
        app.include_router(
            administered.admin_router, dependencies=[Depends(ADMIN)], responses=_REFUSED
        )


def _add_middleware(app: FastAPI, settings: EdgeSettings) -> None:
    voice = settings.max_voice_bytes * 4 // 3 + settings.max_body_bytes
    app.add_middleware(
        BodyLimit,
        limit=settings.max_body_bytes,
        longer={"/api/assets/ref_audio": voice},
        endings={UPLOAD_ROUTE: settings.max_upload_bytes + settings.max_body_bytes},
        measured={"/api/chat"},
    )
    if settings.allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.allowed_origins,
            allow_methods=["GET", "POST", "PUT", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "X-Api-Key"],
        )


async def _unavailable(_: Request, error: Exception) -> JSONResponse:
    message = explain(error).message
    problem = Problem(
        error=message.error, message=message.message, code=message.code, retryable=True
    )
    return JSONResponse(problem.model_dump(), status_code=503, headers={"Retry-After": "1"})
