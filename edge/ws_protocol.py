"""uvicorn's WebSocket protocol, with an end that does not depend on the client reading."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, ClassVar

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

_LINGER_S = 3.0
"""How long an unread goodbye may lie in the socket before the connection is cut."""


class EdgeWebSocketProtocol(WebSocketsSansIOProtocol):
    """Gives applications `scope["state"]["force_close"]`, and cuts off clients that answer no ping.

    An orderly close waits until everything sent before it is read, which a stuck client never does.
    """

    long_frames: ClassVar[Mapping[str, int]] = {}
    """Paths that take longer messages than the others, and how long (bytes)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.app_state = {**self.app_state, "force_close": self.force_close}

    def handle_connect(self, event: Request) -> None:
        """Allow what the path may take before the first frame is read."""
        path, _, _ = event.path.partition("?")
        self.conn.max_message_size = self.long_frames.get(path, self.config.ws_max_size)
        super().handle_connect(event)

    def force_close(self, code: int, reason: str) -> None:
        """Send a close frame past any backlog limit, then cut the connection."""
        if not (self.close_sent or self.transport.is_closing()):
            self.conn.send_close(code, reason)
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.close_sent = True
        self.transport.close()
        self._abort_later()

    async def send(self, message: Any) -> None:
        """As uvicorn does; an orderly close, too, is cut short when the client reads no more."""
        await super().send(message)
        if message["type"] == "websocket.close":
            self._abort_later(self.close_timeout)
        elif message["type"] == "websocket.http.response.body":
            self.handshake_complete = True  # answered with a refusal; uvicorn would log an error

    def keepalive_timeout(self) -> None:
        """The client is half-open: nothing that waits for it will ever be read."""
        super().keepalive_timeout()
        self._abort_later()

    def _abort_later(self, after_s: float = 0.0) -> None:
        self.loop.call_later(after_s + _LINGER_S, self.transport.abort)


class NoUtf8Tracebacks(logging.Filter):
    """Bytes that are no UTF-8 are the client's fault (closed with 1007) and worth no traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        """False for the one record uvicorn logs about it."""
        return "Invalid UTF-8" not in str(record.msg)
