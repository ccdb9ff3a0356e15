"""One request for a file on a hub, or for the rest of it."""

import re
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from http.client import HTTPException, HTTPMessage, HTTPResponse
from importlib.metadata import version
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPRedirectHandler,
    ProxyHandler,
    Request,
    build_opener,
    getproxies,
    proxy_bypass,
)

from antiphon.client.errors import without_password

_SILENT_S = 30.0
_BLOCK_BYTES = 256 * 1024
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")
_REFUSED_TUNNEL = re.compile(r"Tunnel connection failed: (\d{3})\b")
_LATER = (
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
)
"""Statuses after which the same request may succeed."""


class HubRefuses(Exception):
    """The same request would fail again; the message says why, without the words of the server."""


class HubAway(Exception):
    """A later request may succeed. `wait_s` is the time that the hub asks for, if it does."""

    def __init__(self, message: str, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.wait_s = wait_s


class Unreachable(HubAway):
    """No connection to the hub."""


class PartRefused(Exception):
    """The hub does not send the rest of this file; it may send the whole."""


@dataclass(frozen=True, slots=True)
class FilePart:
    """A file from the byte `start` to its end. `size` is that of the whole, None if the hub does not say."""

    start: int
    size: int | None
    blocks: Iterator[bytes]
    """Raises HubAway if the connection breaks."""


@contextmanager
def request_file(url: str, start: int) -> Iterator[FilePart]:
    """Ask for the file from `start` on; the answer may be the whole file.

    Raises HubRefuses, HubAway and PartRefused.
    """
    headers = {"User-Agent": f"antiphon/{version('antiphon')}", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    request = Request(url, headers=headers)  # noqa: S310 - the scheme is checked before
    with _open(request) as response:
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise HubRefuses("the answer is compressed, although that was not asked for")
        first, size = _range(response, start)
        yield FilePart(first, size, _blocks(response))


def _range(response: HTTPResponse, start: int) -> tuple[int, int | None]:
    if response.status == HTTPStatus.OK:
        return 0, response.length
    found = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
    if response.status != HTTPStatus.PARTIAL_CONTENT:
        raise HubRefuses(f"the answer has the status {response.status}, not {HTTPStatus.OK}")
    if not start or found is None or int(found[1]) != start:
        raise PartRefused("the answer is another part than the one asked for")
    return start, None if found[2] == "*" else int(found[2])


def _blocks(response: HTTPResponse) -> Iterator[bytes]:
    try:
        while block := response.read1(_BLOCK_BYTES):
            yield block
    except OSError as error:
        raise HubAway(f"the connection broke ({_cause(error)})") from error
    except HTTPException as error:
        raise HubAway("the connection broke") from error
    if response.length:
        raise HubAway("the connection broke")


def _open(request: Request) -> HTTPResponse:
    redirects = _Redirects()
    redirects.newest = request
    opener = build_opener(ProxyHandler(), redirects)
    try:
        response: HTTPResponse = opener.open(request, timeout=_SILENT_S)
    except HTTPError as error:
        with error:
            raise _refusal(error.code, error.headers, _place(redirects.newest)) from None
    except URLError as error:
        place = _place(redirects.newest)
        cause = error.reason if isinstance(error.reason, Exception) else error
        if isinstance(cause, ssl.SSLCertVerificationError):
            text = f"the certificate of {place} is not trusted ({cause.verify_message})"
            raise HubRefuses(f"{text}; SSL_CERT_FILE names another authority") from None
        # http.client has no exception for a proxy that refuses CONNECT.
        if refused := _REFUSED_TUNNEL.match(str(cause)):
            raise _refused_tunnel(int(refused[1]), place) from None
        raise Unreachable(f"cannot reach {place}: {_cause(cause)}") from None
    except OSError as error:
        raise HubAway(f"{_place(redirects.newest)} does not answer: {_cause(error)}") from None
    except HTTPException:
        raise HubRefuses(
            f"what answers at {_place(redirects.newest)} does not speak HTTP"
        ) from None
    return response


def _refusal(status: int, headers: Message, place: str) -> Exception:
    words = f"{place} answers {status}"
    if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
        return PartRefused(words)
    if 300 <= status < 400:
        return HubRefuses(f"{words}: a redirect that leads nowhere")
    if status in _LATER:
        return HubAway(words, _wait_s(headers.get("Retry-After", "")))
    if status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
        return HubRefuses(f"{words}: the file is not there")
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return HubRefuses(f"{words}: it does not give the file to everyone")
    if status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        return HubRefuses(f"{words}: the proxy wants a login, as in http://USER:PASSWORD@HOST:PORT")
    return HubRefuses(words)


def _refused_tunnel(status: int, place: str) -> Exception:
    if status in _LATER or status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        return _refusal(status, Message(), place)
    return HubRefuses(f"{place} answers {status}: the proxy does not lead there")


def _wait_s(retry_after: str) -> float | None:
    """The seconds of a Retry-After, which is a number or a date."""
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after)
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


class _Redirects(HTTPRedirectHandler):
    """Follows to HTTP and HTTPS only, and never from HTTPS to HTTP."""

    newest: Request

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        if new.scheme not in ("http", "https") or (old.scheme, new.scheme) == ("https", "http"):
            raise HubRefuses(f"{_place(req)} redirects to an address without HTTPS")
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        self.newest = request or req
        return request


def _place(request: Request) -> str:
    """The server of a request, without login, path and query, and its proxy."""
    parts = urlsplit(request.full_url)
    server = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    proxy = getproxies().get(parts.scheme)
    if proxy is None or proxy_bypass(parts.netloc):
        return server
    return f"{server} through the proxy {without_password(proxy)}"


def _cause(error: Exception) -> str:
    match error:
        case socket.gaierror():
            return "its name is unknown"
        case ConnectionRefusedError():
            return "nothing listens there"
        case TimeoutError():
            return f"nothing came for {_SILENT_S:g} s"
        case ssl.SSLError():
            return f"TLS failed ({error.reason})"
        case OSError(strerror=str(words)):
            return words
    return str(error)
