"""Camera frames made fit for a video: one size, even, whatever sizes the client sent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import structlog
from PIL import Image, ImageOps

from recorder_service.score import Picture

log = structlog.get_logger()

LONGEST_SIDE = 1280
_MAX_PIXELS = 64_000_000

Size = tuple[int, int]
"""Width and height."""


def canvas_size(folder: Path, pictures: Sequence[Picture]) -> Size | None:
    """The size of the first frame that can be read, even and bounded; None where there is none."""
    for picture in pictures:
        image = load(folder, picture)
        if image is not None:
            return _even(*_fitted(image.size, (LONGEST_SIDE, LONGEST_SIDE), grow=False))
    return None


def on_canvas(image: Image.Image, size: Size) -> Image.Image:
    """The whole picture as large as it fits, with black beside it."""
    if image.size == size:
        return image
    fitted = image.resize(_fitted(image.size, size, grow=True))
    canvas = Image.new("RGB", size)
    canvas.paste(fitted, ((size[0] - fitted.width) // 2, (size[1] - fitted.height) // 2))
    return canvas


def load(folder: Path, picture: Picture) -> Image.Image | None:
    """One frame, upright; None when it is gone, or no picture that can be read."""
    try:
        with Image.open(folder / picture.file, formats=("JPEG", "PNG", "WEBP")) as image:
            if image.width * image.height > _MAX_PIXELS:
                return None
            image.draft("RGB", (LONGEST_SIDE, LONGEST_SIDE))
            return ImageOps.exif_transpose(image.convert("RGB"))
    except FileNotFoundError:
        return None
    except (OSError, SyntaxError, ValueError) as error:  # what Pillow raises on broken files
        log.info("frame_unreadable", file=picture.file, error=str(error))
        return None


def _fitted(size: Size, into: Size, *, grow: bool) -> Size:
    scale = min(into[0] / size[0], into[1] / size[1])
    if not grow:
        scale = min(scale, 1.0)
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def _even(width: int, height: int) -> Size:
    """H.264 halves the colours in both directions."""
    return max(2, width // 2 * 2), max(2, height // 2 * 2)
