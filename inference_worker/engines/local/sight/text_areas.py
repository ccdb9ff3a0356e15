"""Where text stands in a picture: the connected areas of a map of probabilities."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
