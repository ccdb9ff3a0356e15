"""uvicorn's HTTP protocol with limits for clients that do not send, do not read or open too many."""

from __future__ import annotations

import asyncio
import fcntl
import struct
import termios
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from antiphon.edge.access.limits import MIN_UPLOAD_RATE, HttpConnectionLimiter
from antiphon.edge.errors import Problem
from antiphon.edge.transport.fair_queue import BULK_BYTES, FairQueue, QueuedFlowControl
from antiphon.shared_schemas.errors import ErrorCode

_FULL_TEXT = "this edge has no room for another connection; try again"
_FULL = Problem(error=_FULL_TEXT, message=_FULL_TEXT, code=ErrorCode.QUEUE_FULL, retryable=True)
_FULL_BODY = _FULL.model_dump_json(exclude_none=True).encode()
_FULL_RESPONSE = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\nretry-after: 1\r\nconnection: close\r\n\r\n%b"
) % (len(_FULL_BODY), _FULL_BODY)


class EdgeHttpProtocol(H11Protocol):
    """Starts connections through `fair_queue`, so that many new ones delay no other.

    Aborts a connection whose request head is late, that continues a body after the response, or
    that reads nothing of its response.

    The body limit of the application sets the deadline for a body that a route still reads.
    """

    connection_limiter: ClassVar[HttpConnectionLimiter]
    fair_queue: ClassVar[FairQueue]
    flow: QueuedFlowControl

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limit_key: str | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._reader_check: asyncio.TimerHandle | None = None
        self._unread = 0
        self._received = 0
        self._first: bytes | None = b""
        """What arrived before the connection was started; None after it."""
        self._upgraded = False
        self._has_room = True
        """False: the process has too few file descriptors left to serve this connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Drops a connection at once if its address has too many."""
        super().connection_made(transport)
        self._has_room = self.connection_limiter.has_room(self._descriptor())
        self.flow = QueuedFlowControl(transport, self.fair_queue)
        try:
            self._limit_key = self.connection_limiter.acquire(self.client[0] if self.client else "")
        except OverflowError:
            transport.abort()
            return
        self._update_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_checks()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        if self._first is None:
            self._receive(data)
            return
        if not self._first:
            self.transport.pause_reading()
            self.fair_queue.add(self._begin)
        self._first += data

    def _begin(self) -> None:
        data, self._first = self._first, None
        if data and not self.transport.is_closing():
            if not self._has_room:
                self.transport.write(_FULL_RESPONSE)
                self.transport.close()
                return
            self.transport.resume_reading()
            self._receive(data)

    def _receive(self, data: bytes) -> None:
        super().data_received(data)
        if not self._upgraded:
            self._update_deadline()
            if len(data) >= BULK_BYTES and not self.transport.is_closing():
                self.flow.let_others_go_first()

    def on_response_complete(self) -> None:
        """Releases the part of the body that the application has not read."""
        cycle = self.cycle
        super().on_response_complete()
        cycle.body = bytearray()
        self._update_deadline()

    def pause_writing(self) -> None:
        """The client reads more slowly than the application sends."""
        super().pause_writing()
        if self._reader_check is None:
            self._unread = self._unread_bytes()
            self._check_reader_later()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._reader_check is not None:
            self._reader_check.cancel()
            self._reader_check = None

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """The WebSocket protocol takes over; this object gets no further call."""
        self._stop_checks()
        self._upgraded = True
        super().handle_websocket_upgrade(event)

    def _update_deadline(self) -> None:
        """Start or stop the deadline: it runs while the client must send or read something."""
        if self.transport.is_closing():
            if self.transport.get_write_buffer_size():
                self._start_deadline()
        elif self._client_must_send():
            self._start_deadline()
        elif self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _start_deadline(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.connection_limiter.timeout_s, self._abort)

    def _client_must_send(self) -> bool:
        theirs = self.conn.their_state
        return theirs is h11.IDLE or (theirs is h11.SEND_BODY and self.conn.our_state is h11.DONE)

    def _stop_checks(self) -> None:
        self.connection_limiter.release(self._limit_key)
        self._limit_key = None
        for timer in (self._deadline, self._reader_check):
            if timer is not None:
                timer.cancel()
        self._deadline = self._reader_check = None

    def _abort(self) -> None:
        self._deadline = None
        if self._makes_progress():
            self._start_deadline()
            return
        self.connection_limiter.report("request_timeout")
        self.transport.abort()

    def _makes_progress(self) -> bool:
        """True if the client still reads the response, or sends its body at MIN_UPLOAD_RATE or faster.

        Aborting it would lose the rest of the response, or the error that rejected the body.
        """
        received, self._received = self._received, 0
        if self._reader_check is not None:
            return True  # `_check_reader` decides
        if self.transport.get_write_buffer_size():
            before, self._unread = self._unread, self._unread_bytes()
            return self._unread != before
        enough = received >= MIN_UPLOAD_RATE * self.connection_limiter.timeout_s
        return enough and self.conn.their_state is h11.SEND_BODY

    def _check_reader_later(self) -> None:
        self._reader_check = self.loop.call_later(
            self.connection_limiter.send_stall_s, self._check_reader
        )

    def _check_reader(self) -> None:
        before, self._unread = self._unread, self._unread_bytes()
        if self._unread != before:
            self._check_reader_later()
            return
        self._reader_check = None
        self.connection_limiter.report("slow_consumer")
        self.transport.abort()

    def _unread_bytes(self) -> int:
        """Bytes that the client has not acknowledged, in this process and in the kernel.

        This process alone sees no progress for long, because the kernel takes data in large steps.
        """
        queued = fcntl.ioctl(self._descriptor(), termios.TIOCOUTQ, bytes(4))
        return self.transport.get_write_buffer_size() + int(struct.unpack("i", queued)[0])

    def _descriptor(self) -> int:
        return int(self.transport.get_extra_info("socket").fileno())
