"""Decodes camera frames and fits them to the size of a video.

Frames are untrusted: a costly or malformed one is dropped, and it delays neither other frames nor
other sessions' replays.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from pathlib import Path

import structlog
from PIL import Image, ImageOps, PngImagePlugin

from antiphon.recorder_service.manifest.plan import TimedFrame
from antiphon.recorder_service.replay.mix import StopCheck

log = structlog.get_logger()

LONGEST_SIDE = 1280
SHORTEST_MS = 100
"""The shortest time a frame is shown: frames within that time are left out."""

_COST_PER_MS = 4096 * 4096 / 1000
"""The decoding budget of one millisecond of replay: a pixel costs 1, a byte of the file more."""

_BYTE_COST = 8
_MAX_PIXELS = 64_000_000
_MAX_SCANS = 32
"""A progressive JPEG has about ten scans; each one takes time for the whole picture."""

_SCAN = b"\xff\xda"

Size = tuple[int, int]
"""Width and height."""

PngImagePlugin.MAX_TEXT_MEMORY = 2**20  # unused here, and 60 KiB unpack to 64 MiB


def decode_frames(
    folder: Path, frames: Iterable[TimedFrame], check: StopCheck
) -> Iterator[tuple[TimedFrame, Image.Image]]:
    """The readable frames, upright, as many as the time budget allows. Raises OSError."""
    free_at_ms = 0.0
    for frame in frames:
        if frame.at_ms < free_at_ms:
            continue
        check()
        data = _content(folder / frame.file)
        image, pixels = _decoded(data, frame.file)
        cost = pixels + _BYTE_COST * len(data)
        free_at_ms = frame.at_ms + max(SHORTEST_MS, cost / _COST_PER_MS)
        if image is not None:
            yield frame, image


def canvas_size(first: Image.Image) -> Size:
    """The size of a video whose first frame is `first`: even and bounded."""
    return _even(*_fitted(first.size, (LONGEST_SIDE, LONGEST_SIDE), grow=False))


def on_canvas(image: Image.Image, size: Size) -> Image.Image:
    """The whole picture scaled to fit, on black."""
    if image.size == size:
        return image
    fitted = image.resize(_fitted(image.size, size, grow=True))
    canvas = Image.new("RGB", size)
    canvas.paste(fitted, ((size[0] - fitted.width) // 2, (size[1] - fitted.height) // 2))
    return canvas


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _decoded(data: bytes, name: str) -> tuple[Image.Image | None, int]:
    """The picture, None when it is unreadable; and the number of pixels decoded."""
    pixels = 0
    try:
        with Image.open(io.BytesIO(data), formats=("JPEG", "PNG", "WEBP")) as image:
            _refuse_costly(image, data)
            pixels = image.width * image.height
            image.draft("RGB", (LONGEST_SIDE, LONGEST_SIDE))
            return ImageOps.exif_transpose(image.convert("RGB")), pixels
    except Exception as error:  # noqa: BLE001 - Pillow raises anything on broken files
        log.info("frame_unreadable", file=name, error=repr(error))
        return None, pixels


def _refuse_costly(image: Image.Image, data: bytes) -> None:
    """Raises ValueError, before its pixels are read, for a picture that no camera makes."""
    if image.width * image.height > _MAX_PIXELS:
        raise ValueError(f"{image.width} x {image.height} pixels are too many")
    if image.format == "JPEG" and data.count(_SCAN) > _MAX_SCANS:
        raise ValueError(f"more than {_MAX_SCANS} scans of one picture")


def _fitted(size: Size, into: Size, *, grow: bool) -> Size:
    scale = min(into[0] / size[0], into[1] / size[1])
    if not grow:
        scale = min(scale, 1.0)
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def _even(width: int, height: int) -> Size:
    """H.264 halves the colour planes in both directions."""
    return max(2, width // 2 * 2), max(2, height // 2 * 2)
