"""Pictures of all kinds, and those that only their decoder can refuse: the edge reads only their size."""

import base64
import io
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image

from antiphon.edge.media.decode import read_image
from antiphon.inference_worker.engines.common.pictures import (
    JPEG,
    is_turned,
    picture_part,
    read_picture,
    upright,
)
from antiphon.inference_worker.engines.types import EngineError
from antiphon.shared_schemas.wire import MediaBytes


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
        read_picture(data)


def test_a_small_text_is_accepted() -> None:
    assert read_picture(_png(b"zTXt", b"a\0\0" + zlib.compress(b"hello"))).size == (16, 12)


COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255), "white": (255, 255, 255)}
SIZE = (64, 48)


def _corners(mode: str = "RGB") -> Image.Image:
    """Red and green at the top, blue and white at the bottom."""
    image = Image.new("RGB", SIZE)
    for number, colour in enumerate(COLOURS.values()):
        row, column = divmod(number, 2)
        image.paste(colour, (column * 32, row * 24, column * 32 + 32, row * 24 + 24))
    return image.convert(mode)


def _file(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def _seen(image: Image.Image) -> str:
    """Colours of the corners: top left, top right, bottom left, bottom right."""
    assert image.mode == "RGB"
    pixels = np.asarray(image).astype(int)
    found = [pixels[y, x] for y in (8, -8) for x in (8, -8)]
    return " ".join(
        min(COLOURS, key=lambda name: int(np.abs(pixel - COLOURS[name]).sum())) for pixel in found
    )


def _exif(orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif.tobytes()


UPRIGHT = "red green blue white"
TURNED = {
    1: UPRIGHT,
    2: "green red white blue",
    3: "white blue green red",
    4: "blue white red green",
    5: "red blue green white",
    6: "blue red white green",
    7: "white green blue red",
    8: "green white red blue",
}


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize(("orientation", "corners"), TURNED.items())
def test_pictures_are_turned_as_exif_says(kind: str, orientation: int, corners: str) -> None:
    data = _file(_corners(), kind, exif=_exif(orientation))
    picture = read_picture(data)
    assert _seen(picture) == corners
    assert picture.size == (SIZE if orientation < 5 else SIZE[::-1])
    assert is_turned(data) is (orientation != 1)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_a_picture_in_a_message_has_its_media_type(kind: str) -> None:
    data = _file(_corners(), kind)
    address = f"data:image/{kind.lower()};base64,{base64.b64encode(data).decode()}"
    assert picture_part(data)["image_url"]["url"] == address


@pytest.mark.parametrize(("orientation", "corners"), TURNED.items())
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_picture_is_sent_upright(kind: str, orientation: int, corners: str) -> None:
    """As it is, if the receiver reads its format."""
    data = _file(_corners(), kind, exif=_exif(orientation))
    sent = upright(data, (JPEG,))
    assert sent.startswith(JPEG)
    assert (sent == data) is (kind == "JPEG" and orientation == 1)
    assert _seen(read_picture(sent)) == corners
    _, _, content = picture_part(data)["image_url"]["url"].partition("base64,")
    in_message = base64.b64decode(content)
    assert (in_message == data) is (orientation == 1)
    assert not is_turned(in_message)


def _palette() -> Image.Image:
    return _corners().quantize(8)


def _see_through(mode: str) -> Image.Image:
    """The last corner is transparent, and black below."""
    image = _corners(mode)
    image.paste((0,) * len(image.getbands()), (32, 24, 64, 48))
    return image


def _animated(kind: str) -> bytes:
    other = Image.new("RGB", SIZE, "black")
    return _file(_corners(), kind, save_all=True, append_images=[other], duration=100)


def _interlaced() -> bytes:
    """A PNG of Adam7, which Pillow cannot write, with two colours: left red, right green."""
    width, height = 64, 48
    rows = b""
    for x0, y0, dx, dy in (
        (0, 0, 8, 8),
        (4, 0, 8, 8),
        (0, 4, 4, 8),
        (2, 0, 4, 4),
        (0, 2, 2, 4),
        (1, 0, 2, 2),
        (0, 1, 1, 2),
    ):
        line = b"".join(bytes(COLOURS["red" if x < 32 else "green"]) for x in range(x0, width, dx))
        rows += (b"\0" + line) * len(range(y0, height, dy))
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 1)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content))
        + name
        + content
        + struct.pack(">I", zlib.crc32(name + content))
        for name, content in parts
    )


KINDS: dict[str, tuple[Callable[[], bytes], str]] = {
    "JPEG": (lambda: _file(_corners(), "JPEG"), UPRIGHT),
    "progressive JPEG": (lambda: _file(_corners(), "JPEG", progressive=True), UPRIGHT),
    "CMYK in JPEG": (lambda: _file(_corners("CMYK"), "JPEG"), UPRIGHT),
    "JPEG without subsampling": (lambda: _file(_corners(), "JPEG", subsampling=0), UPRIGHT),
    "JPEG with damaged EXIF": (
        lambda: _file(_corners(), "JPEG", exif=b"Exif\0\0MM\0*\xff\xff\xff\xff"),
        UPRIGHT,
    ),
    "PNG": (lambda: _file(_corners(), "PNG"), UPRIGHT),
    "interlaced PNG": (_interlaced, "red green red green"),
    "palette in PNG": (lambda: _file(_palette(), "PNG"), UPRIGHT),
    "RGBA in PNG": (lambda: _file(_see_through("RGBA"), "PNG"), UPRIGHT),
    "RGBA in WebP": (lambda: _file(_see_through("RGBA"), "WEBP", lossless=True), UPRIGHT),
    "a transparent colour in PNG": (
        lambda: _file(_palette(), "PNG", transparency=_palette().getpixel((8, 8))),
        "white green blue white",
    ),
    "animated PNG": (lambda: _animated("PNG"), UPRIGHT),
    "animated WebP": (lambda: _animated("WEBP"), UPRIGHT),
    "WebP": (lambda: _file(_corners(), "WEBP"), UPRIGHT),
    "lossless WebP": (lambda: _file(_corners(), "WEBP", lossless=True), UPRIGHT),
}


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
@pytest.mark.parametrize(("make", "corners"), KINDS.values(), ids=KINDS.keys())
def test_each_kind_of_picture_is_read(make: Callable[[], bytes], corners: str) -> None:
    data = make()
    assert read_image(MediaBytes(data), "frame", max_bytes=10**6, max_pixels=10**6) == data
    picture = read_picture(data)
    assert picture.size == SIZE
    assert _seen(picture) == corners


def _levels(data: bytes) -> tuple[int, int]:
    """Of the first and the last pixel, which are grey."""
    assert read_image(MediaBytes(data), "frame", max_bytes=10**6, max_pixels=10**6) == data
    pixels = np.asarray(read_picture(data)).astype(int)
    assert (np.ptp(pixels, axis=2) == 0).all()
    return int(pixels[0, 0, 0]), int(pixels[-1, -1, 0])


def test_grey_pictures_keep_their_levels() -> None:
    ramp = np.linspace(0.0, 1.0, 64)[None].repeat(48, axis=0)
    grey = Image.fromarray((ramp * 255).astype(np.uint8))
    assert _levels(_file(grey, "PNG")) == (0, 255)
    assert _levels(_file(grey.convert("1"), "PNG")) == (0, 255)
    wide = Image.fromarray((ramp * 65_535).astype(np.uint16))
    assert _levels(_file(wide, "PNG")) == (0, 255)
    middle = np.asarray(read_picture(_file(wide, "PNG"))).astype(int)[0, 32, 0]
    assert abs(middle - 130) < 4
    clear = Image.merge("LA", (grey, Image.new("L", SIZE, 0)))
    assert _levels(_file(clear, "PNG")) == (255, 255)  # transparent: white


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_a_picture_that_was_cut_off_is_refused(kind: str) -> None:
    data = _file(_corners(), kind, **({"lossless": True} if kind == "WEBP" else {}))
    with pytest.raises(EngineError, match="a frame is not a readable picture"):
        read_picture(data[: len(data) * 3 // 4])


def test_other_pictures_are_refused() -> None:
    with pytest.raises(EngineError, match="a frame is not a readable picture"):
        read_picture(_file(_corners(), "GIF"))
