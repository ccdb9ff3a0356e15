"""What the edge refuses in an HTTP request before the application sees it, and how it answers."""

from collections.abc import Sequence
from http import HTTPStatus
from math import inf

from antiphon.edge.errors import Problem
from antiphon.shared_schemas.errors import ErrorCode

MAX_HEADERS = 100
"""Of a request, and of the trailers after its body."""

MAX_TARGET_BYTES = 8 * 1024

MAX_FRAMING_BYTES = 32 * 1024
"""Of a head, of trailers, and of what chunks have beside their data. A piece of input may exceed it."""

MAX_PIPELINED = 32
"""Requests of a connection that wait for the answer to an earlier one."""

SMALL_CHUNK_BYTES = 1024
"""Smaller chunks are limited by their number; their cost does not depend on their size."""

CHUNK_FRAMING_BYTES = 16
"""Of a chunk's size and line ends; what exceeds it counts as framing."""

_VERSIONS = ("1.0", "1.1")
_LENGTHS = ("Content-Length", "Transfer-Encoding")
_BODY_HEADERS = (b"content-length", b"transfer-encoding")

Headers = Sequence[tuple[bytes, bytes]]


class Refused(Exception):
    """A request that the protocol answers itself; the connection ends."""

    def __init__(
        self,
        status: int,
        text: str,
        code: ErrorCode = ErrorCode.INVALID_FIELD,
        *,
        field: str | None = None,
        counted_as: str = "invalid_request",
    ) -> None:
        super().__init__(text)
        self.status = status
        self.counted_as = counted_as
        self._later = status == HTTPStatus.SERVICE_UNAVAILABLE
        self._problem = Problem(
            error=text, message=text, code=code, field=field, retryable=self._later
        )

    def response(self) -> bytes:
        """The whole answer, also to HEAD: the connection ends after it."""
        body = self._problem.model_dump_json(exclude_none=True).encode()
        retry = "retry-after: 1\r\n" if self._later else ""
        head = (
            f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
            f"{retry}connection: close\r\n\r\n"
        )
        return head.encode() + body


def not_http(error: Exception) -> Refused:
    """What the parser refuses, for example a line that ends without CR, or a body with two lengths."""
    text = f"this request is malformed: {error}"
    field = next((name for name in _LENGTHS if name in text), None)
    return Refused(400, text, field=field)


def check_head(version: str, target: bytes, headers: Headers, *, websocket: bool) -> None:
    """Raises Refused for what the parser accepts and what a proxy may understand differently."""
    if version not in _VERSIONS:
        raise Refused(400, f"HTTP/{version} is not supported; send HTTP/1.1")
    if not target.startswith(b"/") and target != b"*":
        raise Refused(400, "the target of a request must be a path, such as /health")
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) > 1 or (version == "1.1" and not hosts):
        raise Refused(400, "send one Host header", field="Host")
    codings = [value for name, value in headers if name == b"transfer-encoding"]
    if codings and version == "1.0":
        text = "HTTP/1.0 has no Transfer-Encoding; send Content-Length"
        raise Refused(400, text, field="Transfer-Encoding")
    if codings and [value.strip().lower() for value in codings] != [b"chunked"]:
        text = "the only Transfer-Encoding is chunked"
        raise Refused(400, text, field="Transfer-Encoding")
    if websocket and any(name in _BODY_HEADERS and value != b"0" for name, value in headers):
        raise Refused(400, "a WebSocket handshake has no body", field="Content-Length")


def no_room() -> Refused:
    text = "this edge has no room for another connection; try again"
    return Refused(HTTPStatus.SERVICE_UNAVAILABLE, text, ErrorCode.QUEUE_FULL)


def too_long_a_head() -> Refused:
    text = f"a request has at most {MAX_HEADERS} headers of {MAX_FRAMING_BYTES} bytes together"
    return Refused(431, text)


def body_length(headers: Headers) -> float:
    """Infinity if it is not known. The parser has checked the headers."""
    known = dict(headers)
    return inf if b"transfer-encoding" in known else int(known.get(b"content-length", b"0"))
