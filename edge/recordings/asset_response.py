"""One opened file as an HTTP answer: ranges, conditions, and nothing that a browser would run."""

from __future__ import annotations

import os
from email.utils import parsedate_to_datetime
from pathlib import PurePosixPath
from typing import BinaryIO

from starlette.datastructures import Headers
from starlette.responses import FileResponse, Response
from starlette.types import Receive, Scope, Send

from antiphon.edge.recordings.names import media_type

_HEADERS = {
    "Cache-Control": "private, no-cache",
    "Content-Security-Policy": "default-src 'none'; media-src 'self'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_KEPT = ("etag", "last-modified", "cache-control")


class AssetResponse(FileResponse):
    """Sends a file that is open already, so that what was checked is what is sent; closes it.

    Starlette answers ranges (206, 416, `If-Range`) and sets `ETag` and `Last-Modified`.
    """

    def __init__(self, file: BinaryIO, path: str) -> None:
        shown = media_type(path)
        self._file = file
        super().__init__(
            f"/proc/self/fd/{file.fileno()}",
            headers=_HEADERS,
            media_type=shown or "application/octet-stream",
            filename=PurePosixPath(path).name,
            stat_result=os.fstat(file.fileno()),
            content_disposition_type="inline" if shown else "attachment",
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, with 304 where the client has it already."""
        try:
            if is_unchanged(self.headers, Headers(scope=scope)):
                kept = {name: self.headers[name] for name in _KEPT}
                await Response(status_code=304, headers=kept)(scope, receive, send)
            else:
                await super().__call__(scope, receive, send)
        finally:
            self._file.close()


def is_unchanged(ours: Headers, asked: Headers) -> bool:
    """True when a condition of the request says that the client has what we would send."""
    if (tags := asked.get("if-none-match")) is not None:
        known = {tag.strip().removeprefix("W/") for tag in tags.split(",")}
        return "*" in known or ours["etag"] in known
    try:
        since = parsedate_to_datetime(asked["if-modified-since"])
        return parsedate_to_datetime(ours["last-modified"]) <= since
    except (KeyError, ValueError, TypeError):  # absent, no date, or one without a zone
        return False
