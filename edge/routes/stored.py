"""Responses that many requests get: their bodies are kept, and each encoding is made once."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock

from starlette.requests import HTTPConnection
from starlette.responses import Response

LARGE_BYTES = 2000
"""Smaller bodies are not compressed."""

COMPRESSION_LEVEL = 6


@dataclass(frozen=True)
class StoredBody:
    """`brotli` is the body as the build has compressed it; None if that is not smaller."""

    body: bytes
    brotli: bytes | None = None
    _lock: Lock = field(default_factory=Lock, repr=False, compare=False)

    @cached_property
    def gzip(self) -> bytes | None:
        """None if it is not smaller. Takes 30 ms for the largest script: call it in a thread."""
        if len(self.body) < LARGE_BYTES:
            return None
        compressed = gzip.compress(self.body, COMPRESSION_LEVEL, mtime=0)
        return compressed if len(compressed) < len(self.body) else None

    async def response(
        self,
        request: HTTPConnection,
        media_type: str,
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """The body in an encoding that the client accepts."""
        encoding, body = await self._encoded(listed(request, "accept-encoding"))
        own = {"Vary": "Accept-Encoding", **(headers or {})}
        if encoding:
            own["Content-Encoding"] = encoding
        return Response(body, status_code=status, headers=own, media_type=media_type)

    def _compress(self) -> bytes | None:
        """Many requests may arrive before it is done."""
        with self._lock:
            return self.gzip

    async def _encoded(self, accepted: set[str]) -> tuple[str, bytes]:
        if "br" in accepted and self.brotli is not None:
            return "br", self.brotli
        if "gzip" in accepted:
            if "gzip" not in self.__dict__:
                await asyncio.to_thread(self._compress)
            if self.gzip is not None:
                return "gzip", self.gzip
        return "", self.body


def listed(connection: HTTPConnection, header: str) -> set[str]:
    """The values that a header lists; weights are ignored."""
    values = connection.headers.get(header, "").split(",")
    return {value.split(";")[0].strip().lower() for value in values}
