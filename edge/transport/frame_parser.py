"""Parses WebSocket frames in bounded steps, so that a long or fragmented message delays no other socket."""

import logging
from collections.abc import Callable, Generator

from websockets.frames import CTRL_OPCODES, Frame, Opcode
from websockets.server import ServerProtocol
from websockets.streams import StreamReader

FRAMES_PER_CALL = 64
"""Frames of one socket that are parsed before other sockets are served: about 0.5 ms."""

PIECE_BYTES = 256 * 1024
"""Longer frames are parsed in pieces of this size: 64 MiB at once would delay other sockets for 0.1 s."""

SMALL_FRAME_BYTES = 1024
"""Smaller frames are limited by their number; their cost does not depend on their size."""


class _FrameReader(StreamReader):
    """Stops the parser after a message, or after FRAMES_PER_CALL frames.

    Presents a frame of more than PIECE_BYTES to the parser as fragments.
    """

    def __init__(self, longest: Callable[[], int]) -> None:
        """`longest`: bytes of the longest frame that the parser accepts now."""
        super().__init__()
        self.stopped = False
        """Until the next call: the rest is parsed then."""
        self.between_frames = False
        """The parser waits for the first byte of a frame."""
        self.longest = longest
        self._rest = 0
        """Bytes of the long frame that have no header yet."""
        self._last = self._mask = b""

    def at_eof(self) -> Generator[None, None, bool]:
        """The parser calls it before each frame."""
        head = self.buffer
        while not self.eof:
            to_judge = 1 if self._rest or not head else 14 if head[1:2] == b"\xff" else 2
            if len(head) >= to_judge:
                break
            self.between_frames = not (self._rest or head)
            yield
        self.between_frames = False
        if head and self._rest:
            head[:0] = self._next_header()
        elif len(head) >= 14 and head[1] == 0xFF:
            size = int.from_bytes(head[2:10], "big")
            if PIECE_BYTES < size <= self.longest():  # the parser refuses a longer one
                self._split()
        return not head

    def _split(self) -> None:
        """Shortens the header to a first fragment."""
        head = self.buffer
        self._rest = int.from_bytes(head[2:10], "big") - PIECE_BYTES
        self._last, self._mask = bytes([head[0] & 0x80]), bytes(head[10:14])
        head[0] &= 0x7F
        head[2:10] = PIECE_BYTES.to_bytes(8, "big")

    def _next_header(self) -> bytes:
        size = min(self._rest, PIECE_BYTES)
        self._rest -= size
        first = b"\0" if self._rest else self._last
        return first + b"\xff" + size.to_bytes(8, "big") + self._mask

    def read_exact(self, n: int) -> Generator[None, None, bytearray]:
        while self.stopped or len(self.buffer) < n:
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
        self.reader = _FrameReader(self._longest_frame)
        self.parser = self.parse()
        next(self.parser)
        self.fragments = 0
        """Frames of the incomplete message."""
        self.parsed = 0
        self.small = 0
        """Of the last call: all frames, and those below SMALL_FRAME_BYTES."""
        self.unparsed = False
        """Complete frames may be left for the next call."""

    def _longest_frame(self) -> int:
        return (self.max_message_size or 0) - (self.current_size or 0)

    def receive_data(self, data: bytes | bytearray) -> None:
        self.parsed = self.small = 0
        self.reader.stopped = False
        super().receive_data(data)
        self.unparsed = self.reader.stopped and len(self.reader.buffer) > 1

    def recv_frame(self, frame: Frame) -> None:
        if frame.opcode is Opcode.CLOSE:
            self.current_size = None  # a close between fragments is no error (RFC 6455, 5.4)
        super().recv_frame(frame)
        self.parsed += 1
        self.small += len(frame.data) < SMALL_FRAME_BYTES
        message = frame.opcode not in CTRL_OPCODES
        if message:
            self.fragments = 0 if frame.fin else self.fragments + 1
        self.reader.stopped = (message and frame.fin) or self.parsed >= FRAMES_PER_CALL

    @property
    def incomplete_bytes(self) -> int:
        """Bytes of the message that is not complete."""
        return len(self.reader.buffer) + (self.current_size or 0)

    def discard_input(self) -> None:
        self.reader.buffer.clear()
        self.reader.stopped = True
        self.unparsed = False

    def release(self) -> None:
        """Break the reference cycles. The parser must not be used after that."""
        self.parser.close()
        self.reader.longest = int
