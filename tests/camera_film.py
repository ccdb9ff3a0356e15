"""What a fake camera shows, and how to know it again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

Colour = tuple[int, int, int]

_WIDTH, _HEIGHT, _RATE, _FRAMES = 640, 360, 10, 4


def two_colours(path: Path, *, left: Colour, right: Colour) -> Path:
    """A still picture as .y4m, which Chromium's fake camera plays in a circle."""
    picture = Image.new("RGB", (_WIDTH, _HEIGHT), left)
    picture.paste(right, (_WIDTH // 2, 0, _WIDTH, _HEIGHT))
    luma, blue, red = picture.convert("YCbCr").split()
    half = (_WIDTH // 2, _HEIGHT // 2)
    frame = luma.tobytes() + blue.resize(half).tobytes() + red.resize(half).tobytes()
    header = f"YUV4MPEG2 W{_WIDTH} H{_HEIGHT} F{_RATE}:1 Ip A1:1 C420jpeg\n".encode()
    path.write_bytes(header + (b"FRAME\n" + frame) * _FRAMES)
    return path


def left_and_right(picture: Image.Image) -> tuple[Colour, Colour]:
    """The mean colours of a picture's halves, without what lies at their edges."""
    pixels = np.asarray(picture.convert("RGB"), dtype=np.float64)
    width = pixels.shape[1]
    return _mean(pixels[:, width // 8 : width * 3 // 8]), _mean(
        pixels[:, width * 5 // 8 : width * 7 // 8]
    )


def _mean(pixels: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Colour:
    red, green, blue = (round(float(value)) for value in pixels.mean(axis=(0, 1)))
    return red, green, blue
