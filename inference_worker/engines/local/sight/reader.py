"""Reads text in pictures with the networks of PP-OCRv6."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from antiphon.inference_worker.engines.local.sight.files import (
    TEXT_DETECTOR,
    TEXT_RECOGNISER,
    load_network,
)
from antiphon.inference_worker.engines.local.sight.text_areas import Area, lines_of, text_areas

_STEP = 32
_LINE_HEIGHT = 48
_WIDEST_LINE = 1200
_LEAST_CERTAINTY, _LEAST_OF_SHORT = 0.75, 0.9
_SHORT = 2
"""Textures look like one or two letters sometimes."""
_INPUT = "x"


class ReadingLimits(NamedTuple):
    """`side`: larger pictures are scaled down to it; `areas`: the most words or lines that are read."""

    side: int
    areas: int


CAMERA = ReadingLimits(side=448, areas=6)
"""A frame of a call: larger ones would take too much of a core."""
PICTURE = ReadingLimits(side=960, areas=40)
"""A picture that is sent once."""


class Reader:
    """Finds and reads printed text that is about level, in English and Chinese."""

    def __init__(self) -> None:
        self._detector = load_network(TEXT_DETECTOR)
        self._recogniser = load_network(TEXT_RECOGNISER)
        known = self._recogniser.get_modelmeta().custom_metadata_map["character"]
        self._characters = ["", *known.split("\n"), " "]

    def read(self, picture: Image.Image, limits: ReadingLimits) -> tuple[str, ...]:
        """The lines of text from top to bottom. Of many, the largest are read."""
        scaled = picture.copy()
        scaled.thumbnail((limits.side, limits.side))
        height, width = scaled.height, scaled.width
        padded = Image.new("RGB", (-(-width // _STEP) * _STEP, -(-height // _STEP) * _STEP))
        padded.paste(scaled)
        [probabilities] = self._detector.run(None, {_INPUT: _network_input(padded)})
        areas = text_areas(probabilities[0, 0, :height, :width])
        areas = sorted(areas, key=lambda one: -one.height)[: limits.areas]
        lines = []
        scale = picture.width / width
        for line in lines_of(areas):
            words = [self._read_area(picture, area, scale) for area in line]
            if text := " ".join(filter(None, words)):
                lines.append(text)
        return tuple(lines)

    def _read_area(self, picture: Image.Image, area: Area, scale: float) -> str:
        """Cut from the picture in its full size: there the letters are sharper."""
        part = picture.crop(
            (
                round(area.left * scale),
                round(area.top * scale),
                round(area.right * scale),
                round(area.bottom * scale),
            )
        )
        width = max(8, min(_WIDEST_LINE, round(part.width * _LINE_HEIGHT / part.height)))
        line = part.resize((width, _LINE_HEIGHT), Image.Resampling.BILINEAR)
        [[shares]] = self._recogniser.run(None, {_INPUT: _network_input(line)})
        return self._decoded(shares)

    def _decoded(self, shares: NDArray[np.float32]) -> str:
        """The best character of each step; repetitions and blanks are left out."""
        best = shares.argmax(1)
        certainty = shares[np.arange(len(shares)), best]
        new = (best != 0) & (best != np.concatenate([[0], best[:-1]]))
        text = "".join(self._characters[place] for place in best[new]).strip()
        least = _LEAST_OF_SHORT if len(text) <= _SHORT else _LEAST_CERTAINTY
        return text if text and certainty[new].mean() >= least else ""


def _network_input(picture: Image.Image) -> NDArray[np.float32]:
    """[1, 3, height, width] in the order blue, green, red, from -1 to 1."""
    pixels = np.asarray(picture, dtype=np.float32)[..., ::-1] / 127.5 - 1.0
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[np.newaxis])
