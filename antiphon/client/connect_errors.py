"""Explains why no WebSocket could be opened."""

from __future__ import annotations

import socket
import ssl
from urllib.parse import urlsplit

import orjson
from websockets.exceptions import InvalidMessage, InvalidStatus

from antiphon.client.errors import CannotConnect, Forbidden, ServiceUnavailable, Unauthorized

_REFUSALS = {401: Unauthorized, 403: Forbidden, 503: ServiceUnavailable}
_REMEDIES = {401: "; pass `api_key`, `--api-key` or ANTIPHON_API_KEY"}


def connection_error(address: str, error: Exception) -> CannotConnect:
    """The error for the user. It names the server without the path and the query of the address."""
    if isinstance(error, InvalidStatus):
        response = error.response
        said = server_words(bytes(response.body or b""), response.reason_phrase)
        return refusal_error(address, response.status_code, said)
    host = urlsplit(address).hostname
    return CannotConnect(f"cannot connect to {_server(address)}: {_cause(error, host)}")


def refusal_error(address: str, status: int, said: str) -> CannotConnect:
    """The error for a response with this status."""
    text = f"{_server(address)} refuses the connection ({status}): {said}"
    return _REFUSALS.get(status, CannotConnect)(text + _REMEDIES.get(status, ""))


def server_words(body: bytes, reason: str) -> str:
    """The error in the body of a response, else the reason of its status."""
    try:
        return str(orjson.loads(body)["error"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return reason


def _server(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _cause(error: Exception, host: str | None) -> str:
    if isinstance(error, ssl.SSLError) and error.reason == "WRONG_VERSION_NUMBER":
        return "the server does not use TLS there; use ws:// instead of wss://"
    if isinstance(error, InvalidMessage):
        return "what listens there is not an edge, or it needs wss://"
    if isinstance(error, ConnectionRefusedError) or "Connect call failed" in str(error):
        return "nothing listens there; is `antiphon up` running?"
    if isinstance(error, socket.gaierror):
        return f"the host name {host} is unknown"
    if isinstance(error, TimeoutError):
        return "the server does not answer"
    return str(error)
