"""Splits a video for a chat: an image per second, its audio, and a contact sheet of the frames between."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageOps

from antiphon.inference_worker.engines.common.video import (
    VideoBudget,
    VideoClip,
    VideoLimits,
    decode_video,
)
from antiphon.inference_worker.engines.minicpmo.preprocess.images import ImageSize, decode_image
from antiphon.shared_schemas.audio import INPUT_RATE, Samples

MAX_SEGMENTS = 64
"""Maximum number of segments; a longer video is split into segments of 2, 4, 8 ... seconds."""

MIN_CLIP_SAMPLES = 1600
"""Shorter audio yields no embedding."""

SHEET_GAP = 6
"""Black pixels between the frames of a contact sheet."""


@dataclass(frozen=True, slots=True, eq=False)
class VideoSegment:
    """One second of a video (or 2, 4, ...). `audio` is None in a silent video, `between` at one
    frame per second.
    """

    frame: Image.Image
    audio: Samples | None
    between: Image.Image | None


def read_video(
    data: bytes, stack_frames: int, budget: VideoBudget | None = None
) -> Iterator[VideoSegment]:
    """Split a video with `stack_frames` frames per second. Raises like `decode_video`."""
    limits = VideoLimits(frames=MAX_SEGMENTS * stack_frames)
    return _segments(decode_video(data, stack_frames, limits, budget=budget), stack_frames)


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


def _segments(clip: VideoClip, stack_frames: int) -> Iterator[VideoSegment]:
    seconds = _segment_seconds(clip.times[-1])
    keyed = zip((int(time // seconds) for time in clip.times), clip.frames, strict=True)
    groups = [
        (place * seconds, [frame for _, frame in group])
        for place, group in itertools.groupby(keyed, key=lambda one: one[0])
    ]
    sounds = _split_audio(clip.audio, [start for start, _ in groups[1:]])
    for (_, frames), sound in zip(groups, sounds, strict=True):
        first, *more = map(decode_image, frames[:stack_frames])
        yield VideoSegment(first, sound, contact_sheet(more) if more else None)


def _segment_seconds(last: float) -> int:
    """Length of a segment in seconds if the last frame is at time `last`."""
    seconds = 1
    while last / seconds >= MAX_SEGMENTS:
        seconds *= 2
    return seconds


def _split_audio(audio: Samples, cuts: list[int]) -> list[Samples] | list[None]:
    """The audio of each segment, padded with silence if it ends before the frames do."""
    if not len(audio):
        return [None] * (len(cuts) + 1)
    places = [cut * INPUT_RATE for cut in cuts]
    missing = max(0, max([0, *places]) + MIN_CLIP_SAMPLES - len(audio))
    return np.split(np.pad(audio, (0, missing)), places)


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
