"""Names of the colours in a picture."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from antiphon.inference_worker.engines.local.sight.things import Box

COLOURS = (
    "black", "grey", "white", "red", "orange", "brown", "yellow", "green", "turquoise", "blue", "purple",
    "pink",
)  # fmt: skip

_SIDE = 64
_NUMBER = {name: number for number, name in enumerate(COLOURS)}
_HUES = (
    (15, "red"), (40, "orange"), (68, "yellow"), (165, "green"), (195, "turquoise"), (260, "blue"),
    (300, "purple"), (345, "pink"), (361, "red"),
)  # fmt: skip
"""The degree at which each colour ends."""

_DARK, _LIGHT, _PALE = 0.2, 0.82, 0.18
_FLAT_SHARE, _FLAT_LEVELS = 0.85, 4
_LEAST_SHARE = 0.04
_MAIN_SHARE = 0.6
_SAME_LEVELS, _DRAWN_SHARE = 1, 0.88
_NIGHT = 40


@dataclass(frozen=True, slots=True)
class Colours:
    """`ground`: the colour around; `subject`: the most frequent other one, empty if there is none.

    `flat`: few colours cover most of the picture, as on a sign. `drawn`: areas of exactly one colour do,
    as no camera makes them. `dark`: almost nothing is lit.
    """

    ground: str
    subject: str
    flat: bool
    drawn: bool
    dark: bool


def colours_of(picture: Image.Image) -> Colours:
    pixels = np.asarray(picture.resize((_SIDE, _SIDE), Image.Resampling.BOX))
    names = _names_of(pixels)
    border = np.concatenate([names[0], names[-1], names[:, 0], names[:, -1]])
    counts = np.bincount(border, minlength=len(COLOURS))
    ground = int(counts.argmax())
    rest = np.bincount(names.ravel(), minlength=len(COLOURS))
    rest[ground] = 0
    subject = int(rest.argmax())
    known = rest[subject] >= _LEAST_SHARE * names.size
    return Colours(
        COLOURS[ground],
        COLOURS[subject] if known else "",
        _is_flat(pixels),
        _is_drawn(picture),
        _is_dark(pixels),
    )


def colour_of(picture: Image.Image, box: Box) -> str:
    """The colour of the middle of `box`; empty if it has no main colour."""
    height, width = box.bottom - box.top, box.right - box.left
    corners = (
        round((box.left + width / 4) * picture.width),
        round((box.top + height / 4) * picture.height),
        round((box.right - width / 4) * picture.width),
        round((box.bottom - height / 4) * picture.height),
    )
    if corners[2] <= corners[0] or corners[3] <= corners[1]:
        return ""
    part = picture.crop(corners).resize((_SIDE, _SIDE), Image.Resampling.BOX)
    counts = np.bincount(_names_of(np.asarray(part)).ravel(), minlength=len(COLOURS))
    best = int(counts.argmax())
    return COLOURS[best] if counts[best] >= _MAIN_SHARE * _SIDE * _SIDE else ""


def _names_of(pixels: NDArray[np.uint8]) -> NDArray[np.intp]:
    """The place in COLOURS of each pixel."""
    values = pixels.astype(np.float32) / 255.0
    light, low = values.max(-1), values.min(-1)
    spread = light - low
    saturation = spread / np.maximum(light, 1e-6)
    hue = _hues(values, light, np.maximum(spread, 1e-6))
    ends = np.array([end for end, _ in _HUES], dtype=np.float32)
    by_hue = np.array([_NUMBER[name] for _, name in _HUES])
    names = by_hue[np.searchsorted(ends, hue, side="right")]
    warm = (names == _NUMBER["orange"]) | (names == _NUMBER["red"])
    dull = (light < 0.65) | (saturation < 0.55)
    names = np.where((names == _NUMBER["orange"]) & dull, _NUMBER["brown"], names)
    names = np.where(warm & (hue > 8) & (hue < 60) & (light < 0.45), _NUMBER["brown"], names)
    pale_red = (names == _NUMBER["red"]) & (saturation < 0.5) & (light > 0.75)
    names = np.where(pale_red, _NUMBER["pink"], names)
    grey = np.where(light > _LIGHT, _NUMBER["white"], _NUMBER["grey"])
    names = np.where(saturation < _PALE, grey, names)
    return np.where(light < _DARK, _NUMBER["black"], names)


def _hues(
    values: NDArray[np.float32], light: NDArray[np.float32], spread: NDArray[np.float32]
) -> NDArray[np.float32]:
    """In degrees."""
    red, green, blue = np.moveaxis(values, -1, 0)
    sixths = np.where(
        light == red,
        (green - blue) / spread % 6,
        np.where(light == green, (blue - red) / spread + 2, (red - green) / spread + 4),
    )
    degrees: NDArray[np.float32] = (sixths * 60).astype(np.float32)
    return degrees


def _is_flat(pixels: NDArray[np.uint8]) -> bool:
    """Few different colours cover most of it."""
    coarse = pixels.astype(np.int64) >> 5
    codes = np.sort(np.bincount((coarse @ np.array([64, 8, 1])).ravel(), minlength=512))
    return bool(codes[-_FLAT_LEVELS:].sum() >= _FLAT_SHARE * codes.sum())


def _is_drawn(picture: Image.Image) -> bool:
    pixels = np.asarray(picture).astype(np.int16)
    steps = np.abs(np.diff(pixels, axis=1)).max(-1)
    return bool((steps <= _SAME_LEVELS).mean() >= _DRAWN_SHARE)


def _is_dark(pixels: NDArray[np.uint8]) -> bool:
    return bool(np.percentile(pixels.max(-1), 98) < _NIGHT)
