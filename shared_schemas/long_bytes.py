"""Long bytes in pieces: while one call copies or decodes 60 MiB, every other thread of the process waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import orjson
import pybase64

PIECE_BYTES = 1024 * 1024
"""One call handles at most this many bytes: about 1 ms."""

_LONGEST_ESCAPE = len(r"\u002b")
_BASE64_GROUP = 4


def pieces(data: bytes | bytearray | memoryview) -> Iterator[bytes]:
    """Copies of PIECE_BYTES each; the last one may be shorter."""
    view = memoryview(data)
    for start in range(0, len(view), PIECE_BYTES):
        yield bytes(view[start : start + PIECE_BYTES])


def copy_bytes(data: bytearray | memoryview) -> bytes:
    """A copy. `join` does not hold the interpreter's lock while it copies long bytes."""
    return b"".join(list(pieces(data)))


@dataclass(frozen=True, slots=True, eq=False)
class LongText:
    """The content of a long string of a JSON text, with its escape sequences."""

    data: memoryview = field(repr=False)

    def decode_base64(self) -> bytes:
        """Raises ValueError if it is not strict base64."""
        if len(self.data) <= PIECE_BYTES:
            with suppress(ValueError):  # it may have escape sequences
                return pybase64.b64decode(self.data, validate=True)
        return b"".join(list(self._decoded()))

    def _decoded(self) -> Iterator[bytes]:
        ended, rest = False, b""
        for plain in self._unescaped():
            if ended:
                raise ValueError("padding before the end")
            rest += plain
            size = len(rest) - len(rest) % _BASE64_GROUP
            group, rest = rest[:size], rest[size:]
            decoded = pybase64.b64decode(group, validate=True)
            ended = len(decoded) * _BASE64_GROUP < size * 3
            yield decoded
        if rest:
            raise ValueError("incomplete at the end")

    def _unescaped(self) -> Iterator[bytes]:
        """The text, ASCII only. Some encoders of JSON escape the characters / and + of base64."""
        rest = b""
        for piece in pieces(self.data):
            rest += piece
            cut = rest.rfind(b"\\", max(0, len(rest) - _LONGEST_ESCAPE))
            whole = rest if cut < 0 else rest[:cut]
            yield _unescape(whole)
            rest = rest[len(whole) :]
        if rest:
            yield _unescape(rest)


def _unescape(text: bytes) -> bytes:
    if b"\\" not in text:
        return text
    unescaped: str = orjson.loads(b'"' + text + b'"')
    return unescaped.encode("ascii")
