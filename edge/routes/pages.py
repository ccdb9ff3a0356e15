"""The pages, open to all: what they show and do goes through routes that ask for the key."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, RedirectResponse, Response

from antiphon.broker.errors import BrokerUnavailable
from antiphon.edge.context import EdgeContext
from antiphon.edge.routes.dependencies import EdgeDep
from antiphon.edge.site import NOT_BUILT, PageFile, load_site
from antiphon.shared_schemas.apps import APPS

_CONTENT_SECURITY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "font-src": "'self'",
    "img-src": "'self' blob: data:",
    "media-src": "'self' blob:",
    "connect-src": "'self' blob: data:",
    "worker-src": "'self' blob:",
    "manifest-src": "'self'",
    "form-action": "'self'",
    "base-uri": "'none'",
    "frame-ancestors": "'none'",
}

_HEADERS = {
    "Content-Security-Policy": "; ".join(f"{k} {v}" for k, v in _CONTENT_SECURITY.items()),
    "Permissions-Policy": "camera=(self), microphone=(self), autoplay=(self), "
    "display-capture=(), geolocation=(), payment=(), usb=()",
    # The address of a recording opens it: no other server may learn it.
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

_FILES = {"/": "index.html", "/admin": "admin.html"} | {
    app.route: f"{app.route.strip('/')}.html" for app in APPS.values() if app.page
}
_APPS = {app.route: app.app_id for app in APPS.values() if app.page}
_NOTICE = "notice.html"
_ALIASES = {"/mobile": "/omni", "/mobile-omni": "/omni"}

router = APIRouter(include_in_schema=False)


async def page(edge: EdgeDep, request: Request) -> Response:
    """One page; a notice with status 403 where an operator switched it off."""
    path = request.url.path
    if await _is_off(edge, path):
        return await _answer(edge, request, _NOTICE, status=403)
    return await _answer(edge, request, _FILES[path])


@router.api_route("/s/{recording_id}", methods=["GET", "HEAD"])
async def viewer(edge: EdgeDep, request: Request) -> Response:
    """The session viewer; it asks for the recording itself."""
    return await _answer(edge, request, "session-viewer.html")


@router.api_route("/static/{name:path}", methods=["GET", "HEAD"])
async def asset(edge: EdgeDep, request: Request, name: str) -> Response:
    """A script, a style sheet, a font."""
    return await _answer(edge, request, f"static/{name}")


@router.api_route("/favicon.svg", methods=["GET", "HEAD"])
async def favicon(edge: EdgeDep, request: Request) -> Response:
    """The pages' sign."""
    return await _answer(edge, request, "favicon.svg")


async def alias(request: Request) -> RedirectResponse:
    """An address under which others know a page of ours."""
    return RedirectResponse(_ALIASES[request.url.path.rstrip("/")], status_code=302)


for _path in _FILES:
    router.add_api_route(_path, page, methods=["GET", "HEAD"])
for _path in _ALIASES:
    router.add_api_route(_path, alias, methods=["GET", "HEAD"])
    router.add_api_route(f"{_path}/", alias, methods=["GET", "HEAD"])


async def _is_off(edge: EdgeContext, path: str) -> bool:
    """Without Redis the page comes, and says itself what is wrong."""
    if path not in _APPS:
        return False
    try:
        return await edge.broker.apps.is_off(_APPS[path])
    except BrokerUnavailable:
        return False


async def _answer(edge: EdgeContext, request: Request, name: str, status: int = 200) -> Response:
    site = await asyncio.to_thread(load_site, edge.settings.pages_dir)
    if not site:
        return PlainTextResponse(NOT_BUILT, status_code=503, headers=_HEADERS)
    file = site.get(name)
    if file is None:
        return PlainTextResponse("There is no such file.", status_code=404, headers=_HEADERS)
    return _file_answer(request, file, status)


def _file_answer(request: Request, file: PageFile, status: int) -> Response:
    compressed = file.brotli is not None and "br" in _encodings(request)
    headers = _HEADERS | file.headers(compressed=compressed)
    if status == 200 and request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=headers)
    body = file.brotli if compressed else file.body
    return Response(body, status_code=status, headers=headers, media_type=file.media_type)


def _encodings(request: Request) -> set[str]:
    """What the client takes, without its preferences: nobody weights brotli with 0."""
    accepted = request.headers.get("accept-encoding", "").split(",")
    return {part.split(";")[0].strip().lower() for part in accepted}
