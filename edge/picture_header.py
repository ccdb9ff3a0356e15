"""What a picture is and how large, read off its first bytes in bounded time, whatever follows them.

Pillow walks and unpacks all that stands before the pixels; one frame of 2 MiB can keep it for a second.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_HEAD = struct.Struct(">I4sII")
"""Length and name of the first chunk, width, height."""
_IHDR_BYTES = 13

_JPEG = b"\xff\xd8\xff"
_MAX_SEGMENTS = 1024
"""Before the pixels of a JPEG; a colour profile, and the depth map of a phone, come in some hundred."""
_MAX_FILL = 256
"""Bytes between two segments: none but a few of padding should be there."""
_MARKER = re.compile(rb"(?<=\xff)[\x01-\xfe]")
_LENGTH_BYTES = 2
"""In front of a segment's content, and counted in the length that they tell."""
_BARE = frozenset((0xD8, 0xD9, *range(0xD0, 0xD8)))
"""Markers that no length follows."""
_NO_FRAME = frozenset((0xC4, 0xC8, 0xCC))
_FRAMES = frozenset(range(0xC0, 0xD0)) - _NO_FRAME
"""Markers of the segment that has the size; the others of their kind are tables."""
_FRAME = struct.Struct(">BHH")
"""Bits of a sample, height, width."""
_SCAN = 0xDA

_WEBP_HEADS = {b"VP8X": 30, b"VP8 ": 30, b"VP8L": 25}
"""First chunks, and where in the file the size that they hold ends, in bytes."""
_WEBP_CHUNK = 20
"""Where the first chunk's content begins."""
_VP8_START = b"\x9d\x01\x2a"
_VP8L_SIGNATURE = 0x2F
_14_BITS = 0x3FFF

Size = tuple[int, int]
"""Width and height in pixels."""


def picture_size(data: bytes) -> Size | None:
    """The size of a JPEG, PNG or WebP; None for anything else. Raises ValueError for a broken header."""
    if data.startswith(_JPEG):
        size = _jpeg_size(data)
    elif data.startswith(_PNG):
        size = _png_size(data)
    elif data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        size = _webp_size(data)
    else:
        return None
    if not all(size):
        raise ValueError("a picture without pixels")
    return size


def _png_size(data: bytes) -> Size:
    if len(data) < len(_PNG) + _PNG_HEAD.size:
        raise ValueError("cut off in its header")
    length, name, width, height = _PNG_HEAD.unpack_from(data, len(_PNG))
    if (length, name) != (_IHDR_BYTES, b"IHDR"):
        raise ValueError("a PNG begins with its header")
    return width, height


def _jpeg_size(data: bytes) -> Size:
    """Up to where the pixels begin: of two sizes a decoder might believe the second."""
    size: Size | None = None
    for marker, at in _segments(data):
        if marker in _FRAMES and size is not None:
            raise ValueError("a JPEG of two sizes")
        if marker in _FRAMES:
            size = _frame_size(data, at)
        if marker == _SCAN and size is not None:
            return size
    raise ValueError("a JPEG whose pixels never begin")


def _segments(data: bytes) -> Iterator[tuple[int, int]]:
    """Marker and place of the content of what stands before the pixels. Raises ValueError."""
    at = 2
    for _ in range(_MAX_SEGMENTS):
        found = _MARKER.search(data, at + 1, at + 1 + _MAX_FILL)
        if found is None:
            return
        marker, at = data[found.start()], found.end()
        if marker in _BARE:
            continue
        length = int.from_bytes(data[at : at + _LENGTH_BYTES], "big")
        if length < _LENGTH_BYTES:
            raise ValueError("a JPEG segment without its length")
        yield marker, at + _LENGTH_BYTES
        at += length


def _frame_size(data: bytes, at: int) -> Size:
    if len(data) < at + _FRAME.size:
        raise ValueError("cut off in its header")
    bits, height, width = _FRAME.unpack_from(data, at)
    if bits != 8:
        raise ValueError(f"a JPEG of {bits} bits")
    return width, height


def _webp_size(data: bytes) -> Size:
    kind = data[12:16]
    if len(data) < _WEBP_HEADS.get(kind, _WEBP_CHUNK):
        raise ValueError("cut off in its header")
    head = data[_WEBP_CHUNK : _WEBP_HEADS.get(kind)]
    if kind == b"VP8X":
        return _little(head[4:7]) + 1, _little(head[7:10]) + 1
    if kind == b"VP8L" and head[0] == _VP8L_SIGNATURE:
        bits = _little(head[1:5])
        return (bits & _14_BITS) + 1, (bits >> 14 & _14_BITS) + 1
    if kind == b"VP8 " and head[3:6] == _VP8_START:
        return _little(head[6:8]) & _14_BITS, _little(head[8:10]) & _14_BITS
    raise ValueError("a WebP without a picture")


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")
