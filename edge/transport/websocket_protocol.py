"""uvicorn's WebSocket protocol with limits on frames, bytes, memory, and the time of a message."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from typing import Any, ClassVar

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState
from websockets.frames import CTRL_OPCODES, Frame
from websockets.http11 import Request
from websockets.protocol import OPEN
from websockets.server import ServerProtocol
from websockets.streams import StreamReader

from antiphon.edge.access.limits import (
    ByteBudget,
    HttpConnectionLimiter,
    Reservation,
    TokenBucket,
)
from antiphon.edge.errors import BudgetExceeded, Close

FRAMES_PER_TURN = 64
"""Frames of one socket that are parsed before other sockets have their turn: about 0.5 ms."""

SMALL_FRAME_BYTES = 1024
"""Smaller frames are limited by their number; their cost does not depend on their size."""

FRAMES_PER_S = 500.0
FRAME_BURST = 2000
MAX_FRAGMENTS = 65_536
"""Per message: 64 MiB in fragments of 1 KiB."""

MESSAGE_S = 30.0
MIN_MESSAGE_RATE = 16 * 1024
"""Bytes per second: every this many bytes extend the deadline of a message by one second."""

UNCOUNTED_BYTES = 256 * 1024
"""An incomplete message counts in the edge's budget from this size."""

_LINGER_S = 3.0
"""How long an unread close frame may stay in the socket before the connection is aborted."""

_DISCARD_EVERY_S = 0.05
"""How often input is read and discarded after a cut: unread input would destroy the close frame."""

_PROBE = b"antiphon"


class _FrameReader(StreamReader):
    """Ends the parser's turn after a message, or after FRAMES_PER_TURN frames."""

    def __init__(self) -> None:
        super().__init__()
        self.held = False

    def read_exact(self, n: int) -> Generator[None, None, bytearray]:
        while self.held or len(self.buffer) < n:
            if self.eof:
                raise EOFError("the stream ends within a frame")
            yield
        data = self.buffer[:n]
        del self.buffer[:n]
        return data


class FrameParser(ServerProtocol):
    """Parses a bounded number of frames, at most one message, per `receive_data`, and counts them."""

    reader: _FrameReader

    def __init__(self, max_size: int, logger: logging.Logger) -> None:
        super().__init__(max_size=max_size, logger=logger)
        self.reader = _FrameReader()
        self.parser = self.parse()
        next(self.parser)
        self.fragments = 0
        """Frames of the incomplete message."""
        self.parsed = 0
        self.small = 0
        """Of the last turn: all frames, and those below SMALL_FRAME_BYTES."""

    def receive_data(self, data: bytes | bytearray) -> None:
        self.parsed = self.small = 0
        self.reader.held = False
        super().receive_data(data)

    def recv_frame(self, frame: Frame) -> None:
        super().recv_frame(frame)
        self.parsed += 1
        self.small += len(frame.data) < SMALL_FRAME_BYTES
        message = frame.opcode not in CTRL_OPCODES
        if message:
            self.fragments = 0 if frame.fin else self.fragments + 1
        self.reader.held = (message and frame.fin) or self.parsed >= FRAMES_PER_TURN

    @property
    def unparsed(self) -> bool:
        """True if complete frames may be left for the next turn."""
        return self.reader.held and len(self.reader.buffer) > 1

    @property
    def incomplete_bytes(self) -> int:
        """Bytes of the message that is not complete."""
        return len(self.reader.buffer) + (self.current_size or 0)

    def discard_input(self) -> None:
        self.reader.buffer.clear()
        self.reader.held = True


class EdgeWebSocketProtocol(WebSocketsSansIOProtocol):
    """Adds `force_close` and `probe` to `scope["state"]` and aborts clients that answer no ping.

    An orderly close waits until the client has read everything before it; a stuck client never does.
    Closes with 1008 a client that sends too many frames or bytes, or a message too slowly.
    """

    long_frames: ClassVar[Mapping[str, int]] = {}
    """Longest message in bytes, of the paths that accept longer ones than the default."""
    bytes_per_s: ClassVar[float]
    budget: ClassVar[ByteBudget]
    """For the incomplete messages of all sockets, and for chat requests."""
    connection_limiter: ClassVar[HttpConnectionLimiter]
    """Counts and logs the clients that are cut off."""

    conn: FrameParser

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn = FrameParser(self.config.ws_max_size, self.logger)
        self._on_pong: Callable[[], None] | None = None
        own = {"force_close": self.force_close, "probe": self.probe}
        self.app_state = {**self.app_state, **own}
        now = self.loop.time()
        self._frame_rate = TokenBucket(FRAME_BURST, FRAMES_PER_S, now)
        self._byte_rate = self._byte_bucket(self.config.ws_max_size)
        self._memory = Reservation(self.budget, UNCOUNTED_BYTES)
        self._began = 0.0
        """When the incomplete message began; 0 without one."""
        self._deadline: asyncio.TimerHandle | None = None
        self._turn: asyncio.Handle | None = None
        self._cut = False

    def _byte_bucket(self, longest: int) -> TokenBucket:
        return TokenBucket(2 * longest, 2 * self.bytes_per_s, self.loop.time())

    def handle_connect(self, event: Request) -> None:
        """Sets the limits of the path before the first frame is read."""
        path, _, _ = event.path.partition("?")
        longest = self.long_frames.get(path, self.config.ws_max_size)
        self.conn.max_message_size = longest
        self._byte_rate = self._byte_bucket(longest)
        super().handle_connect(event)

    def connection_lost(self, exc: Exception | None) -> None:
        self._memory.resize(0)
        for handle in (self._deadline, self._turn):
            if handle is not None:
                handle.cancel()
        super().connection_lost(exc)

    # --- input ---

    def data_received(self, data: bytes) -> None:
        if self._cut:
            self.transport.pause_reading()
            self.loop.call_later(_DISCARD_EVERY_S, self.transport.resume_reading)
        elif self._byte_rate.take(len(data), self.loop.time()):
            self._parse(data)
        else:
            self._cut_off("too many bytes", "too_many_bytes")

    def _parse(self, data: bytes) -> None:
        """Parse the frames of one turn. The next one is a turn of the event loop later."""
        super().data_received(data)
        if self._cut or self.conn.parser_exc is not None:
            return
        if self.conn.small and not self._frame_rate.take(self.conn.small, self.loop.time()):
            self._cut_off("too many frames", "too_many_frames")
        elif self.conn.fragments > MAX_FRAGMENTS:
            self._cut_off("too many fragments", "too_many_frames", Close.TOO_BIG)
        elif self.read_paused:  # a message is complete
            self._began = 0.0
        else:
            self._watch_message()
            self._continue()

    def _continue(self) -> None:
        """Parse what is left in the next turn of the event loop; read more only after that."""
        if self.conn.unparsed:
            if self._turn is None:
                self.transport.pause_reading()
                self._turn = self.loop.call_soon(self._next_turn)
        elif not self.read_paused:
            self.transport.resume_reading()

    def _next_turn(self) -> None:
        self._turn = None
        if not (self._cut or self.transport.is_closing()):
            self._parse(b"")

    async def receive(self) -> Any:
        """The next message. It no longer counts as incomplete."""
        message = await super().receive()
        if self._memory.size:
            self._memory.resize(0)
        if self.conn.unparsed and not (self.read_paused or self._cut):
            self._continue()
        return message

    def _watch_message(self) -> None:
        """Limit the memory and the time of the message that is not complete."""
        conn = self.conn
        size = conn.incomplete_bytes
        if conn.parsed and conn.current_size is None:
            self._began = 0.0
        if not size and conn.current_size is None:
            self._began = 0.0
        elif not self._began:
            self._began = self.loop.time()
            if self._deadline is None:
                self._deadline = self.loop.call_later(MESSAGE_S, self._check_deadline)
        if size > UNCOUNTED_BYTES or self._memory.size:
            try:
                self._memory.resize(size)
            except BudgetExceeded as error:
                self._refuse(error)

    def _check_deadline(self) -> None:
        self._deadline = None
        if not self._began or self._cut or self.transport.is_closing():
            return
        now = self.loop.time()
        if self.read_paused:  # the application has not taken the message before this one
            self._began = now
        end = self._began + MESSAGE_S + self.conn.incomplete_bytes / MIN_MESSAGE_RATE
        if now < end:
            self._deadline = self.loop.call_later(end - now, self._check_deadline)
        else:
            self._cut_off("a message took too long", "request_timeout")

    def handle_text(self, event: Frame) -> None:
        """Releases the bytes: the parser would keep the last frame until the next one arrives."""
        super().handle_text(event)
        event.data = b""

    def handle_bytes(self, event: Frame) -> None:
        super().handle_bytes(event)
        event.data = b""

    def handle_cont(self, event: Frame) -> None:
        """Joins fragments as they arrive: a list of short ones takes many times their bytes."""
        (start,) = self.frames
        joined = start if isinstance(start, bytearray) else bytearray(start)
        joined += event.data
        self.frames = [joined]  # type: ignore[list-item]
        event.data = b""
        if event.fin:
            self.send_receive_event_to_app()

    def send_receive_event_to_app(self) -> None:
        """Invalid UTF-8 may arrive together with the client's close frame."""
        with suppress(InvalidState):
            super().send_receive_event_to_app()

    # --- pings ---

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

    def keepalive_timeout(self) -> None:
        """The connection is half-open: the client will never read what is queued."""
        super().keepalive_timeout()
        self._abort()

    # --- the end ---

    def force_close(self, code: int, reason: str) -> None:
        """Send a close frame regardless of the backlog, then abort the connection."""
        self._send_close(code, reason)
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
            if self._cut:
                if not self.transport.is_closing():
                    self.transport.write_eof()
                self._abort_later()
            else:
                self._abort_later(self.close_timeout)
                self._continue()
        elif message["type"] == "websocket.http.response.body":
            self.handshake_complete = True  # rejected with a response; uvicorn would log an error

    def _cut_off(self, reason: str, counted_as: str, code: Close = Close.POLICY) -> None:
        """Close, discard all further input, and abort when the client has had time to read it."""
        self.connection_limiter.report(counted_as)
        self._discard_input()
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        if self._send_close(code, reason):
            self.transport.write_eof()
        self._abort()

    def _refuse(self, error: BudgetExceeded) -> None:
        """The application reports the error and closes; until then all input is discarded."""
        self._discard_input()
        self.queue.put_nowait({"type": "websocket.receive", "error": error})  # type: ignore[arg-type]
        self._abort_later(self.close_timeout)

    def _discard_input(self) -> None:
        self._cut = True
        self.frames = []
        self.conn.discard_input()
        self._memory.resize(0)
        self.transport.resume_reading()

    def _send_close(self, code: int, reason: str) -> bool:
        if self.close_sent or self.transport.is_closing() or self.conn.state is not OPEN:
            return False
        self.conn.send_close(code, reason)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        return True

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
