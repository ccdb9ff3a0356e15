"""Images that only their decoder can refuse, because the edge reads only their size."""

import io
import struct
import zlib

import pytest
from PIL import Image

from antiphon.inference_worker.engines.minicpmo.preprocess.images import decode_image
from antiphon.inference_worker.engines.types import EngineError


def _png(kind: bytes, content: bytes, *, good: bool = True) -> bytes:
    """A PNG with an additional chunk between header and pixels."""
    buffer = io.BytesIO()
    Image.new("RGB", (16, 12)).save(buffer, "PNG")
    whole, pixels = buffer.getvalue(), buffer.getvalue().index(b"IDAT") - 4
    check = zlib.crc32(kind + content) ^ (not good)
    chunk = struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)
    return whole[:pixels] + chunk + whole[pixels:]


@pytest.mark.parametrize(
    "data",
    [
        _png(b"zTXt", b"a\0\0" + zlib.compress(bytes(2_000_000), 9)),
        _png(b"pHYs", b""),
        _png(b"PLTE", b"", good=False),
        b"\x89PNG\r\n\x1a\n" + bytes(40),
        b"",
    ],
    ids=[
        "a text of 2 MB",
        "a chunk too short",
        "a wrong checksum",
        "only the signature",
        "empty",
    ],
)
def test_an_unreadable_image_fails_its_session(data: bytes) -> None:
    with pytest.raises(EngineError, match="not a readable picture"):
        decode_image(data)


def test_a_small_text_is_accepted() -> None:
    assert decode_image(_png(b"zTXt", b"a\0\0" + zlib.compress(b"hello"))).size == (16, 12)
