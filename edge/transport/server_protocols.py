"""uvicorn's protocols with deadlines for clients that do not send, do not read or do not answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState
from websockets.frames import Frame
from websockets.http11 import Request

from antiphon.edge.access.limits import PreRequestLimiter

MIN_BODY_RATE = 16 * 1024
"""Bytes per second. A slower body is cut off once its response was sent."""

MAX_STALLS = 6
"""Abort after this many checks without write progress: the kernel drains in large steps."""


class EdgeHttpProtocol(H11Protocol):
    """Aborts a connection whose request head is late, or whose body continues after the response.

    The body limit of the application sets the deadline for a body that a route still reads.
    """

    pre_request_limiter: ClassVar[PreRequestLimiter]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limit_key: str | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._unsent = 0
        self._received = 0
        self._stalls = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Drops a connection at once if its address has too many."""
        super().connection_made(transport)
        try:
            self._limit_key = self.pre_request_limiter.acquire(
                self.client[0] if self.client else ""
            )
        except OverflowError:
            transport.abort()
            return
        self._update_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        super().data_received(data)
        self._update_deadline()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._update_deadline()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """The WebSocket protocol takes over; this object gets no further call."""
        self._stop_deadline()
        super().handle_websocket_upgrade(event)

    def _update_deadline(self) -> None:
        """Start or stop the deadline: it runs while the client must send something."""
        if self.transport.is_closing():
            return
        if not self._client_must_send():
            self._stop_deadline()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.pre_request_limiter.timeout_s, self._abort)

    def _client_must_send(self) -> bool:
        theirs = self.conn.their_state
        return theirs is h11.IDLE or (theirs is h11.SEND_BODY and self.conn.our_state is h11.DONE)

    def _stop_deadline(self) -> None:
        self.pre_request_limiter.release(self._limit_key)
        self._limit_key = None
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _abort(self) -> None:
        self._deadline = None
        if self._makes_progress():
            self._update_deadline()
            return
        self.pre_request_limiter.report_timeout()
        self.transport.abort()

    def _makes_progress(self) -> bool:
        """True if the client still reads the response, or still sends the body at a fair rate.

        Aborting it would lose the rest of the response, or the error that rejected the body.
        """
        unsent, received = self.transport.get_write_buffer_size(), self._received
        self._stalls = self._stalls + 1 if unsent == self._unsent else 0
        self._unsent, self._received = unsent, 0
        if unsent:
            return self._stalls < MAX_STALLS
        enough = received >= MIN_BODY_RATE * self.pre_request_limiter.timeout_s
        return enough and self.conn.their_state is h11.SEND_BODY


_LINGER_S = 3.0
"""How long an unread close frame may stay in the socket before the connection is aborted."""


_PROBE = b"antiphon"


class EdgeWebSocketProtocol(WebSocketsSansIOProtocol):
    """Adds `force_close` and `probe` to `scope["state"]` and aborts clients that answer no ping.

    An orderly close waits until the client has read everything before it; a stuck client never does.
    """

    long_frames: ClassVar[Mapping[str, int]] = {}
    """Longest message in bytes, of the paths that accept longer ones than the default."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._on_pong: Callable[[], None] | None = None
        own = {"force_close": self.force_close, "probe": self.probe}
        self.app_state = {**self.app_state, **own}

    def handle_connect(self, event: Request) -> None:
        """Sets the limit of the path before the first frame is read."""
        path, _, _ = event.path.partition("?")
        self.conn.max_message_size = self.long_frames.get(path, self.config.ws_max_size)
        super().handle_connect(event)

    def handle_text(self, event: Frame) -> None:
        """Releases the bytes: the parser would keep the last frame until the next one arrives."""
        super().handle_text(event)
        event.data = b""

    def handle_bytes(self, event: Frame) -> None:
        super().handle_bytes(event)
        event.data = b""

    def handle_cont(self, event: Frame) -> None:
        super().handle_cont(event)
        event.data = b""

    def send_receive_event_to_app(self) -> None:
        """Invalid UTF-8 may arrive together with the client's close frame."""
        with suppress(InvalidState):
            super().send_receive_event_to_app()

    def probe(self, answered: Callable[[], None]) -> None:
        """Call `answered` once the client answers a ping: it has read everything sent before."""
        self._on_pong = answered
        self.conn.send_ping(_PROBE)
        self.transport.write(b"".join(self.conn.data_to_send()))

    def handle_pong(self, event: Frame) -> None:
        """Handles the pong of `probe`, which uvicorn does not know."""
        answered, self._on_pong = self._on_pong, None
        if event.data != _PROBE:
            self._on_pong = answered
            super().handle_pong(event)
        elif answered is not None:
            answered()

    def force_close(self, code: int, reason: str) -> None:
        """Send a close frame regardless of the backlog, then abort the connection."""
        if not (self.close_sent or self.transport.is_closing()):
            self.conn.send_close(code, reason)
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.close_sent = True
        self.transport.close()
        self._abort()

    def handle_parser_exception(self) -> None:
        """The client violated the protocol; later messages of the application are discarded."""
        super().handle_parser_exception()
        self._abort()

    async def send(self, message: Any) -> None:
        """An orderly close is aborted, too, when the client does not read."""
        await super().send(message)
        if message["type"] == "websocket.close":
            self._abort_later(self.close_timeout)
        elif message["type"] == "websocket.http.response.body":
            self.handshake_complete = True  # rejected with a response; uvicorn would log an error

    def keepalive_timeout(self) -> None:
        """The connection is half-open: the client will never read what is queued."""
        super().keepalive_timeout()
        self._abort()

    def _abort(self) -> None:
        """Closes below the application, which then sees a disconnected client."""
        self.disconnected = True
        self._abort_later()

    def _abort_later(self, after_s: float = 0.0) -> None:
        self.loop.call_later(after_s + _LINGER_S, self.transport.abort)


class NoUtf8Tracebacks(logging.Filter):
    """Invalid UTF-8 is the client's error (closed with 1007) and needs no traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        return "Invalid UTF-8" not in str(record.msg)
