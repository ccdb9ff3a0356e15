"""Checks of audio and images that clients send."""

import io
import struct
import tracemalloc
import zlib
from typing import Any

import numpy as np
import pybase64
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from antiphon.edge.media.audio_formats import AudioFormat
from antiphon.edge.media.decode import read_audio, read_image, read_sound
from antiphon.edge.media.file_types import image_size
from antiphon.shared_schemas.audio import PcmFormat
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.wire import MediaBytes
from support.edge_harness import picture
from support.sound_files import wav


def _text(data: bytes) -> str:
    return pybase64.b64encode_as_string(data)


def _audio(data: bytes) -> bytes:
    return read_audio(_text(data), "audio", max_s=5.0).data


def _frame(data: bytes, max_pixels: int = 4096 * 4096) -> bytes:
    return read_image(_text(data), "frame", max_bytes=100_000, max_pixels=max_pixels)


def test_audio_is_not_changed() -> None:
    data = np.linspace(-1, 1, 16_000, dtype="<f4").tobytes()
    assert _audio(data) == data


def test_f15_loud_audio_is_accepted() -> None:
    for peak in (1.5, 8.0, -8.0):
        data = np.array([0.0, peak], "<f4").tobytes()
        assert _audio(data) == data


def test_f15_text_is_no_16_bit_audio() -> None:
    with pytest.raises(InvalidInput, match="audio: text is not 16-bit audio"):
        read_audio(MediaBytes(b"0123456789012345" * 40, PcmFormat.S16), "audio", 5.0)


@pytest.mark.parametrize("level", [0.0, 1e-6, 0.1, 0.25, 0.5, 0.75, 1.0])
def test_f15_silence_and_constant_sound_are_accepted(level: float) -> None:
    data = np.full(16_000, level, "<f4").tobytes()
    assert _audio(data) == data


@pytest.mark.parametrize("data", [b"text", b"0123456789012345" * 3])
def test_f15_a_few_samples_are_no_text(data: bytes) -> None:
    read_audio(MediaBytes(data, PcmFormat.S16), "audio", 5.0)


def test_five_seconds_are_the_limit() -> None:
    assert len(_audio(bytes(4 * 80_000))) == 320_000
    with pytest.raises(InvalidInput, match="80001 samples, the limit is 80000"):
        _audio(bytes(4 * 80_001))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no samples"),
        (b"abc", "whole number"),
        (struct.pack("<2f", 0.0, float("nan")), "NaN"),
        (struct.pack("<2f", float("-inf"), 0.0), "infinite"),
        (struct.pack("<2f", 0.0, 8.1), "a sample of 8.1 is not float32 audio"),
        (struct.pack("<2f", -32768.0, 0.5), "a sample of 32768 is not float32 audio"),
        (b"This is a text, and no voice. " * 8, "text is not float32 audio"),
        (b"0123456789012345" * 40, "text is not float32 audio: use values between -1 and 1"),
        (b"1.5 0.25\n-3.5\t+1,\r\n" * 40, "text is not float32 audio"),
    ],
)
def test_invalid_samples_are_rejected(data: bytes, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason) as refused:
        _audio(data)
    assert refused.value.field == "audio"


_TONE = np.sin(np.arange(4_800) / 10).astype("<f4")


@pytest.mark.parametrize("sound_format", [AudioFormat.PCM_16K, AudioFormat.PCM_24K])
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (wav(), "this is a WAV file: send"),
        (_TONE.tobytes(), "these are samples of float32: send"),
        (b"abc", "3 bytes is not a whole number of samples"),
    ],
    ids=["a file", "float32", "half a sample"],
)
def test_f15_sound_in_another_format_is_refused(
    data: bytes, reason: str, sound_format: AudioFormat
) -> None:
    with pytest.raises(InvalidInput, match=f"audio: {reason}.*{sound_format}") as refused:
        read_sound(_text(data), "audio", sound_format)
    assert refused.value.field == "audio"


def test_sound_of_any_length_is_accepted() -> None:
    for data in (b"", b"\0\x40", (_TONE * 32_767).astype("<i2").tobytes()):
        assert read_sound(_text(data), "audio", AudioFormat.PCM_24K) == data
    assert read_sound(_text(b"abc"), "audio", AudioFormat.PCMU) == b"abc"


@given(st.text(max_size=64))
def test_any_text_is_audio_or_an_error(text: str) -> None:
    try:
        data = read_audio(text, "audio", 5.0).data
    except InvalidInput as error:
        assert error.field == "audio"  # noqa: PT017 - either outcome is right
    else:
        assert data
        assert len(data) % 4 == 0


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_accepted_image_formats(kind: str) -> None:
    data = picture(kind)
    assert _frame(data) == data


@pytest.mark.parametrize("kind", ["GIF", "BMP", "TIFF", "PPM"])
def test_other_image_formats_are_rejected(kind: str) -> None:
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
def test_a_decompression_bomb_is_rejected_by_its_header(header: object) -> None:
    assert callable(header)
    with pytest.raises(InvalidInput, match=r"limit|cannot be read"):
        _frame(header(16_000, 16_000))


def test_the_error_names_the_pixel_limit() -> None:
    with pytest.raises(InvalidInput, match="50000x50000 pixels, the limit is 16777216"):
        _frame(_png_header(50_000, 50_000))


def test_the_error_names_the_byte_limit() -> None:
    with pytest.raises(InvalidInput, match="the limit is 100000") as refused:
        _frame(b"\xff\xd8\xff" + bytes(100_000))
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("start", [b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"RIFF1234WEBP", b""])
@given(rest=st.binary(max_size=200))
def test_garbage_after_a_valid_start(start: bytes, rest: bytes) -> None:
    try:
        _frame(start + rest, max_pixels=1000)
    except InvalidInput as error:
        assert error.field == "frame"  # noqa: PT017 - either outcome is right


def _jpeg_with(segments: bytes, whole: bytes = b"") -> bytes:
    whole = whole or picture("JPEG")
    return whole[:2] + segments + whole[2:]


def _segment(marker: int, content: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(content) + 2) + content


_FILM = bytes(range(256)) * 255


@pytest.mark.parametrize(
    "segments",
    [
        _segment(0xE1, b"Exif\0\0" + _FILM),
        _segment(0xE1, b"Exif\0\0" + b"\xff\xc0\xff\xda" * 1000),
        _segment(0xE1, b"http://ns.adobe.com/xmp/extension/\0" + _FILM) * 24,
        _segment(0xE2, b"ICC_PROFILE\0" + bytes(500)) * 255,
        _segment(0xE2, b"MPF\0" + bytes(80)) + _segment(0xFE, b"a comment"),
        b"\xff" * 16,
    ],
    ids=["exif", "exif with a thumbnail", "depth map", "profile in parts", "two pictures", "fill"],
)
def test_segments_before_the_pixels_are_skipped(segments: bytes) -> None:
    assert image_size(_jpeg_with(segments, picture("JPEG", (640, 480)))) == (640, 480)


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"optimize": True}])
@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
def test_jpeg_sizes(mode: str, options: dict[str, bool]) -> None:
    buffer = io.BytesIO()
    Image.new(mode, (321, 123)).save(buffer, "JPEG", **options)
    assert image_size(buffer.getvalue()) == (321, 123)


@pytest.mark.parametrize(
    "options", [{}, {"lossless": True}, {"exif": b"Exif\0\0MM\0*\0\0\0\x08\0\0"}]
)
@pytest.mark.parametrize("size", [(1, 1), (321, 123), (16383, 3)])
def test_webp_sizes(size: tuple[int, int], options: dict[str, Any]) -> None:
    buffer = io.BytesIO()
    Image.new("RGB", size).save(buffer, "WEBP", **options)
    assert image_size(buffer.getvalue()) == size


_TEXT_BOMB = b"zTXt" + b"a\0\0" + zlib.compress(bytes(1_000_000), 9)
_BOMBS = {
    "half a million segments": _jpeg_with(b"\xff\xe3\x00\x02" * 500_000),
    "half a million comments": _jpeg_with(b"\xff\xfe\x00\x02" * 500_000),
    "padding only": b"\xff\xd8" + b"\xff" * 2_000_000,
    "padding before the size": _jpeg_with(b"\xff" * 2_000_000),
    "stuffed bytes": _jpeg_with(b"\xff\x00" * 1_000_000),
    "two sizes": _jpeg_with(_segment(0xC0, struct.pack(">BHHB", 8, 9, 9, 1) + b"\x01\x11\0")),
    "a segment without length": _jpeg_with(b"\xff\xe3\0\0"),
    "no PNG header": b"\x89PNG\r\n\x1a\n" + struct.pack(">I", len(_TEXT_BOMB) - 4) + _TEXT_BOMB,
    "no width": _png_header(0, 9),
    "no height": _jpeg_header(9, 0),
}


@pytest.mark.parametrize("name", _BOMBS)
def test_only_the_header_is_read(name: str) -> None:
    with pytest.raises(InvalidInput, match="the image cannot be read"):
        read_image(_text(_BOMBS[name]), "frame", max_bytes=2**21, max_pixels=2**24)


def test_png_chunks_are_not_unpacked() -> None:
    """A decoder would unpack texts and profiles to read the size."""
    chunk = struct.pack(">I", len(_TEXT_BOMB) - 4) + _TEXT_BOMB + bytes(4)
    whole = _png_header(640, 480)
    data = whole[:33] + chunk * 60 + whole[33:]
    tracemalloc.start()
    try:
        assert image_size(data) == (640, 480)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10_000


def test_the_size_is_read_without_decoding() -> None:
    """An image without pixels has a size; the worker decodes it."""
    whole = picture("JPEG", (640, 480))
    assert _frame(whole[:-1000]) == whole[:-1000]
