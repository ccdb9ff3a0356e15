"""The errors that the client raises, and why no WebSocket could be opened."""

import re
import socket
import ssl
from http.client import HTTPException, responses
from typing import Any
from urllib.parse import urlsplit

import orjson
from websockets.exceptions import (
    InvalidMessage,
    InvalidProxy,
    InvalidProxyMessage,
    InvalidStatus,
    InvalidURI,
)

from antiphon.client.turns import Turn
from antiphon.shared_schemas.wire import Error


class ClientError(Exception):
    """Base of all errors that the client raises. `message` is suitable for display to users."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class CannotConnect(ClientError):
    """No WebSocket could be opened; the message names the server and the cause."""


class Unauthorized(CannotConnect):
    """The edge needs an API key, or does not know the given one (status 401)."""


class Forbidden(CannotConnect):
    """The edge refuses this client (status 403)."""


class ServiceUnavailable(CannotConnect):
    """The edge is full, or is stopping (status 503); a later try may succeed."""


class UnknownRecording(ClientError):
    """The edge has no such recording or file, or the client may not use the id of its session."""


class InvalidAudio(ClientError, ValueError):
    """The program's audio cannot be sent; the message says what is needed."""


class MissingFile(InvalidAudio, FileNotFoundError):
    """The sound file does not exist."""


class NoAnswer(ClientError):
    """The model did not answer a question in time, or no worker runs a model for it.

    `turns` is what the model said before.
    """

    def __init__(self, message: str, turns: tuple[Turn, ...] = ()) -> None:
        super().__init__(message)
        self.turns = turns


class UnreadableMessage(ClientError):
    """The server sent a message that does not follow the protocol."""


class ServerError(ClientError):
    """The server's `error` message. `field` is the wire name of the invalid field, if any.

    The session continues unless the connection closes as well; then `SessionOver` follows.
    """

    def __init__(self, error: Error) -> None:
        super().__init__(error.message)
        self.code = error.code
        self.field = error.field
        self.retryable = error.retryable
        self._error = error

    def __reduce__(self) -> tuple[Any, ...]:
        """For `copy` and `pickle`, also of another process: exceptions keep their text alone."""
        return type(self), (self._error,), self.__dict__


class SessionOver(ClientError):
    """The session has ended. `close_code` is that of the WebSocket."""

    def __init__(self, message: str, close_code: int | None = None) -> None:
        super().__init__(message)
        self.close_code = close_code


_REFUSALS = {401: Unauthorized, 403: Forbidden, 503: ServiceUnavailable}
_REMEDIES = {
    401: "; pass `api_key`, `--api-key` or ANTIPHON_API_KEY",
    426: "; the client sent both headers, so a proxy on the way to the server removed them",
}
_EDGES_TOO = (401, 413, 426, 429, *range(500, 600))
"""Statuses without words of an edge that a proxy in front of one sends."""

NO_EDGE = "check that an edge is at this address"


def connection_error(address: str, error: Exception, proxy: str | None = None) -> CannotConnect:
    """The error for the user. It names the server without the path and the query of the address.

    `proxy` is the address of the proxy through which the client connects, if any.
    """
    if isinstance(error, InvalidStatus):
        response = error.response
        status = response.status_code
        said = server_words(status, bytes(response.body or b""), response.reason_phrase)
        return refusal_error(address, status, said)
    host = urlsplit(address).hostname
    if proxy is not None:
        return CannotConnect(
            f"cannot connect to {_server(address)} through the proxy {without_password(proxy)}: "
            f"{_proxy_cause(error)}; NO_PROXY={host} connects without it"
        )
    return CannotConnect(f"cannot connect to {_server(address)}: {_cause(error, address)}")


def refusal_error(address: str, status: int, said: str) -> CannotConnect:
    """The error for a response with this status."""
    text = f"{_server(address)} refuses the connection ({status}): {said}"
    return _REFUSALS.get(status, CannotConnect)(text + _REMEDIES.get(status, ""))


def server_words(status: int, body: bytes, reason: str) -> str:
    """The error in the body of a response, else the reason of its status."""
    try:
        said = orjson.loads(body)["error"]
        words = said["message"] if isinstance(said, dict) else said
    except (orjson.JSONDecodeError, KeyError, TypeError):
        words = None
    if isinstance(words, str) and words:
        return words
    reason = reason or responses.get(status, "no reason given")
    return reason if status in _EDGES_TOO else f"{reason}; {NO_EDGE}"


def _server(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def without_password(address: str) -> str:
    """The address without the user and password that it may contain."""
    return re.sub(r"(?<=//)[^/]*@", "", address)


def _proxy_cause(error: Exception) -> str:
    if isinstance(error, ImportError):
        return "a SOCKS proxy needs a package, run: pip install 'python-socks[asyncio]'"
    if isinstance(error, InvalidProxy):
        return f"its address is not valid ({error.msg})"
    if isinstance(error, InvalidProxyMessage):
        return "what listens there is not a proxy"
    if _is_refused(error):
        return "nothing listens at the address of the proxy"
    if isinstance(error, socket.gaierror):
        return "the host name of the proxy is unknown"
    if isinstance(error, TimeoutError):
        return "no answer"
    return str(error)


def _is_refused(error: Exception) -> bool:
    return isinstance(error, ConnectionRefusedError) or "Connect call failed" in str(error)


def _cause(error: Exception, address: str) -> str:
    plain, secure = ("http", "https") if address.startswith("http") else ("ws", "wss")
    if isinstance(error, ssl.SSLError) and error.reason == "WRONG_VERSION_NUMBER":
        return f"the server does not use TLS there; use {plain}:// instead of {secure}://"
    if isinstance(error, ssl.SSLCertVerificationError):
        remedy = "`tls` or SSL_CERT_FILE may name its authority"
        return f"its certificate is not trusted ({error.verify_message}); {remedy}"
    if isinstance(error, InvalidMessage | HTTPException):
        return f"what listens there is not an edge, or it needs {secure}://"
    if isinstance(error, InvalidURI):
        return f"it redirects to {_server(error.uri)}; use that address, if an edge is there"
    if isinstance(error, ValueError):
        return f"it redirects to no valid address ({error}); {NO_EDGE}"
    if _is_refused(error):
        return "nothing listens there; is `antiphon up` running?"
    if isinstance(error, socket.gaierror):
        return f"the host name {urlsplit(address).hostname} is unknown"
    if isinstance(error, TimeoutError):
        return "the server does not answer"
    return str(error)
