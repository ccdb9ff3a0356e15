"""Pictures for a fake camera, and a check that recognises them."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

Colour = tuple[int, int, int]

_WIDTH, _HEIGHT, _RATE, _FRAMES = 640, 360, 10, 4


def two_colours(path: Path, *, left: Colour, right: Colour) -> Path:
    """A still picture as .y4m, which Chromium's fake camera plays in a loop."""
    picture = Image.new("RGB", (_WIDTH, _HEIGHT), left)
    picture.paste(right, (_WIDTH // 2, 0, _WIDTH, _HEIGHT))
    return _still(path, picture)


def desk(path: Path) -> Path:
    """A simple drawing of a person in front of a window, for the screenshots of the documents."""
    picture = Image.new("RGB", (_WIDTH, _HEIGHT), (222, 204, 176))
    draw = ImageDraw.Draw(picture)
    draw.rectangle((40, 30, 215, 210), fill=(228, 238, 243))
    for bar in ((124, 30, 130, 210), (40, 117, 215, 123)):
        draw.rectangle(bar, fill=(158, 134, 110))
    draw.rectangle((0, 280, _WIDTH, _HEIGHT), fill=(124, 86, 60))
    draw.pieslice((250, 70, 410, 230), 180, 360, fill=(60, 42, 34))
    draw.ellipse((260, 95, 400, 245), fill=(226, 182, 150))
    draw.chord((252, 66, 408, 190), 190, 350, fill=(60, 42, 34))
    draw.rounded_rectangle((210, 240, 450, 420), 60, fill=(48, 92, 112))
    draw.rounded_rectangle((490, 222, 545, 300), 8, fill=(240, 238, 232))
    draw.arc((535, 236, 565, 276), -90, 90, fill=(240, 238, 232), width=7)
    for leaf in range(7):
        draw.ellipse((556, 92 + 18 * leaf, 616, 122 + 18 * leaf), fill=(68, 120 + 6 * leaf, 76))
    return _still(path, picture)


def _still(path: Path, picture: Image.Image) -> Path:
    luma, blue, red = picture.convert("YCbCr").split()
    half = (_WIDTH // 2, _HEIGHT // 2)
    frame = luma.tobytes() + blue.resize(half).tobytes() + red.resize(half).tobytes()
    header = f"YUV4MPEG2 W{_WIDTH} H{_HEIGHT} F{_RATE}:1 Ip A1:1 C420jpeg\n".encode()
    path.write_bytes(header + (b"FRAME\n" + frame) * _FRAMES)
    return path


def left_and_right(picture: Image.Image) -> tuple[Colour, Colour]:
    """The mean colours of the left and right half of a picture, without the pixels at the edges."""
    pixels = np.asarray(picture.convert("RGB"), dtype=np.float64)
    width = pixels.shape[1]
    return _mean(pixels[:, width // 8 : width * 3 // 8]), _mean(
        pixels[:, width * 5 // 8 : width * 7 // 8]
    )


def _mean(pixels: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Colour:
    red, green, blue = (round(float(value)) for value in pixels.mean(axis=(0, 1)))
    return red, green, blue
