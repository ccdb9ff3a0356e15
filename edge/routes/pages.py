"""The built web pages, sent from memory and open to everyone. Their data comes from guarded routes."""

import hashlib
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.routing import Match

from antiphon.broker.errors import BrokerUnavailable
from antiphon.edge import errors
from antiphon.edge.edge_context import EdgeContext
from antiphon.edge.routes.deps import EdgeDep
from antiphon.edge.routes.stored import StoredBody, listed
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
    # The URL of a recording gives access to it and must not reach other servers.
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

_APP_FILES = (
    "favicon.svg",
    "manifest.webmanifest",
    "icon-192.png",
    "icon-512.png",
    "apple-touch-icon.png",
)
"""What browsers need to show an icon and to install the pages as an app."""

_FILES = {
    "/": "index.html",
    "/admin": "admin.html",
    "/docs": "docs.html",
    "/s/{recording_id}": "session-viewer.html",
    "/licenses.md": "licenses.md",
    **{f"/{name}": name for name in _APP_FILES},
    **{app.route: f"{app.route.strip('/')}.html" for app in APPS.values() if app.page},
}
"""The file of each route."""
_APPS = {app.route: app.app_id for app in APPS.values() if app.page}
_NOTICE = "notice.html"
_NOT_FOUND = "not_found.html"
_ALIASES = {"/mobile": "/omni", "/mobile-omni": "/omni"}

_NOT_BUILT = """The pages of this server have not been built.

In a checkout, run:                 make web
With pip, install it from there:    pip install .

Its protocols and its API work without them.
"""

_HTML = "text/html"
_MOST_FOLDERS = 20
_BROTLI_SUFFIX = ".br"
_GZIP_SUFFIX = ".gz"
_HASHED_NAMES = "static/"
_MEDIA_TYPES = {
    ".f16": "application/octet-stream",
    ".js": "text/javascript",
    ".wasm": "application/wasm",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}

_NO_PAGES = ("/api/", "/v1/", "/ws/")
"""Below these paths are no pages. Errors are JSON there for browsers too."""

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file of the build."""

    media_type: str
    stored: StoredBody
    etag: str
    immutable: bool
    _deeper: dict[str, StoredBody] = field(default_factory=dict, repr=False, compare=False)

    def at_depth(self, home: str) -> StoredBody:
        """The file for a path from which `home` leads to the home page.

        The build writes addresses for paths beside the home page.
        """
        if self.media_type != _HTML or home == "./":
            return self.stored
        if home not in self._deeper:
            body = self.stored.body.replace(b'="./', f'="{home}'.encode())
            self._deeper[home] = StoredBody.compressed(body)
        return self._deeper[home]

    def headers(self) -> dict[str, str]:
        """Names that contain a hash are immutable; browsers revalidate all others."""
        cache = "public, max-age=31536000, immutable" if self.immutable else "no-cache"
        return {"Cache-Control": cache, "ETag": self.etag, "Vary": "Accept-Encoding"}


@cache
def read_pages(folder: Path) -> Mapping[str, PageFile]:
    """The files by their path; empty without a build.

    Takes 20 ms. The edge calls it when it starts: of requests that arrive together, each would read them.
    """
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {
        path.relative_to(folder).as_posix(): _read_file(path, path.relative_to(folder).as_posix())
        for path in files
        if path.suffix not in (_BROTLI_SUFFIX, _GZIP_SUFFIX) and not path.name.startswith(".")
    }


async def page(edge: EdgeDep, request: Request) -> Response:
    """One page; a notice with status 403 if it is switched off."""
    path = request.scope["route"].path
    if await _is_off(edge, path):
        return _answer(edge, request, _NOTICE, status=403)
    return _answer(edge, request, _FILES[path])


@router.api_route("/static/{name:path}", methods=["GET", "HEAD"])
async def asset(edge: EdgeDep, request: Request, name: str) -> Response:
    """Scripts, style sheets, fonts."""
    return _answer(edge, request, f"static/{name}")


async def alias(request: Request) -> RedirectResponse:
    """Alternative path of a page."""
    page_path = _ALIASES[request.url.path.rstrip("/")]
    return RedirectResponse(home_from(request) + page_path.removeprefix("/"), status_code=302)


def home_from(connection: HTTPConnection) -> str:
    """The relative address of the home page, such as `../`.

    A proxy may serve this edge below a path that it removes from requests.
    """
    raw: bytes = connection.scope["raw_path"]
    return "../" * (raw.count(b"/") - 1) or "./"


def _is_deep(connection: HTTPConnection) -> bool:
    """No page is so far below the home page; each folder lengthens all addresses of the answer."""
    raw: bytes = connection.scope["raw_path"]
    return raw.count(b"/") > _MOST_FOLDERS


for _path in _FILES:
    router.add_api_route(_path, page, methods=["GET", "HEAD"])
for _path in _ALIASES:
    router.add_api_route(_path, alias, methods=["GET", "HEAD"])
    router.add_api_route(f"{_path}/", alias, methods=["GET", "HEAD"])


async def framework_error_response(connection: HTTPConnection, error: Exception) -> Response:
    """Exception handler for errors that the framework raises, as `errors.framework_error_response`.

    A path with or without a slash at its end is redirected to the route that has it the other way.
    A browser that opens an unknown path gets a page.
    """
    assert isinstance(error, HTTPException)
    if error.status_code == 404 and (moved := _other_slash(connection)) is not None:
        return RedirectResponse(moved)
    if error.status_code == 404 and _opens_page(connection):
        edge: EdgeContext = connection.app.state.edge
        site = read_pages(edge.settings.pages_dir)
        if _NOT_FOUND in site:
            response = _file_answer(connection, site[_NOT_FOUND], 404)
            response.headers["Vary"] = "Accept, Accept-Encoding"
            return response
    return await errors.framework_error_response(connection, error)


def _other_slash(connection: HTTPConnection) -> str | None:
    """The relative address of the route whose path differs in the slash at its end only.

    The framework redirects to an absolute one, which lacks what a proxy has removed.
    """
    path: str = connection.scope["path"]
    bare = path.rstrip("/")
    scope = {**connection.scope, "path": f"{path}/" if bare == path else bare}
    if (
        not bare
        or _is_deep(connection)
        or all(route.matches(scope)[0] is Match.NONE for route in connection.app.routes)
    ):
        return None
    query = f"?{connection.url.query}" if connection.url.query else ""
    return home_from(connection) + quote(scope["path"].lstrip("/")) + query


def _opens_page(connection: HTTPConnection) -> bool:
    """True for a request of a browser's address bar or of a link. Other clients do not name HTML."""
    path = connection.url.path
    if connection.scope.get("method") not in ("GET", "HEAD") or _is_deep(connection):
        return False
    if path.startswith(_NO_PAGES) or path.endswith(".json"):
        return False
    return "text/html" in listed(connection, "accept")


async def _is_off(edge: EdgeContext, path: str) -> bool:
    """False without Redis: the page is sent and shows the problem itself."""
    if path not in _APPS:
        return False
    try:
        return await edge.broker.apps.is_disabled(_APPS[path])
    except BrokerUnavailable:
        return False


def _answer(edge: EdgeContext, request: Request, name: str, status: int = 200) -> Response:
    site = read_pages(edge.settings.pages_dir)
    if not site:
        return PlainTextResponse(_NOT_BUILT, status_code=503, headers=_HEADERS)
    file = site.get(name)
    if file is None:
        return PlainTextResponse("There is no such file.", status_code=404, headers=_HEADERS)
    return _file_answer(request, file, status)


def _file_answer(request: HTTPConnection, file: PageFile, status: int) -> Response:
    headers = _HEADERS | file.headers()
    if status == 200 and request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=headers)
    stored = file.at_depth(home_from(request))
    return stored.response(request, file.media_type, status=status, headers=headers)


def _read_file(path: Path, name: str) -> PageFile:
    body = path.read_bytes()
    return PageFile(
        media_type=_MEDIA_TYPES.get(path.suffix) or mimetypes.guess_type(name)[0] or "text/plain",
        stored=StoredBody(
            body,
            gzip=_copy(path, _GZIP_SUFFIX) or StoredBody.compressed(body).gzip,
            brotli=_copy(path, _BROTLI_SUFFIX),
        ),
        etag=f'"{hashlib.sha256(body).hexdigest()[:20]}"',
        immutable=name.startswith(_HASHED_NAMES),
    )


def _copy(path: Path, suffix: str) -> bytes | None:
    """What the build has compressed."""
    copy = path.with_name(path.name + suffix)
    return copy.read_bytes() if copy.exists() else None
