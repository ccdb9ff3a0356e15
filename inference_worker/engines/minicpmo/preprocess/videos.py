"""Splits a video for a chat: an image per second, its audio, and a contact sheet of the frames between."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from PIL import Image, ImageOps

from antiphon.inference_worker.engines.common.video import (
    InvalidVideo,
    VideoBudget,
    frames_at,
    read_track,
)
from antiphon.inference_worker.engines.minicpmo.preprocess.images import ImageSize
from antiphon.shared_schemas.audio import INPUT_RATE, Samples

MAX_SEGMENTS = 64
"""Maximum number of segments. They are one second long in a video of at most so many seconds."""

MIN_CLIP_SAMPLES = 1600
"""Shorter audio yields no embedding."""

SHEET_GAP = 6
"""Black pixels between the frames of a contact sheet."""

_ROUNDING_S = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class VideoSegment:
    """One second of a video, or more of a long one.

    `audio` is None in a silent video, and empty where the sound has ended. `between` is None if the
    segment has one frame.
    """

    frame: Image.Image
    audio: Samples | None
    between: Image.Image | None


def read_video(
    data: bytes, stack_frames: int, budget: VideoBudget | None = None
) -> Iterator[VideoSegment]:
    """Split a video with `stack_frames` frames per segment. Raises like `read_track`."""
    budget = budget or VideoBudget()
    track = read_track(data, budget)
    starts = segment_starts(track.seconds)
    segment_of = dict(_frame_times(starts, track.seconds, stack_frames))
    shown = frames_at(data, segment_of, budget)
    before: tuple[float, list[Image.Image]] | None = None
    for place, group in groupby(shown, key=lambda one: segment_of[one[0]]):
        if before is not None:
            yield _segment(*before, starts[place], track.audio)
        before = starts[place], [picture for _, picture in group]
    if before is None:
        raise InvalidVideo("the video has no frames")
    yield _segment(*before, None, track.audio)


def segment_starts(seconds: float) -> list[float]:
    """The start of each segment of a video of this length, at least one."""
    if seconds <= MAX_SEGMENTS:
        return [float(second) for second in range(max(1, math.ceil(seconds - _ROUNDING_S)))]
    tenths = int(seconds / 0.1)
    return [round(int(tenth) * 0.1, 1) for tenth in np.linspace(0, tenths - 1, MAX_SEGMENTS)]


def contact_sheet(pictures: list[Image.Image]) -> Image.Image:
    """Frames side by side in cells of equal size: two or three as close to a square as possible,
    four as 2 x 2.
    """
    cell = max(p.width for p in pictures), max(p.height for p in pictures)
    columns, rows = _grid(len(pictures), cell)
    canvas = Image.new("RGB", _extent((columns, rows), cell))
    for index, picture in enumerate(pictures):
        row, column = divmod(index, columns)
        fitted = ImageOps.pad(picture, cell, Image.Resampling.BICUBIC, color="white")
        canvas.paste(fitted, (column * (cell[0] + SHEET_GAP), row * (cell[1] + SHEET_GAP)))
    return canvas


def _frame_times(
    starts: list[float], seconds: float, stack_frames: int
) -> Iterator[tuple[float, int]]:
    """The time of each frame, and its segment."""
    last = max(starts[-1] + 1, seconds) if seconds <= MAX_SEGMENTS else seconds
    for place, (start, end) in enumerate(zip(starts, [*starts[1:], last], strict=True)):
        for step in range(stack_frames):
            time = start + step / stack_frames * (end - start)
            if step == 0 or time < seconds:
                yield time, place


def _segment(
    start: float, pictures: list[Image.Image], end: float | None, audio: Samples
) -> VideoSegment:
    """The last segment (`end` is None) has all of the remaining audio, and enough for an embedding."""
    sheet = contact_sheet(pictures[1:]) if len(pictures) > 1 else None
    if not len(audio):
        return VideoSegment(pictures[0], None, sheet)
    sound = audio[int(start * INPUT_RATE) : None if end is None else int(end * INPUT_RATE)]
    if end is None:
        sound = np.pad(sound, (0, max(0, MIN_CLIP_SAMPLES - len(sound))))
    return VideoSegment(pictures[0], sound, sheet)


def _grid(count: int, cell: ImageSize) -> ImageSize:
    if count == 4:  # two rows of two
        return 2, 2
    row, column = (count, 1), (1, count)
    if count > 3:  # the model was trained on columns of up to three
        return row
    return min(row, column, key=lambda grid: _off_square(_extent(grid, cell)))


def _off_square(size: ImageSize) -> float:
    return abs(size[0] / size[1] - 1)


def _extent(grid: ImageSize, cell: ImageSize) -> ImageSize:
    (columns, rows), (width, height) = grid, cell
    return columns * (width + SHEET_GAP) - SHEET_GAP, rows * (height + SHEET_GAP) - SHEET_GAP
