"""Long bytes in pieces: while one call copies or decodes 60 MiB, every other thread of the process waits."""

from collections.abc import Iterator
from dataclasses import dataclass, field

PIECE_BYTES = 1024 * 1024
"""One call handles at most this many bytes: about 1 ms."""


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
