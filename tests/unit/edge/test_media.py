"""Audio and pictures at the door."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pybase64
import pytest
from edge_harness import picture
from hypothesis import given
from hypothesis import strategies as st

from edge.media import read_audio, read_image
from shared_schemas.errors import ErrorCode, InvalidInput


def _text(data: bytes) -> str:
    return pybase64.b64encode_as_string(data)


def _audio(data: bytes) -> bytes:
    return read_audio(_text(data), "audio", max_s=5.0).data


def _frame(data: bytes, max_pixels: int = 4096 * 4096) -> bytes:
    return read_image(_text(data), "frame", max_bytes=100_000, max_pixels=max_pixels)


def test_audio_passes_through_untouched() -> None:
    data = np.linspace(-1, 1, 16_000, dtype="<f4").tobytes()
    assert _audio(data) == data


def test_five_seconds_are_the_limit() -> None:
    assert len(_audio(bytes(4 * 80_000))) == 320_000
    with pytest.raises(InvalidInput, match="80001 samples, the limit is 80000"):
        _audio(bytes(4 * 80_001))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "no samples"),
        (b"abc", "whole number"),
        (struct.pack("<2f", 0.0, float("nan")), "NaN"),
        (struct.pack("<2f", float("-inf"), 0.0), "infinite"),
    ],
)
def test_bad_samples_are_refused(data: bytes, says: str) -> None:
    with pytest.raises(InvalidInput, match=says) as refused:
        _audio(data)
    assert refused.value.field == "audio"


@pytest.mark.parametrize("text", ["A", "AAA", "AAAA AAAA", "AA-_", "====", "\u00e9" * 4, "AAAA\n"])
def test_only_strict_base64_is_taken(text: str) -> None:
    with pytest.raises(InvalidInput, match="audio: not valid base64"):
        read_audio(text, "audio", 5.0)


@given(st.text(max_size=64))
def test_any_text_is_audio_or_refused(text: str) -> None:
    try:
        data = read_audio(text, "audio", 5.0).data
    except InvalidInput as error:
        assert error.field == "audio"  # noqa: PT017 - either outcome is right
    else:
        assert data
        assert len(data) % 4 == 0


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_three_formats_are_taken(kind: str) -> None:
    data = picture(kind)
    assert _frame(data) == data


@pytest.mark.parametrize("kind", ["GIF", "BMP", "TIFF", "PPM"])
def test_other_formats_are_refused_whatever_they_are_called(kind: str) -> None:
    with pytest.raises(InvalidInput, match="only JPEG, PNG and WebP"):
        _frame(picture(kind))


def _png_header(width: int, height: int) -> bytes:
    body = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    header = struct.pack(">I", 13) + body + struct.pack(">I", zlib.crc32(body))
    return b"\x89PNG\r\n\x1a\n" + header + struct.pack(">I", 0) + b"IDAT"


def _jpeg_header(width: int, height: int) -> bytes:
    sof = struct.pack(">BHHB", 8, height, width, 3) + b"\x01\x11\x00\x02\x11\x01\x03\x11\x01"
    return b"\xff\xd8\xff\xc0" + struct.pack(">H", len(sof) + 2) + sof + b"\xff\xda\x00\x02"


def _webp_header(width: int, height: int) -> bytes:
    canvas = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    body = b"WEBPVP8X" + struct.pack("<I", 10) + bytes(4) + canvas
    return b"RIFF" + struct.pack("<I", len(body)) + body


@pytest.mark.parametrize("header", [_png_header, _jpeg_header, _webp_header])
def test_a_bomb_is_refused_from_its_header(header: object) -> None:
    assert callable(header)
    with pytest.raises(InvalidInput, match=r"limit|cannot be read"):
        _frame(header(16_000, 16_000))


def test_the_pixel_limit_is_named() -> None:
    with pytest.raises(InvalidInput, match="50000x50000 pixels, the limit is 16777216"):
        _frame(_png_header(50_000, 50_000))


def test_the_byte_limit_is_named() -> None:
    with pytest.raises(InvalidInput, match="the limit is 100000") as refused:
        _frame(b"\xff\xd8\xff" + bytes(100_000))
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("start", [b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"RIFF1234WEBP", b""])
@given(rest=st.binary(max_size=200))
def test_garbage_behind_a_good_start_is_refused_or_small(start: bytes, rest: bytes) -> None:
    try:
        _frame(start + rest, max_pixels=1000)
    except InvalidInput as error:
        assert error.field == "frame"  # noqa: PT017 - either outcome is right


def test_a_header_is_judged_without_decoding() -> None:
    """A picture whose pixels are missing still has a size; decoding it is the worker's affair."""
    whole = picture("JPEG", (640, 480))
    assert _frame(whole[:-1000]) == whole[:-1000]
