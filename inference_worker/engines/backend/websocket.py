"""A WebSocket to a server, for code that blocks."""

import queue
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

from anyio import move_on_after
from anyio.from_thread import start_blocking_portal
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage

from antiphon.inference_worker.engines.backend.server import ServerAccess

CONNECT_TIMEOUT_S = 10.0
CONNECT_FAILURES = (OSError, TimeoutError, InvalidHandshake, InvalidMessage, ValueError)
"""`websockets` raises ValueError for a redirect to another server."""


class ServerSocket:
    """Is open until `close`. Any thread can use it.

    An event loop in a separate thread does all input and output: OpenSSL does not allow two threads to
    read and write at once, and the library's client for threads, which does that, hangs at times.
    """

    def __init__(self, access: ServerAccess, path: str, **settings: Any) -> None:
        """`settings` are those of `websockets`. Raises CONNECT_FAILURES."""
        # A call to the loop costs ten times what a queue does, and callers ask ten times a second.
        self._messages: queue.SimpleQueue[str | bytes | ConnectionClosed] = queue.SimpleQueue()
        with ExitStack() as resources:
            self._portal = resources.enter_context(start_blocking_portal(name="backend-websocket"))
            self._connection = self._portal.call(_opened, access, path, settings)
            self._portal.start_task_soon(self._receive)
            self._resources = resources.pop_all()

    def send(self, message: str) -> None:
        """Raises ConnectionClosed; RuntimeError after `close`."""
        self._portal.call(self._connection.send, message)

    def recv(self, timeout_s: float) -> str | bytes:
        """The oldest message that was not returned yet. Raises ConnectionClosed, TimeoutError."""
        try:
            message = self._messages.get(timeout=timeout_s)
        except queue.Empty:
            raise TimeoutError from None
        if isinstance(message, ConnectionClosed):
            self._messages.put(message)  # for the next call
            raise message
        return message

    def close(self, timeout_s: float) -> None:
        """Cut the connection if the server has not closed its side after `timeout_s`."""
        with self._resources:
            self._portal.call(self._close, timeout_s)

    async def _receive(self) -> None:
        try:
            while True:
                self._messages.put(await self._connection.recv())
        except ConnectionClosed as closed:
            self._messages.put(closed)

    async def _close(self, timeout_s: float) -> None:
        with move_on_after(timeout_s) as limit:
            await self._connection.close()
        if limit.cancelled_caught:
            self._connection.transport.abort()


async def _opened(access: ServerAccess, path: str, settings: dict[str, Any]) -> ClientConnection:
    url = urlsplit(access.address)
    return await connect(
        access.websocket_url(path),
        # Named here, no redirect leads to another server: it would get the headers, and they may hold keys.
        host=url.hostname,
        port=url.port or (443 if url.scheme == "https" else 80),
        additional_headers=access.headers,
        open_timeout=CONNECT_TIMEOUT_S,
        max_size=None,
        compression=None,
        proxy=None,
        **settings,
    )
