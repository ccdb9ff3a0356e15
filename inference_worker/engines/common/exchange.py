"""HTTP with the server: one connection for each request, which another thread can close."""

import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTP_PORT, HTTPS_PORT, HTTPConnection, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

import orjson

_CONNECT_S = 30.0
_SILENT_S = 300.0
"""Backstops: who waits for the answer has shorter limits, and closes the connection."""

MAX_BODY = 4 * 1024 * 1024
"""Bytes of an answer in one piece."""


@dataclass(frozen=True, slots=True)
class ModelServer:
    """Where it is: the URL in front of `/chat/completions`, and the key if the server wants one."""

    url: str
    key: str = field(default="", repr=False)
    more_headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def place(self) -> str:
        return self.url.rstrip("/")

    def connect(self) -> HTTPConnection:
        """Not connected yet. It has a port in any case: without, the last part of an IPv6 address is one."""
        parts = urlsplit(self.url)
        host = parts.hostname or ""
        if parts.scheme == "https":
            port, context = parts.port or HTTPS_PORT, ssl.create_default_context()
            return HTTPSConnection(host, port, timeout=_CONNECT_S, context=context)
        return HTTPConnection(host, parts.port or HTTP_PORT, timeout=_CONNECT_S)

    def path(self, name: str) -> str:
        return f"{urlsplit(self.url).path.rstrip('/')}/{name}"

    def headers(self) -> dict[str, str]:
        fields = {"Content-Type": "application/json", "User-Agent": "antiphon"}
        key = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        return {**fields, **key, **self.more_headers}


class Exchange:
    """Requests one after another. `cancel` closes the connection at once, from any thread."""

    def __init__(self, address: ModelServer) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._connection: HTTPConnection | None = None
        self._socket: socket.socket | None = None
        self._response: HTTPResponse | None = None
        self._ended = threading.Event()
        self.stays_open = False
        """`cancel` lets the request that is in progress continue."""

    @property
    def ended(self) -> threading.Event:
        """Set by `cancel`."""
        return self._ended

    def ask(self, method: str, name: str, body: dict[str, Any] | None = None) -> HTTPResponse:
        """Send a request on a new connection. Raises OSError or HTTPException."""
        self.close()
        connection = self._address.connect()
        connection.connect()
        with self._lock:
            self._connection, self._socket = connection, connection.sock
            if self._ended.is_set():
                raise ConnectionAbortedError("cancelled")
        connection.sock.settimeout(_SILENT_S)
        data = None if body is None else orjson.dumps(body)
        connection.request(method, self._address.path(name), data, self._address.headers())
        self._response = connection.getresponse()
        return self._response

    def cancel(self) -> None:
        self._ended.set()
        with self._lock:
            if self._socket is not None and not self.stays_open:
                with suppress(OSError):  # not connected any more
                    # Not the method of a TLS socket: it takes the state away from the reading thread.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        """Called by the thread that asks."""
        with self._lock:
            connection, self._connection, self._socket = self._connection, None, None
        if self._response is not None:
            self._response.close()  # it may hold the socket alone
        if connection is not None:
            connection.close()
