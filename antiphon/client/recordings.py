"""The recordings of an edge over HTTP: list, read and save them."""

import secrets
import ssl
from collections.abc import Callable, Iterable, Iterator
from http.client import HTTPException, HTTPMessage, HTTPResponse
from pathlib import Path
from typing import IO, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import (
    HTTPRedirectHandler,
    HTTPSHandler,
    ProxyHandler,
    Request,
    build_opener,
    getproxies,
    proxy_bypass,
)

from antiphon.client.arguments import check_text
from antiphon.client.errors import (
    NO_EDGE,
    CannotConnect,
    UnknownRecording,
    UnreadableMessage,
    connection_error,
    refusal_error,
    server_words,
)
from antiphon.client.link import check_tls, edge_address, is_loopback_url
from antiphon.client.options import ClientOptions, check_key, check_options
from antiphon.shared_schemas.recording import (
    REPLAY_WAV,
    DuplexRecording,
    Meta,
    TurnRecording,
    parse_meta,
    parse_recording,
)
from antiphon.shared_schemas.recording_list import RecordingPage, RecordingQuery

_TIMEOUT_S = 30.0
_BLOCK_BYTES = 256 * 1024
_UNREADABLE = f"the server sent something unreadable; {NO_EDGE}"

T = TypeVar("T")


class Recordings:
    """The recordings of an edge such as `ws://127.0.0.1:8006`. Every call blocks.

    A name is the id of a recording or the token of a share link. With the admin token as `api_key`, it
    may also be the id of a session, whose newest recording it names.

    Every call may raise CannotConnect or UnreadableMessage, and each that takes a name UnknownRecording.
    """

    def __init__(
        self, url: str, *, api_key: str | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        check_options(ClientOptions(api_key=api_key, tls=tls))
        self.url = url
        self._api_key = api_key
        self._tls = tls

    def list(self, query: RecordingQuery | None = None) -> RecordingPage:
        """One page, newest first; requires the admin token."""
        if not isinstance(query, RecordingQuery | None):
            kind = type(query).__name__
            raise TypeError(
                f"query is a {kind}, a RecordingQuery is needed: RecordingQuery(text='…')"
            )
        fields = (query or RecordingQuery()).model_dump(mode="json", exclude_defaults=True)
        address = edge_address(
            self.url, "/api/sessions", **{name: str(value) for name, value in fields.items()}
        )
        return self._parsed(address, RecordingPage.model_validate_json)

    def meta(self, name: str) -> Meta:
        """Kind, times and state of a recording."""
        return self._parsed(self._address(name), parse_meta)

    def timeline(self, name: str) -> DuplexRecording | TurnRecording:
        """Units or turns with their texts and times; UnknownRecording while the session runs."""
        return self._parsed(self._address(name, "/recording"), parse_recording)

    def save(self, name: str, path: str | Path, file: str = REPLAY_WAV) -> None:
        """Write one file to `path`; the default has both sides of the conversation. Raises OSError."""
        check_text("file", file)
        self._save(self._address(name, f"/assets/{quote(file, errors='replace')}"), path)

    def download(self, name: str, path: str | Path) -> None:
        """Write all files to a ZIP. Raises OSError."""
        self._save(self._address(name, "/download"), path)

    def _address(self, name: str, rest: str = "") -> str:
        """Raises UnknownRecording without a name: that would be the address of the list."""
        check_text("name", name)
        if not name:
            raise UnknownRecording("the name of the recording is empty")
        named = quote(name, safe="", errors="replace")
        return edge_address(self.url, f"/api/sessions/{named}{rest}")

    def _parsed(self, address: str, parse: Callable[[bytes], T]) -> T:
        """Raises UnreadableMessage."""
        with self._open(address) as response:
            content = b"".join(_blocks(response))
        try:
            return parse(content)
        except ValueError as error:
            raise UnreadableMessage(_UNREADABLE) from error

    def _save(self, address: str, path: str | Path) -> None:
        with self._open(address) as response:
            if response.headers.get_content_type() == "text/html":  # an edge sends no pages here
                raise UnreadableMessage(_UNREADABLE)
            _write_whole(Path(path), _blocks(response))

    def _open(self, address: str) -> HTTPResponse:
        """The response to a GET of an address of `edge_address`."""
        check_key(self._api_key)
        check_tls(address, self._tls)
        headers = {"X-Api-Key": self._api_key} if self._api_key else {}
        request = Request("http" + address.removeprefix("ws"), headers=headers)  # noqa: S310
        proxy = _proxy(request)
        proxies, redirects = ProxyHandler({request.type: proxy} if proxy else {}), _Redirects()
        opener = build_opener(proxies, redirects, HTTPSHandler(context=self._tls))
        is_web_socket = self.url.strip().startswith("ws")
        shown = address if is_web_socket else request.full_url
        try:
            response: HTTPResponse = opener.open(request, timeout=_TIMEOUT_S)
        except HTTPError as error:
            with error:
                said = server_words(error.code, _body(error), error.reason)
            if error.code in (400, 404):
                raise UnknownRecording(said) from None
            raise refusal_error(redirects.target or shown, error.code, said) from None
        except URLError as error:
            cause = error.reason if isinstance(error.reason, OSError) else error
            raise connection_error(redirects.target or shown, cause, proxy) from None
        except (OSError, HTTPException, ValueError) as error:
            raise connection_error(redirects.target or shown, error, proxy) from None
        return response


def _write_whole(path: Path, blocks: Iterable[bytes]) -> None:
    """Write a file in one step: an error leaves `path` as it was. Raises OSError."""
    path = path.resolve()
    if path.exists() and not path.is_file():  # such as /dev/stdout
        with path.open("wb") as file:
            file.writelines(blocks)
        return
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with unfinished.open("xb") as file:
            file.writelines(blocks)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


class _Redirects(HTTPRedirectHandler):
    """Sends the API key only to the same host, and not from HTTPS to HTTP. `target`: where the last one led."""

    inf_msg = "it redirects in a circle: "

    def __init__(self) -> None:
        self.target = ""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request is not None:
            old, new = urlsplit(req.full_url), urlsplit(request.full_url)
            if new.scheme not in ("http", "https"):
                text = f"it redirects to an address of {new.scheme}"
                raise HTTPError(req.full_url, code, text, headers, fp)
            if old.hostname != new.hostname or (old.scheme, new.scheme) == ("https", "http"):
                request.remove_header("X-api-key")
            self.target = request.full_url
        return request


def _proxy(request: Request) -> str | None:
    """The proxy of this machine's settings for a request."""
    if is_loopback_url(request.full_url) or proxy_bypass(request.host):
        return None
    return getproxies().get(request.type)


def _body(refusal: HTTPError) -> bytes:
    """Empty if it does not arrive completely: the status is known without it."""
    try:
        return refusal.read()
    except (OSError, HTTPException):
        return b""


def _blocks(response: HTTPResponse) -> Iterator[bytes]:
    """The body. Raises CannotConnect if a part of it is missing."""
    try:
        while block := response.read(_BLOCK_BYTES):
            yield block
    except (OSError, HTTPException) as error:
        raise CannotConnect(f"the connection broke during a response: {error!r}") from None
    if response.length:
        raise CannotConnect("the connection broke during a response")
