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
    parts = urlsplit(address)
    server = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    if isinstance(error, InvalidStatus):
        status = error.response.status_code
        text = f"{server} refuses the connection ({status}): {_refusal(error)}"
        return _REFUSALS.get(status, CannotConnect)(text + _REMEDIES.get(status, ""))
    return CannotConnect(f"cannot connect to {server}: {_cause(error, parts.hostname)}")


def _refusal(error: InvalidStatus) -> str:
    """The server's own words, if it sent any."""
    try:
        return str(orjson.loads(error.response.body or b"")["error"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return error.response.reason_phrase


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
