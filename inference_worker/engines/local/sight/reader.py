"""Reads text in pictures with the networks of PP-OCRv6: one finds its areas, one reads a line."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from antiphon.inference_worker.engines.local.sight.files import (
    TEXT_DETECTOR,
    TEXT_RECOGNISER,
    load_network,
)

_STEP = 32
_LINE_HEIGHT = 48
_WIDEST_LINE = 1200
_LEAST_CERTAINTY, _LEAST_OF_SHORT = 0.75, 0.9
_SHORT = 2
"""Textures look like one or two letters sometimes."""
_MOST_CHARACTERS, _MOST_LENGTH = 200, 150
"""How much of a text is read: more than is ever said of it. The length is in heights of lines."""
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
        """The lines of text from top to bottom. Of many, the largest are read, and of a page its beginning."""
        scaled = picture.copy()
        scaled.thumbnail((limits.side, limits.side))
        height, width = scaled.height, scaled.width
        padded = Image.new("RGB", (-(-width // _STEP) * _STEP, -(-height // _STEP) * _STEP))
        padded.paste(scaled)
        [probabilities] = self._detector.run(None, {_INPUT: _network_input(padded)})
        areas = text_areas(probabilities[0, 0, :height, :width])
        areas = sorted(areas, key=lambda one: -one.height)[: limits.areas]
        lines: list[str] = []
        scale, length = picture.width / width, 0.0
        for line in lines_of(areas):
            if length > _MOST_LENGTH or sum(map(len, lines)) > _MOST_CHARACTERS:
                break
            length += sum(area.length for area in line)
            words = [self._read_area(picture, area, scale) for area in line]
            if text := " ".join(filter(None, words)):
                lines.append(text)
        return tuple(lines)

    def _read_area(self, picture: Image.Image, area: "Area", scale: float) -> str:
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


_THRESHOLD, _MEAN = 0.3, 0.5
_GROW = 1.6
_LEAST_SIDE = 3
_MOST_RUNS = 20_000
_SAME_LINE = 0.5
"""Areas are in one line if they share this part of the lower one's height."""


class Area(NamedTuple):
    """In pixels; `bottom` and `right` are not part of it."""

    top: int
    left: int
    bottom: int
    right: int

    @property
    def height(self) -> int:
        return self.bottom - self.top

    @property
    def length(self) -> float:
        """In heights."""
        return (self.right - self.left) / self.height


def text_areas(probabilities: NDArray[np.float32]) -> list[Area]:
    """The areas of a map [height, width], grown to the size of the letters."""
    areas = []
    for area in _connected(probabilities > _THRESHOLD):
        part = probabilities[area.top : area.bottom, area.left : area.right]
        if min(part.shape) >= _LEAST_SIDE and part.mean() >= _MEAN:
            areas.append(_grown(area, probabilities.shape))
    return areas


def lines_of(areas: list[Area]) -> list[list[Area]]:
    """Areas in the order of reading, line by line."""
    lines: list[list[Area]] = []
    for area in sorted(areas, key=lambda one: one.top + one.bottom):
        for line in lines:
            shared = min(area.bottom, line[0].bottom) - max(area.top, line[0].top)
            if shared > _SAME_LINE * min(area.height, line[0].height):
                line.append(area)
                break
        else:
            lines.append([area])
    return [sorted(line, key=lambda one: one.left) for line in lines]


def _grown(area: Area, shape: tuple[int, ...]) -> Area:
    """The network marks the middle of the letters only."""
    width = area.right - area.left
    more = round(_GROW * area.height * width / (2 * (area.height + width)))
    return Area(
        max(0, area.top - more),
        max(0, area.left - more),
        min(shape[0], area.bottom + more),
        min(shape[1], area.right + more),
    )


def _connected(marked: NDArray[np.bool_]) -> list[Area]:
    """The boxes around connected areas, from the runs of marked pixels in each row."""
    edges = np.diff(marked.astype(np.int8), axis=1, prepend=0, append=0)
    rows, starts = (places.tolist() for places in np.nonzero(edges == 1))
    ends = np.nonzero(edges == -1)[1].tolist()
    if len(rows) > _MOST_RUNS:  # no text looks like this, and it would take long
        return []
    runs = _Runs(len(rows))
    above = 0
    for place, (row, start, end) in enumerate(zip(rows, starts, ends, strict=True)):
        while rows[above] < row - 1 or (rows[above] == row - 1 and ends[above] < start):
            above += 1
        other = above
        while rows[other] == row - 1 and starts[other] <= end:
            runs.join(other, place)
            other += 1
    boxes: dict[int, Area] = {}
    for place, (row, start, end) in enumerate(zip(rows, starts, ends, strict=True)):
        root = runs.root(place)
        box = boxes.get(root, Area(row, start, row + 1, end))
        boxes[root] = Area(box.top, min(box.left, start), row + 1, max(box.right, end))
    return list(boxes.values())


class _Runs:
    """Which runs are connected."""

    def __init__(self, count: int) -> None:
        self._parents = list(range(count))

    def root(self, place: int) -> int:
        parents = self._parents
        while parents[place] != place:
            parents[place] = parents[parents[place]]
            place = parents[place]
        return place

    def join(self, one: int, other: int) -> None:
        self._parents[self.root(one)] = self.root(other)
