"""uvicorn's WebSocket protocol with limits on frames, bytes, memory, and the time of a message."""

import asyncio
import codecs
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any, ClassVar

from starlette.datastructures import QueryParams
from starlette.websockets import WebSocketDisconnect
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets import frames
from websockets.exceptions import InvalidState
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import OPEN

from antiphon.broker.single_consumer_queue import SingleConsumerQueue
from antiphon.edge.access.http_limits import HttpConnectionLimiter
from antiphon.edge.access.limits import (
    MIN_UPLOAD_RATE,
    ByteBudget,
    Reservation,
    TokenBucket,
)
from antiphon.edge.errors import BudgetExceeded, ClientGone, Close, NotJson
from antiphon.edge.json_text import ClientFrame, Utf8Text
from antiphon.edge.transport.connection import ServerFrame
from antiphon.edge.transport.fair_queue import BULK_BYTES, FairQueue
from antiphon.edge.transport.frame_parser import PIECE_BYTES, SMALL_FRAME_BYTES, FrameParser
from antiphon.shared_schemas.wire import BINARY_PROTOCOL, TextParts

LONG_TEXT_BYTES = 1024 * 1024
"""Longer texts are not decoded, nor those in ASCII: the parser of JSON reads UTF-8."""

FRAMES_PER_S = 500.0
FRAME_BURST = 2000
MAX_FRAGMENTS = 65_536
"""Per message: 64 MiB in fragments of 1 KiB."""

MESSAGE_S = 30.0
"""Time of a message, without that for its bytes: see MIN_UPLOAD_RATE."""

UNCOUNTED_BYTES = 256 * 1024
"""An incomplete message counts in the edge's budget from this size."""

_LINGER_S = 3.0
"""How long an unread close frame may stay in the socket before the connection is aborted."""

_DISCARD_EVERY_S = 0.05
"""How often input is read and discarded after a cut: unread input would destroy the close frame."""

_PROBE = b"antiphon"

_FINAL = 0x80
"""The bit of a frame that is a whole message, or the last fragment of one."""

_FINAL_TEXT = _FINAL | Opcode.TEXT.value
_FINAL_BINARY = _FINAL | Opcode.BINARY.value
_MESSAGES = {_FINAL_TEXT: "text", _FINAL_BINARY: "bytes"}
"""The first byte of a frame that is a whole message, and uvicorn's name of its kind."""
_MASKED = 0x80
_UNMASK: Callable[[memoryview, bytes | bytearray], bytes] = frames.apply_mask  # type: ignore[attr-defined]
"""In C, or in Python without the extension."""
_SHORT_HEAD = 6
"""Bytes of the shortest head of a client's frame; its last four are the mask."""


def read_message(parser: FrameParser, data: bytes) -> tuple[str, bytes] | None:
    """Kind and payload of data that are exactly one message; None, without an effect, of others.

    Nearly all messages arrive like this. The parser would copy them twice more.
    """
    if not parser.reader.between_frames or parser.state is not OPEN or len(data) < _SHORT_HEAD:
        return None
    first, second = data[0], data[1]
    if first not in _MESSAGES or second < _MASKED or parser.current_size is not None:
        return None
    size, start = second - _MASKED, _SHORT_HEAD
    if size == 126:
        size, start = int.from_bytes(data[2:4], "big"), _SHORT_HEAD + 2
    elif size == 127:
        size, start = int.from_bytes(data[2:10], "big"), _SHORT_HEAD + 8
    if len(data) - start != size or size > min(parser.max_message_size or 0, PIECE_BYTES):
        return None
    parser.parsed, parser.small, parser.unparsed = 1, int(size < SMALL_FRAME_BYTES), False
    return _MESSAGES[first], _UNMASK(memoryview(data)[start:], data[start - 4 : start])


class EdgeWebSocketProtocol(WebSocketsSansIOProtocol):
    """Aborts clients that answer no ping. Sessions reach it as `SocketControls`.

    ASGI's `receive` is for the handshake only.
    An orderly close waits until the client has read everything before it; a stuck client never does.
    Closes with 1008 a client that sends too many frames or bytes, or a message too slowly.
    """

    long_frames: ClassVar[Mapping[str, int]] = {}
    """Longest message in bytes, of the paths, with or without their `mode`, that accept longer ones."""
    bytes_per_s: ClassVar[float]
    budget: ClassVar[ByteBudget]
    """For the incomplete messages of all sockets, and for chat requests."""
    connection_limiter: ClassVar[HttpConnectionLimiter]
    """Counts and logs the clients that are cut off."""
    fair_queue: ClassVar[FairQueue]

    conn: FrameParser

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn = FrameParser(self.config.ws_max_size, self.logger)
        self._on_pong: Callable[[], None] | None = None
        self.app_state = {**self.app_state, "controls": self}
        self.app = self._serve
        now = self.loop.time()
        self._frame_rate = TokenBucket(FRAME_BURST, FRAMES_PER_S, now)
        self._byte_rate = self._byte_bucket(self.config.ws_max_size)
        self._memory = Reservation(self.budget, UNCOUNTED_BYTES)
        self._began = 0.0
        """When the incomplete message began; 0 without one."""
        self._deadline: asyncio.TimerHandle | None = None
        self._aborts: list[asyncio.TimerHandle] = []
        self.queue: SingleConsumerQueue[Any] = SingleConsumerQueue()  # type: ignore[assignment]
        self._waits = False
        """Its next call is in `fair_queue`."""
        self._cut = False
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        """Of the fragments of a text."""

    async def _serve(self, scope: Any, receive: Any, send: Any) -> None:
        """A client may leave before its handshake is accepted: no error to log."""
        try:
            await self.config.loaded_app(scope, receive, send)
        except WebSocketDisconnect:
            raise ClientDisconnected from None

    def _byte_bucket(self, longest: int) -> TokenBucket:
        return TokenBucket(2 * longest, 2 * self.bytes_per_s, self.loop.time())

    def handle_connect(self, event: Request) -> None:
        """Sets the limits of the path before the first frame is read."""
        path, _, query = event.path.partition("?")
        mode = QueryParams(query).get("mode")  # read as the route reads it
        limits, default = self.long_frames, self.config.ws_max_size
        longest = limits.get(path, limits.get(f"{path}?mode={mode}", default))
        self.conn.max_message_size = longest
        self._byte_rate = self._byte_bucket(longest)
        super().handle_connect(event)
        if self.close_sent:  # refused; earlier responses of the connection may be unread
            self._abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Releases everything at once: a burst of connections leaves no garbage to collect."""
        self._memory.resize(0)
        for timer in (self._deadline, *self._aborts):
            if timer is not None:
                timer.cancel()
        self._aborts.clear()
        super().connection_lost(exc)
        self.conn.release()
        self.app, self.app_state, self.scope = self.config.loaded_app, {}, {}  # type: ignore[typeddict-item]

    # --- input ---

    def data_received(self, data: bytes) -> None:
        """Parse some frames. The rest follows in a later iteration of the event loop."""
        if self._cut:
            self.transport.pause_reading()
            self.loop.call_later(_DISCARD_EVERY_S, self.transport.resume_reading)
            return
        now = self.loop.time()
        if not self._byte_rate.take(len(data), now):
            self._cut_off("too many bytes", "too_many_bytes")
            return
        conn = self.conn
        message = read_message(conn, data)
        if message is not None:
            self.curr_msg_data_type, payload = message  # type: ignore[assignment]
            self.frames = [payload]
            self.send_receive_event_to_app()
        else:
            super().data_received(data)
            if not self.handshake_initiated and conn.handshake_exc is not None:
                self._refuse_handshake(conn.handshake_exc)
            if self._cut or conn.parser_exc is not None:
                return
        if conn.small and not self._frame_rate.take(conn.small, now):
            self._cut_off("too many frames", "too_many_frames")
        elif conn.fragments > MAX_FRAGMENTS:
            self._cut_off("too many fragments", "too_many_frames", Close.TOO_BIG)
        elif self.read_paused or message is not None:  # a message is complete
            self._began = 0.0
        else:
            self._watch_message()
            self._continue()
        if len(data) >= BULK_BYTES:
            self._parse_later()

    def _continue(self) -> None:
        """Parse what is left, after other sockets; read more only after that."""
        if self.conn.unparsed:
            self._parse_later()
        elif not (self.read_paused or self._waits):
            self.transport.resume_reading()

    def _parse_later(self) -> None:
        if not (self.read_paused or self._cut or self._waits):
            self._waits = True
            self.transport.pause_reading()
            self.fair_queue.add(self._parse_rest)

    def _parse_rest(self) -> None:
        self._waits = False
        if not (self._cut or self.read_paused or self.transport.is_closing()):
            self.data_received(b"")

    async def receive_frame(self, *, binary: bool) -> ClientFrame:
        """The next message. It no longer counts as incomplete.

        Raises ClientGone, for many connections that are lost at once one after another; NotJson for
        a binary message unless `binary`; and BudgetExceeded if the edge cannot hold the message.
        """
        message = await self.queue.get()
        if message["type"] == "websocket.disconnect":
            if self.disconnected:
                await self.fair_queue.wait()
            raise ClientGone(normal=self.closed_normally)
        if "error" in message:
            raise message["error"]
        if self._memory.size:
            self._memory.resize(0)
        if self.read_paused and self.queue.empty():
            self.read_paused = False
            self.transport.resume_reading()
        if self.conn.unparsed:
            self._parse_later()
        text: str | Utf8Text | None = message.get("text")
        if text is not None:
            return text
        if not binary:
            raise NotJson(f"send JSON text, or offer the subprotocol {BINARY_PROTOCOL}")
        data: bytes | bytearray = message["bytes"]
        return data

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
        end = self._began + MESSAGE_S + self.conn.incomplete_bytes / MIN_UPLOAD_RATE
        if now < end:
            self._deadline = self.loop.call_later(end - now, self._check_deadline)
        else:
            self._cut_off("a message took too long", "request_timeout")

    def handle_text(self, event: Frame) -> None:
        """Releases the bytes: the parser would keep the last frame until the next one arrives."""
        self.curr_msg_data_type, self.frames = "text", [event.data]  # type: ignore[list-item]
        if event.fin:
            self.send_receive_event_to_app()
        else:
            self._utf8.reset()
            self._check_utf8(event)
        event.data = b""

    def handle_bytes(self, event: Frame) -> None:
        super().handle_bytes(event)
        event.data = b""

    def handle_cont(self, event: Frame) -> None:
        """Joins fragments as they arrive: a list of short ones takes many times their bytes."""
        if self._cut:
            return
        (start,) = self.frames
        joined = start if isinstance(start, bytearray) else bytearray(start)
        joined += event.data
        self.frames = [joined]  # type: ignore[list-item]
        if self.curr_msg_data_type == "text":
            self._check_utf8(event)
        event.data = b""
        if event.fin and not self._cut:
            self.send_receive_event_to_app()

    def _check_utf8(self, event: Frame) -> None:
        """Checks fragments as they arrive, which takes long at once."""
        try:
            self._utf8.decode(event.data, event.fin)
        except UnicodeDecodeError:
            self._discard_input()
            self._refuse_text()

    def _refuse_text(self) -> None:
        """Close because of invalid UTF-8, which may arrive together with the client's close frame."""
        with suppress(InvalidState):
            self.conn.send_close(CloseCode.INVALID_DATA)
            self.handle_parser_exception()

    def send_receive_event_to_app(self) -> None:
        """Queue a complete message.

        Unless the application waits for it, nothing further is read until the application has taken it.
        """
        (data,) = self.frames
        self.frames = []
        if self.close_sent:
            return
        message: Any = {"type": "websocket.receive"}
        if self.curr_msg_data_type == "bytes":
            message["bytes"] = data
        elif len(data) > LONG_TEXT_BYTES or data.isascii():
            message["text"] = Utf8Text(data)
        else:
            try:
                message["text"] = data.decode()
            except UnicodeDecodeError:
                self._refuse_text()
                return
        awaited = self.queue.put_nowait(message)
        if not (awaited or self.read_paused):  # a pause costs two system calls
            self.read_paused = True
            self.transport.pause_reading()

    # --- pings ---

    def probe(self, answered: Callable[[], None]) -> None:
        """Call `answered` once the client answers a ping: it has read everything sent before."""
        if self.disconnected:
            return
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
        if self._began or self.read_paused:
            # The pong is behind the message that arrives, which has another limit (`_check_deadline`), or
            # behind one that the application has not taken.
            self.pong_timer = self.pending_ping_payload = None
            self.schedule_ping()
            return
        super().keepalive_timeout()
        self._abort()

    # --- output ---

    def send_now(self, frame: ServerFrame) -> bool:
        """Send a message unless the client is gone, or has not read the messages before it."""
        sendable = self.handshake_complete and self.conn.state is OPEN and self.writable.is_set()
        if not sendable or self.close_sent or self.disconnected or self.transport.is_closing():
            return False
        payload: Sequence[bytes]
        if isinstance(frame, TextParts):
            first, payload = _FINAL_TEXT, frame.parts
        elif isinstance(frame, str):
            first, payload = _FINAL_TEXT, (frame.encode(),)
        else:
            first, payload = _FINAL_BINARY, (frame,)
        size = sum(map(len, payload))
        if size < 126:
            head = struct.pack("!BB", first, size)
        elif size < 1 << 16:
            head = struct.pack("!BBH", first, 126, size)
        else:
            head = struct.pack("!BBQ", first, 127, size)
        self.transport.writelines((head, *payload))  # `Frame.serialize` would copy the payload
        return True

    # --- the end ---

    @property
    def closed_normally(self) -> bool:
        """The client has closed the connection first, with code 1000."""
        received = self.conn.close_rcvd
        return bool(received and self.conn.close_rcvd_then_sent and received.code == 1000)

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
        """An orderly close is aborted, too, when the client does not read.

        Of many connections that are lost at once, one fails after another.
        """
        if self.transport.is_closing() and not self.handshake_complete:
            raise ClientDisconnected  # uvicorn would log an error after the next message
        await self.writable.wait()
        if self.disconnected:
            await self.fair_queue.wait()
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

    def _refuse_handshake(self, error: Exception) -> None:
        """Answer a request with a body, with another method than GET, or with too long a head.

        HTTP allows it, and the WebSocket parser does not. uvicorn keeps such connections open, and
        no limit counts them.
        """
        self.handshake_complete = True
        response = b"".join(self.conn.data_to_send())
        if not response:
            text = f"Failed to open a WebSocket connection: {error.__cause__ or error}.\n"
            response = self.conn.reject(HTTPStatus.BAD_REQUEST, text).serialize()
        self.transport.write(response)
        self.transport.close()
        self._cut = True
        self._abort()

    def _refuse(self, error: BudgetExceeded) -> None:
        """The application reports the error and closes; until then all input is discarded."""
        self._discard_input()
        self.queue.put_nowait({"type": "websocket.receive", "error": error})
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
        if self in self.connections:
            timer = self.loop.call_later(after_s + _LINGER_S, self.transport.abort)
            self._aborts.append(timer)
