"""The ASGI application of one edge."""

import pkgutil
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.metadata import version
from typing import Any

import orjson
from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute

from antiphon.broker.errors import BrokerUnavailable
from antiphon.edge import routes
from antiphon.edge.access.bodies import RequestBodies, body_routes
from antiphon.edge.access.guards import ADMIN, CLIENT, READER
from antiphon.edge.access.http_limits import RequestLimit
from antiphon.edge.edge_context import open_edge
from antiphon.edge.errors import (
    HttpError,
    http_error_response,
    invalid_request_response,
    unavailable_response,
)
from antiphon.edge.media.presets import load_presets
from antiphon.edge.openai_clients import CALLS
from antiphon.edge.routes import (
    admin,
    chat,
    openai,
    openai_calls,
    openai_realtime,
    pages,
    recordings,
    sockets,
    status,
    voices,
)
from antiphon.edge.routes.deps import problem_responses
from antiphon.edge.routes.socket_routes import ROUTES
from antiphon.edge.routes.stored import COMPRESSION_LEVEL, LARGE_BYTES, StoredBody
from antiphon.edge.settings import EdgeSettings

_DESCRIPTION = """Full-duplex voice and video conversations with MiniCPM-o 4.5.

Conversations run over WebSockets: `/ws/duplex/{session_id}`, `/ws/half_duplex/{session_id}`,
`/v1/realtime?mode=video|audio|chat` and `/ws/chat`."""

_TAGS = [
    {"name": name, "description": text}
    for name, text in {
        "talk": "Spoken conversations run over `/ws/duplex/{session_id}`, "
        "`/ws/half_duplex/{session_id}` and `/v1/realtime`. This route goes with them.",
        "chat": "Questions in text, audio, images and video, over HTTP. `/ws/chat` does the same.",
        "openai": "The HTTP API of OpenAI, for its SDKs.",
        "realtime": "The messages of `/v1/realtime` as JSON Schema.",
        "recordings": "Read, share and comment recorded sessions.",
        "voices": "Reference voices, the presets that use them, and samples of the engine's voices.",
        "queue": "Who waits, and how long.",
        "status": "What runs, and what the engines can do.",
        "pages": "What the web pages load.",
        "administration": "Routes that require the admin token.",
    }.items()
]
"""Groups of routes by task, in the order of the API page."""

_OPEN = (status.public_router, pages.router)
_CLIENT = (
    status.router,
    chat.router,
    openai.router,
    openai_realtime.router,
    openai_calls.router,
    sockets.router,
    voices.presets_router,
    voices.samples_router,
    voices.router,
    admin.router,
    voices.defaults_router,
    recordings.write_router,
)
_ADMIN = (admin.admin_router, recordings.admin_router)


for _module in pkgutil.iter_modules(routes.__path__):
    import_module(f"{routes.__name__}.{_module.name}")  # registers its WebSockets


def create_app(settings: EdgeSettings) -> FastAPI:
    """Create the application. Its lifespan connects to Redis and sets `app.state.edge`."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        pages.read_pages(settings.pages_dir)
        load_presets(settings.assets_dir)
        async with open_edge(settings) as edge:
            app.state.edge = edge
            yield

    app = FastAPI(
        lifespan=lifespan,
        openapi_url=None,  # `_send_description` serves it; the pages have another viewer
        redirect_slashes=False,  # `pages.framework_error_response` redirects to relative addresses
    )
    app.add_route("/openapi.json", _send_description, include_in_schema=False)
    app.router.routes.extend([*ROUTES, *_ROUTES.routes])
    _prepare(app.router.routes)
    app.add_exception_handler(BrokerUnavailable, unavailable_response)
    app.add_exception_handler(HttpError, http_error_response)
    app.add_exception_handler(RequestValidationError, invalid_request_response)
    app.add_exception_handler(HTTPException, pages.framework_error_response)
    _add_middleware(app, settings)
    return app


def _guarded_routes() -> APIRouter:
    """Every router but the open ones requires a key or the admin token."""
    guarded = APIRouter()
    refused = problem_responses(401, 403)
    for router in _OPEN:
        guarded.include_router(router)
    for router in _CLIENT:
        guarded.include_router(router, dependencies=[Depends(CLIENT)], responses=refused)
    guarded.include_router(recordings.router, dependencies=[Depends(READER)], responses=refused)
    for router in _ADMIN:
        guarded.include_router(router, dependencies=[Depends(ADMIN)], responses=refused)
    return guarded


def _prepare(routes: Iterable[BaseRoute]) -> None:
    """FastAPI prepares each route when it is first compared with a path, all of them 60 ms."""
    for route in routes:
        route.matches({"type": "http", "method": "GET", "path": "", "root_path": "", "headers": []})


_ROUTES = _guarded_routes()
"""Shared by all applications of a process, because FastAPI takes long to analyse them."""

_INVALID = {
    "description": "A field cannot be used; `field` names it",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}


def _is_frameworks(response: dict[str, Any] | None) -> bool:
    return response is not None and "HTTPValidationError" in str(response)


def description() -> dict[str, Any]:
    """The API as an OpenAPI document.

    Names the error that `invalid_request_response` sends; FastAPI documents its own.
    """
    document = get_openapi(
        title="Antiphon",
        version=version("antiphon"),
        description=_DESCRIPTION,
        tags=_TAGS,
        routes=_ROUTES.routes,
        servers=[{"url": "."}],  # relative to this document, which may be below a path of a proxy
    )
    schemas = document["components"]["schemas"]
    if schemas.pop("HTTPValidationError", None):
        schemas.pop("ValidationError", None)
        for operations in document["paths"].values():
            for operation in operations.values():
                if _is_frameworks(operation["responses"].get("422")):
                    operation["responses"]["422"] = _INVALID
    return document


_STORED_DESCRIPTION = StoredBody.compressed(orjson.dumps(description()))
"""Made here: it takes 0.2 s of Python, which would delay conversations."""


async def _send_description(request: Request) -> Response:
    return _STORED_DESCRIPTION.response(request, "application/json")


_NOT_COMPRESSED = (
    *("audio/*", "image/*", "video/*", "font/*"),
    *("application/octet-stream", "application/zip", "text/event-stream"),
)
"""Media types of responses that are small already, or that must not wait for more."""

_BODY_ROUTES = body_routes(_CLIENT, CLIENT) + body_routes(_ADMIN, ADMIN)


def _add_middleware(app: FastAPI, settings: EdgeSettings) -> None:
    more = settings.max_body_bytes
    limits = {
        voices.UPLOAD_PATH: voices.MAX_BYTES * 4 // 3 + more,
        recordings.UPLOAD_PATH: settings.max_upload_bytes + more,
        chat.PATH: None,
        **dict.fromkeys(openai.PATHS),
        **dict.fromkeys(CALLS, openai_calls.MAX_BODY_BYTES),
    }
    app.add_middleware(
        GZipMiddleware,
        minimum_size=LARGE_BYTES,
        compresslevel=COMPRESSION_LEVEL,
        exclude_content_types=_NOT_COMPRESSED,
    )
    app.add_middleware(
        RequestBodies, routes=_BODY_ROUTES, limit=settings.max_body_bytes, limits=limits
    )
    if settings.allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.allowed_origins,
            allow_methods=["GET", "POST", "PUT", "DELETE"],
            allow_headers=["*"],  # SDKs send many, and more with each version
            expose_headers=["Location", "Retry-After"],
        )
    app.add_middleware(RequestLimit)  # the outermost: it also counts what CORS answers
