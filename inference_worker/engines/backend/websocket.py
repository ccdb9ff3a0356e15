"""A WebSocket to a server, whose connection is cut if the other side does not answer."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Timer
from typing import Any
from urllib.parse import urlsplit

from websockets.exceptions import InvalidHandshake, InvalidMessage
from websockets.sync.client import ClientConnection, connect

from antiphon.inference_worker.engines.backend.server import ServerAccess

CONNECT_TIMEOUT_S = 10.0
CONNECT_FAILURES = (OSError, TimeoutError, InvalidHandshake, InvalidMessage)


class ServerSocket:
    """`connection` is open until `close`."""

    def __init__(self, access: ServerAccess, path: str, **settings: Any) -> None:
        """Raises CONNECT_FAILURES."""
        self._resources = ExitStack()
        url = urlsplit(access.address)
        port = url.port or (443 if url.scheme == "https" else 80)
        line = socket.create_connection((url.hostname or "", port), CONNECT_TIMEOUT_S)
        with _cut_after(CONNECT_TIMEOUT_S, line.fileno()):
            opened = connect(
                access.websocket_url(path),
                sock=line,
                additional_headers=access.headers,
                open_timeout=2 * CONNECT_TIMEOUT_S,  # the line is cut before
                max_size=None,
                compression=None,
                proxy=None,
                **settings,
            )
            self.connection: ClientConnection = self._resources.enter_context(opened)

    def close(self, timeout_s: float) -> None:
        line = self.connection.socket.fileno()
        if line < 0:  # it is closed
            self._resources.close()
            return
        with suppress(OSError, TimeoutError), _cut_after(timeout_s, line):
            self._resources.close()


@contextmanager
def _cut_after(timeout_s: float, descriptor: int) -> Iterator[None]:
    """Shut the TCP connection down if the block takes longer.

    A thread of the library that reads from TLS ends only then, and the library waits for it.
    """
    line = socket.socket(fileno=os.dup(descriptor))
    timer = Timer(timeout_s, _cut, (line,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        line.close()


def _cut(line: socket.socket) -> None:
    with suppress(OSError):  # it is not connected any more
        line.shutdown(socket.SHUT_RDWR)
