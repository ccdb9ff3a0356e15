"""Pictures of clients as viewers show them, upright: as RGB without transparency, or as files to send on."""

import io
import struct
from contextlib import suppress
from typing import Any

import numpy as np
from PIL import Image, ImageOps
from pybase64 import b64encode_as_string

from antiphon.inference_worker.engines.types import InputRefused

JPEG, PNG, _WEBP = b"\xff\xd8", b"\x89PNG", b"RIFF"
"""How a file begins."""

_FORMATS = ("JPEG", "PNG", "WEBP")
_MEDIA_TYPES = {PNG: "image/png", _WEBP: "image/webp"}

_UNREADABLE = (OSError, SyntaxError, ValueError, RuntimeError, struct.error)
"""Exceptions of Pillow for a file that it cannot decode. The edge has only checked the image size."""

_ORIENTATION = 0x0112
"""The EXIF tag; 1 is upright."""

_WIDE_GREY = ("I", "I;16", "I;16B", "I;16L", "I;16N")


def read_picture(data: bytes) -> Image.Image:
    """The first picture of a JPEG, PNG or WebP. Raises InputRefused if it is unreadable."""
    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            picture = _rgb(image)
    except (*_UNREADABLE, Image.DecompressionBombError) as error:
        raise InputRefused(f"a frame is not a readable picture: {error}") from error
    with suppress(*_UNREADABLE, TypeError, KeyError):  # damaged EXIF: the picture is there
        return ImageOps.exif_transpose(picture)
    return picture


def grey_thumbnail(data: bytes, side: int) -> Image.Image:
    """`side` by `side` levels of grey. A JPEG is decoded in a small size only. Raises InputRefused."""
    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            image.draft("L", (2 * side, 2 * side))
            return image.convert("L").resize((side, side), Image.Resampling.BOX)
    except (*_UNREADABLE, Image.DecompressionBombError) as error:
        raise InputRefused(f"a frame is not a readable picture: {error}") from error


def is_turned(data: bytes) -> bool:
    """True if EXIF says that viewers turn or mirror this picture."""
    with (
        suppress(*_UNREADABLE, TypeError, KeyError),
        Image.open(io.BytesIO(data), formats=_FORMATS) as image,
    ):
        return bool(image.getexif().get(_ORIENTATION, 1) != 1)
    return False


def upright(data: bytes, formats: tuple[bytes, ...]) -> bytes:
    """The picture as a file of one of `formats`, or as JPEG. Servers do not turn pictures as EXIF says.

    Raises InputRefused if it is unreadable.
    """
    if data.startswith(formats) and not is_turned(data):
        return data
    return jpeg(read_picture(data))


def jpeg(picture: Image.Image) -> bytes:
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=95, exif=b"")
    return file.getvalue()


def picture_part(data: bytes, formats: tuple[bytes, ...] = (JPEG, PNG, _WEBP)) -> dict[str, Any]:
    """The picture, upright, as a part of a message in OpenAI's API. `formats`: those that the server reads."""
    data = upright(data, formats)
    kinds = (kind for start, kind in _MEDIA_TYPES.items() if data.startswith(start))
    kind = next(kinds, "image/jpeg")
    return {
        "type": "image_url",
        "image_url": {"url": f"data:{kind};base64,{b64encode_as_string(data)}"},
    }


def _rgb(image: Image.Image) -> Image.Image:
    exif = image.info.get("exif")
    if image.mode in _WIDE_GREY:  # Pillow would cut off all that is lighter than 255 of 65535
        levels = np.asarray(image).astype(np.uint16) >> 8
        picture = Image.fromarray(levels.astype(np.uint8)).convert("RGB")
    elif image.has_transparency_data:
        layer = image.convert("RGBA")
        picture = Image.new("RGB", image.size, "white")
        picture.paste(layer, mask=layer)
    else:
        picture = image.convert("RGB")
    if exif:
        picture.info["exif"] = exif
    return picture
