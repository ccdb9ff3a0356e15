"""File types and image sizes from the first bytes of a file, in bounded time.

Pillow is not used: it reads and unpacks everything before the pixels, which takes about a second for
a crafted frame of 2 MiB.
"""

import re
import struct
from collections.abc import Iterator
from enum import StrEnum

from antiphon.shared_schemas.file_kinds import FileKind, file_kind
from antiphon.shared_schemas.wav import is_wav

HEAD_BYTES = 4096
"""Enough bytes for `container_of`."""

_MP4_BRANDS = (b"iso", b"mp4", b"avc", b"M4A", b"M4V", b"dash", b"msd", b"cmf")
_WAV_OF_BROWSERS = (b"RIFF", b"RF64")

_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_HEADER = struct.Struct(">I4sII")
"""Length and name of the first chunk, width, height."""
_IHDR_BYTES = 13
_PNG_END = b"IEND\xaeB`\x82"

_JPEG = b"\xff\xd8\xff"
_JPEG_END = b"\xff\xd9"
_MAX_SEGMENTS = 1024
"""Segments before the pixels. A colour profile, or a phone's depth map, takes some hundred."""
_MAX_FILL = 256
"""Padding bytes between two segments."""
_MARKER = re.compile(rb"(?<=\xff)[\x01-\xfe]")
_LENGTH_BYTES = 2
"""Size of a segment's length field, which counts itself."""
_WITHOUT_LENGTH = frozenset((0xD8, 0xD9, *range(0xD0, 0xD8)))
_FRAME_MARKERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Segments with the image's size; the three excluded markers are tables."""
_FRAME = struct.Struct(">BHH")
"""Bits per sample, height, width."""
_SCAN_MARKER = 0xDA

_WEBP_HEADER_BYTES = {b"VP8X": 30, b"VP8 ": 30, b"VP8L": 25}
"""By first chunk: the end of the size fields in the file."""
_WEBP_CONTENT = 20
"""Offset of the first chunk's content."""
_VP8_START = b"\x9d\x01\x2a"
_VP8L_SIGNATURE = 0x2F
_14_BITS = 0x3FFF

ImageSize = tuple[int, int]
"""Width and height in pixels."""


class Container(StrEnum):
    """Containers of uploaded recordings; the value is the file's suffix."""

    WAV = "wav"
    WEBM = "webm"
    MP4 = "mp4"


def container_of(head: bytes) -> Container | None:
    if is_wav(head) and head.startswith(_WAV_OF_BROWSERS):
        return Container.WAV
    if head[4:8] == b"ftyp" and head[8:12].startswith(_MP4_BRANDS):
        return Container.MP4
    return Container.WEBM if file_kind(head) is FileKind.WEBM else None


def is_video(head: bytes) -> bool:
    """True for MP4, MOV and WebM."""
    return file_kind(head) in (FileKind.MP4, FileKind.WEBM)


def image_size(data: bytes) -> ImageSize | None:
    """The size of a JPEG, PNG or WebP; None for other files. Raises ValueError for a broken header."""
    if data.startswith(_JPEG):
        size = _jpeg_size(data)
    elif data.startswith(_PNG):
        size = _png_size(data)
    elif data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        size = _webp_size(data)
    else:
        return None
    if not all(size):
        raise ValueError("the image has no pixels")
    return size


def is_cut_off(data: bytes) -> bool:
    """Whether the end of an image is missing whose header is complete."""
    if data.startswith(_JPEG):
        scan = next((at for marker, at in _segments(data) if marker == _SCAN_MARKER), len(data))
        return data.find(_JPEG_END, scan) < 0
    if data.startswith(_PNG):
        return data.rfind(_PNG_END) < 0
    return 8 + _little_endian(data[4:8]) > len(data)


def _png_size(data: bytes) -> ImageSize:
    if len(data) < len(_PNG) + _PNG_HEADER.size:
        raise ValueError("the header is incomplete")
    length, name, width, height = _PNG_HEADER.unpack_from(data, len(_PNG))
    if (length, name) != (_IHDR_BYTES, b"IHDR"):
        raise ValueError("the PNG does not begin with IHDR")
    return width, height


def _jpeg_size(data: bytes) -> ImageSize:
    """Reads all segments before the pixels, because a decoder may use the second of two sizes."""
    size: ImageSize | None = None
    for marker, at in _segments(data):
        if marker in _FRAME_MARKERS and size is not None:
            raise ValueError("the JPEG has two sizes")
        if marker in _FRAME_MARKERS:
            size = _frame_size(data, at)
        if marker == _SCAN_MARKER and size is not None:
            return size
    raise ValueError("the JPEG has no pixels")


def _segments(data: bytes) -> Iterator[tuple[int, int]]:
    """Marker and content offset of each segment. Raises ValueError."""
    at = 2
    for _ in range(_MAX_SEGMENTS):
        found = _MARKER.search(data, at + 1, at + 1 + _MAX_FILL)
        if found is None:
            return
        marker, at = data[found.start()], found.end()
        if marker in _WITHOUT_LENGTH:
            continue
        length = int.from_bytes(data[at : at + _LENGTH_BYTES], "big")
        if length < _LENGTH_BYTES:
            raise ValueError("a JPEG segment has no length")
        yield marker, at + _LENGTH_BYTES
        at += length


def _frame_size(data: bytes, at: int) -> ImageSize:
    if len(data) < at + _FRAME.size:
        raise ValueError("the header is incomplete")
    bits, height, width = _FRAME.unpack_from(data, at)
    if bits != 8:
        raise ValueError(f"the JPEG has {bits} bits per sample")
    return width, height


def _webp_size(data: bytes) -> ImageSize:
    kind = data[12:16]
    if len(data) < _WEBP_HEADER_BYTES.get(kind, _WEBP_CONTENT):
        raise ValueError("the header is incomplete")
    head = data[_WEBP_CONTENT : _WEBP_HEADER_BYTES.get(kind)]
    if kind == b"VP8X":
        return _little_endian(head[4:7]) + 1, _little_endian(head[7:10]) + 1
    if kind == b"VP8L" and head[0] == _VP8L_SIGNATURE:
        bits = _little_endian(head[1:5])
        return (bits & _14_BITS) + 1, (bits >> 14 & _14_BITS) + 1
    if kind == b"VP8 " and head[3:6] == _VP8_START:
        return _little_endian(head[6:8]) & _14_BITS, _little_endian(head[8:10]) & _14_BITS
    raise ValueError("the WebP has no image")


def _little_endian(data: bytes) -> int:
    return int.from_bytes(data, "little")
