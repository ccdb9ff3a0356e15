"""Pictures for tests of the sight: photographs, and signs and shapes that are drawn."""

import io
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

_PHOTOGRAPHS = Path(__file__).parents[1] / "pictures"


def photograph(name: str) -> bytes:
    return (_PHOTOGRAPHS / f"{name}.jpg").read_bytes()


def sign(text: str, *, ink: str = "black", ground: str = "white", size: int = 60) -> bytes:
    """A text of one or more lines."""
    image = Image.new("RGB", (448, 448), ground)
    font = ImageFont.load_default(size)
    ImageDraw.Draw(image).multiline_text((40, 140), text, fill=ink, font=font)
    return jpeg(image)


def circle(ink: str, ground: str) -> bytes:
    image = Image.new("RGB", (448, 448), ground)
    ImageDraw.Draw(image).ellipse((100, 100, 340, 340), fill=ink)
    return jpeg(image)


def jpeg(image: Image.Image, quality: int = 85) -> bytes:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality)
    return file.getvalue()
