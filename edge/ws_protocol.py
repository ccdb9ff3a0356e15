"""uvicorn's WebSocket protocol, with an end that does not depend on the client reading."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, ClassVar

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState
from websockets.frames import Frame
from websockets.http11 import Request

_LINGER_S = 3.0
"""How long an unread goodbye may lie in the socket before the connection is cut."""


_PROBE = b"antiphon"


class EdgeWebSocketProtocol(WebSocketsSansIOProtocol):
    """Gives applications `scope["state"]`'s `force_close` and `probe`, and cuts off clients that
    answer no ping.

    An orderly close waits until everything sent before it is read, which a stuck client never does.
    """

    long_frames: ClassVar[Mapping[str, int]] = {}
    """Paths that take longer messages than the others, and how long (bytes)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._on_answer: Callable[[], None] | None = None
        own = {"force_close": self.force_close, "probe": self.probe}
        self.app_state = {**self.app_state, **own}

    def handle_connect(self, event: Request) -> None:
        """Allow what the path may take before the first frame is read."""
        path, _, _ = event.path.partition("?")
        self.conn.max_message_size = self.long_frames.get(path, self.config.ws_max_size)
        super().handle_connect(event)

    def handle_text(self, event: Frame) -> None:
        """As uvicorn does, and lets go of the bytes: the parser keeps the last frame until the next."""
        super().handle_text(event)
        event.data = b""

    def handle_bytes(self, event: Frame) -> None:
        """As uvicorn does, and lets go of the bytes."""
        super().handle_bytes(event)
        event.data = b""

    def handle_cont(self, event: Frame) -> None:
        """As uvicorn does, and lets go of the bytes."""
        super().handle_cont(event)
        event.data = b""

    def send_receive_event_to_app(self) -> None:
        """As uvicorn does; text that is no UTF-8 may come along with the client's own close."""
        with suppress(InvalidState):
            super().send_receive_event_to_app()

    def probe(self, answered: Callable[[], None]) -> None:
        """Call back once the client has read all that was sent before: it answers a ping then."""
        self._on_answer = answered
        self.conn.send_ping(_PROBE)
        self.transport.write(b"".join(self.conn.data_to_send()))

    def handle_pong(self, event: Frame) -> None:
        """As uvicorn does, which does not know of our own ping."""
        answered, self._on_answer = self._on_answer, None
        if event.data != _PROBE:
            self._on_answer = answered
            super().handle_pong(event)
        elif answered is not None:
            answered()

    def force_close(self, code: int, reason: str) -> None:
        """Send a close frame past any backlog limit, then cut the connection."""
        if not (self.close_sent or self.transport.is_closing()):
            self.conn.send_close(code, reason)
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.close_sent = True
        self.transport.close()
        self._cut_off()

    def handle_parser_exception(self) -> None:
        """The client broke the protocol; what the application still sends goes nowhere."""
        super().handle_parser_exception()
        self._cut_off()

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
        self._cut_off()

    def _cut_off(self) -> None:
        """Closed below the application, to which the client is gone now."""
        self.disconnected = True
        self._abort_later()

    def _abort_later(self, after_s: float = 0.0) -> None:
        self.loop.call_later(after_s + _LINGER_S, self.transport.abort)


class NoUtf8Tracebacks(logging.Filter):
    """Bytes that are no UTF-8 are the client's fault (closed with 1007) and worth no traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        """False for the one record uvicorn logs about it."""
        return "Invalid UTF-8" not in str(record.msg)
