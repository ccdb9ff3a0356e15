"""uvicorn's HTTP protocol with limits for clients that send too much, too little, or do not read."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import httptools
from uvicorn.protocols.http.flow_control import CLOSE_HEADER
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from antiphon.edge.access.http_limits import ConnectionShare, HttpConnectionLimiter, ReaderWatch
from antiphon.edge.transport.fair_queue import BULK_BYTES, FairQueue, QueuedFlowControl
from antiphon.edge.transport.http_checks import (
    CHUNK_FRAMING_BYTES,
    MAX_FRAMING_BYTES,
    MAX_HEADERS,
    MAX_PIPELINED,
    MAX_TARGET_BYTES,
    SMALL_CHUNK_BYTES,
    Refused,
    body_length,
    check_head,
    no_room,
    not_http,
    too_long_a_head,
)

PIECE_BYTES = 2048
"""Input for one call of the parser: at most 400 events, 0.2 ms."""

EVENTS_PER_TURN = 256
"""Events of the parser on one connection. Then other connections are served."""

DISCARDED_BODY_BYTES = 16 * 1024 * 1024
"""Of a body that states its length, this much is read after the answer: many clients send all of it first."""

REFUSED_BODY_BYTES = 64 * 1024
"""Read of longer bodies, and of those without a length, after the answer; then the connection ends."""

REFUSED_BODY_S = 10.0
"""Time for the rest of a body after the answer."""

_LINGER_S = 3.0
"""After an answer that ends the connection, time for the client to read it and to close."""

_LARGE_PIECE_BYTES = 16 * 1024
"""Larger pieces of a response are sent in turns."""

SEND_BYTES = 64 * 1024
"""The largest piece of a response. Its next piece waits for the client if this much is unsent."""


class EdgeHttpProtocol(HttpToolsProtocol):
    """Serves connections in turns, so that none delays another, and refuses what it must not read.

    Each turn parses a bounded part of a connection's input. Each request waits for a turn, and so does
    each large piece of a response. Aborts a connection whose request head is late, that continues a
    body long after the response, or that reads its response too slowly.

    The body limit of the application sets the deadline for a body that a route still reads.
    """

    connection_limiter: ClassVar[HttpConnectionLimiter]
    fair_queue: ClassVar[FairQueue]
    flow: QueuedFlowControl

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.app = self._serve
        self._share: ConnectionShare | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._input = memoryview(b"")
        """What is not parsed yet."""
        self._begun = False
        self._has_room = True
        """False: the process has too few file descriptors left to serve this connection."""
        self._upgraded = False
        self._cut = False
        """All further input is discarded."""
        self._in_head = True
        """Until the head of the next request is complete."""
        self._events = 0
        """Calls of the parser in this turn."""
        self._framing = 0
        """Bytes since the last head or message that are not part of a body."""
        self._trailers = 0
        self._chunk = 0
        """Bytes of this chunk."""
        self._small_chunks = 0
        """In this piece of input."""
        self._body_left = 0.0
        """Bytes of this body that have not arrived; infinity if it is chunked."""
        self._discarded = 0
        """Bytes of this body after its response."""
        self._most_discarded = REFUSED_BODY_BYTES
        """Then nothing more is read of a connection whose input is discarded."""

    # --- connection ---

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Drops a connection at once if its address has too many."""
        super().connection_made(transport)
        self.flow = QueuedFlowControl(transport, self.fair_queue, self._take_turn)
        self._watch = ReaderWatch(self.loop, transport, self.connection_limiter)
        self._has_room = self.connection_limiter.has_room(self._watch.descriptor)
        try:
            self._share = self.connection_limiter.acquire(self.client[0] if self.client else "")
        except OverflowError:
            transport.abort()
            return
        self._update_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._release()

    def handle_websocket_upgrade(self) -> None:
        """The WebSocket protocol takes over; this object gets no further call."""
        self._upgraded = True
        super().handle_websocket_upgrade()
        self._release()

    def pause_writing(self) -> None:
        """The client reads more slowly than the application sends."""
        super().pause_writing()
        self._watch.pause()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._watch.resume()

    # --- input ---

    def data_received(self, data: bytes) -> None:
        """The first input waits for a turn; later input is parsed at once, up to the limit of a turn."""
        self._unset_keepalive_if_required()
        if self._cut:
            self._discard(len(data))
            return
        self._input = memoryview(bytes(self._input) + data if self._input else data)
        if self._begun:
            self._parse()
        else:
            self._begun = True
            self.flow.let_others_go_first()

    def _take_turn(self) -> None:
        """Read on, and parse what has been read. Requests that wait for answers are not read ahead."""
        if self._cut and self._discarded <= self._most_discarded:
            self.transport.resume_reading()
        elif self._ended:
            return
        elif not self._has_room:
            self.transport.write(no_room().response())
            self.transport.close()
        elif self.pipeline:
            self.flow.pause_reading()
        else:
            self.transport.resume_reading()
            self._parse()

    def _parse(self) -> None:
        """Parse what is left until the turn is over; then read more only after other connections."""
        self._events = parsed = 0
        while self._input and parsed < BULK_BYTES and self._events < EVENTS_PER_TURN:
            if self.flow.read_paused or self._ended:
                break
            piece, self._input = self._input[:PIECE_BYTES], self._input[PIECE_BYTES:]
            parsed += len(piece)
            self._feed(piece)
        if self._ended:
            self._input = memoryview(b"")
        elif self._input or parsed >= BULK_BYTES:
            self.flow.let_others_go_first()
        if not self._upgraded:
            self._update_deadline()

    @property
    def _ended(self) -> bool:
        """Nothing of the connection is parsed any more."""
        return self._cut or self._upgraded or self.transport.is_closing()

    def _feed(self, piece: memoryview) -> None:
        self._framing += len(piece)
        try:
            self.parser.feed_data(piece)
            self._check_piece()
        except httptools.HttpParserUpgrade:
            if self._should_upgrade():
                self.handle_websocket_upgrade()
            else:  # the answer ends the connection, because what follows may be another protocol
                self.cycle.keep_alive = False
                self._cut = True
        except httptools.HttpParserError as error:
            cause = error.__context__
            self._refuse(cause if isinstance(cause, Refused) else not_http(error))
        except Refused as refused:
            self._refuse(refused)

    def _check_piece(self) -> None:
        """Raises Refused for too much framing or too many small chunks."""
        if self._framing > MAX_FRAMING_BYTES:
            if self._in_head:
                raise too_long_a_head()
            raise Refused(400, "chunk extensions and trailers are too long; send none")
        small, self._small_chunks = self._small_chunks, 0
        if small and self._share and not self._share.take_chunks(small):
            text = f"too many chunks of less than {SMALL_CHUNK_BYTES} bytes; send larger ones"
            raise Refused(400, text, counted_as="too_many_chunks")

    # --- the parser's events ---

    def on_message_begin(self) -> None:
        self._events += 1
        self._trailers = 0
        if len(self.pipeline) >= MAX_PIPELINED:
            raise Refused(400, "too many requests without waiting for answers")
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._events += 1
        super().on_url(url)
        if len(self.url) > MAX_TARGET_BYTES:
            raise Refused(414, f"the target of a request has at most {MAX_TARGET_BYTES} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Trailers are counted and ignored: the application has the headers already."""
        self._events += 1
        if not self._in_head:
            self._trailers += 1
            if self._trailers > MAX_HEADERS:
                raise Refused(400, f"a body has at most {MAX_HEADERS} trailers")
        elif len(self.headers) >= MAX_HEADERS:
            raise too_long_a_head()
        else:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._events += 1
        websocket = self.parser.should_upgrade() and self._should_upgrade()
        if websocket and self._busy:
            raise Refused(400, "a WebSocket handshake must wait for the answers before it")
        version = self.parser.get_http_version()
        check_head(version, self.url, self.headers, websocket=websocket)
        self._unset_keepalive_if_required()  # the request may have waited behind another one
        super().on_headers_complete()
        if not websocket:
            self.cycle.transport = _AnswerTransport(self)  # type: ignore[assignment]
        self._in_head = False
        self._framing = self._discarded = 0
        self._body_left = body_length(self.headers)

    def on_chunk_header(self) -> None:
        self._events += 1
        self._chunk = 0

    def on_body(self, body: bytes) -> None:
        self._events += 1
        self._framing -= len(body)
        self._chunk += len(body)
        self._body_left -= len(body)
        super().on_body(body)
        if self.cycle.response_complete:
            self._discarded += len(body)
            if self._discarded > REFUSED_BODY_BYTES and self._body_left > DISCARDED_BODY_BYTES:
                self._linger()

    def on_chunk_complete(self) -> None:
        self._framing = max(0, self._framing - CHUNK_FRAMING_BYTES)
        if self._chunk < SMALL_CHUNK_BYTES:
            self._small_chunks += 1

    def on_message_complete(self) -> None:
        self._events += 1
        self._in_head = True
        self._framing = 0
        if not self._busy:
            self._stop_deadline()  # of this body; the next head has its own
        super().on_message_complete()

    # --- answers ---

    async def _serve(self, scope: Any, receive: Any, send: Any) -> None:
        """The application of each request, which begins in a separate turn."""
        await self.fair_queue.wait(request=True)
        self._watch.begin()

        async def send_in_turn(message: Any) -> None:
            if message["type"] == "http.response.start" and self._leaves_body:
                message = {**message, "headers": [*message.get("headers", ()), CLOSE_HEADER]}
            for piece in _pieces(message):
                size = len(piece.get("body", b""))
                if size >= _LARGE_PIECE_BYTES and piece.get("more_body"):
                    await self.fair_queue.wait(request=True)
                await send(piece)
                self._watch.sent += size

        if not self.transport.is_closing():
            await self.config.loaded_app(scope, receive, send_in_turn)

    @property
    def _leaves_body(self) -> bool:
        """More of the body is missing than is read after an answer: the answer ends the connection."""
        return not (self._in_head or self.pipeline) and self._body_left > DISCARDED_BODY_BYTES

    def close_after_answer(self) -> None:
        """The answer is complete, and the connection ends."""
        if self._in_head or self.transport.is_closing():
            self.transport.close()
        elif self._leaves_body:
            self._linger()
        else:
            self._linger(REFUSED_BODY_S, DISCARDED_BODY_BYTES)

    @property
    def _busy(self) -> bool:
        """An answer is missing."""
        return self.cycle is not None and not self.cycle.response_complete

    def on_response_complete(self) -> None:
        """Releases the part of the body that the application has not read."""
        super().on_response_complete()
        if not self._busy:
            self.cycle.body = bytearray()
        self._update_deadline()

    def _refuse(self, refused: Refused) -> None:
        """Answer and end the connection; after the answers to earlier requests, if some are missing."""
        self.connection_limiter.report(refused.counted_as)
        self._cut = True
        if self._busy and self._in_head:
            self.cycle.keep_alive = False
            return
        if self._busy and (self.pipeline or self.cycle.response_started):
            self.transport.abort()
            return
        if self._busy:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.write(refused.response())
        self._linger()

    def _linger(self, seconds: float = _LINGER_S, most: int = REFUSED_BODY_BYTES) -> None:
        """The client has its answer. It may read it and close; only `most` of what it sends is read.

        Closing at once would reset the connection, and the answer could be lost.
        """
        self._cut = True
        self._most_discarded = most
        self._unset_keepalive_if_required()
        if not self.transport.is_closing():
            self.transport.write_eof()
        self._stop_deadline()
        self._start_deadline(seconds)

    def _discard(self, size: int) -> None:
        self._discarded += size
        if self._discarded > self._most_discarded:
            self.transport.pause_reading()
        else:
            self.flow.let_others_go_first()

    # --- deadlines ---

    def _update_deadline(self) -> None:
        """Start or stop the deadline: it runs while the client must send or read something."""
        if self.transport.is_closing():
            if self.transport.get_write_buffer_size():
                self._start_deadline(self.connection_limiter.timeout_s)
        elif self._cut:
            return
        elif self._busy:
            self._stop_deadline()
        elif self._in_head:
            self._start_deadline(self.connection_limiter.timeout_s)
        else:  # the rest of a body after its response
            self._start_deadline(REFUSED_BODY_S, self._linger)

    def _start_deadline(self, seconds: float, late: Callable[[], None] | None = None) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(seconds, late or self._abort)

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _abort(self) -> None:
        """Aborting a connection whose client still reads the response would lose the rest of it."""
        self._deadline = None
        if self._watch.waits or (
            self.transport.get_write_buffer_size() and self._watch.moved()
        ):  # it decides
            self._start_deadline(self.connection_limiter.timeout_s)
        else:
            self.connection_limiter.report("request_timeout")
            self.transport.abort()

    def _release(self) -> None:
        """Stop what watches the connection, and break reference cycles."""
        if self._share is not None:
            self._share.release()
            self._share = None
        self._stop_deadline()
        self._watch.stop()
        self.flow.release()
        self._input = memoryview(b"")
        self.parser = None  # type: ignore[assignment]
        self.app = self.config.loaded_app


def _pieces(message: Any) -> Iterator[Any]:
    """The message; a long body in pieces that share its memory. uvloop copies what it cannot send."""
    if len(message.get("body", b"")) > SEND_BYTES:
        body = memoryview(message["body"])
        while len(body) > SEND_BYTES:
            yield {**message, "body": body[:SEND_BYTES], "more_body": True}
            body = body[SEND_BYTES:]
        message = {**message, "body": body}
    yield message


class _AnswerTransport:
    """The transport of one answer: closing it lets a client that still sends read the answer."""

    def __init__(self, protocol: EdgeHttpProtocol) -> None:
        self.write = protocol.transport.write
        self.is_closing = protocol.transport.is_closing
        self.close = protocol.close_after_answer
