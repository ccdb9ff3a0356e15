"""Turns images into patches: choose a grid of slices, resize, lay the patches in a row."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.config import SliceConfig

ImageSize = tuple[int, int]
"""Width and height."""


@dataclass(frozen=True, slots=True)
class SlicedImage:
    """An overview and the slices of one image, each (3, 14, 14 * patches) with its (rows, columns)."""

    pixels: list[Tensor]
    grids: list[tuple[int, int]]
    columns: int
    """Slices per row, 0 without slices."""


def slice_image(image: Image.Image, settings: SliceConfig, max_slices: int) -> SlicedImage:
    """Cut `image` into at most `max_slices` slices: the overview first, then slices row by row."""
    grid = choose_grid(image.size, max_slices, settings.scale_resolution)
    parts = [
        image.resize(_fit(image.size, settings, enlarge=grid is None), Image.Resampling.BICUBIC)
    ]
    if grid is not None:
        parts += _cells(image, grid, settings)
    patch = settings.patch_size
    return SlicedImage(
        pixels=[_patches(part, patch) for part in parts],
        grids=[(part.height // patch, part.width // patch) for part in parts],
        columns=0 if grid is None else grid[0],
    )


def choose_grid(size: ImageSize, max_slices: int, scale: int) -> ImageSize | None:
    """Columns and rows of the grid with the closest aspect; None for no slices."""
    width, height = size
    wanted = min(math.ceil(width * height / (scale * scale)), max_slices)
    if wanted <= 1:
        return None
    counts = [n for n in (wanted - 1, wanted, wanted + 1) if n != 1 and n <= max_slices]
    grids = [(c, n // c) for n in counts for c in range(1, n + 1) if n % c == 0]
    aspect = math.log(width / height)
    return min(grids, key=lambda grid: abs(aspect - math.log(grid[0] / grid[1])))


def _fit(size: ImageSize, settings: SliceConfig, *, enlarge: bool) -> ImageSize:
    width, height = size
    scale = settings.scale_resolution
    if enlarge or width * height > scale * scale:
        ratio = width / height
        height = int(scale / math.sqrt(ratio))
        width = int(height * ratio)
    return _to_patch(width, settings.patch_size), _to_patch(height, settings.patch_size)


def _to_patch(length: float, patch: int) -> int:
    return max(round(length / patch) * patch, patch)


def _cells(image: Image.Image, grid: ImageSize, settings: SliceConfig) -> list[Image.Image]:
    columns, rows = grid
    cell = (_to_patch(image.width, columns) / columns, _to_patch(image.height, rows) / rows)
    width, height = _fit((int(cell[0]), int(cell[1])), settings, enlarge=True)
    whole = image.resize((width * columns, height * rows), Image.Resampling.BICUBIC)
    return [
        whole.crop((c * width, r * height, (c + 1) * width, (r + 1) * height))
        for r in range(rows)
        for c in range(columns)
    ]


def _patches(image: Image.Image, patch: int) -> Tensor:
    """Pixels in [-1, 1], patches row-major along the last axis: (3, patch, patch * count)."""
    pixels = torch.from_numpy(np.asarray(image, dtype=np.float32)) / 255.0
    height, width = pixels.shape[:2]
    tiles = pixels.view(height // patch, patch, width // patch, patch, 3)
    strip = tiles.permute(4, 1, 0, 2, 3).reshape(3, patch, -1)
    return (strip - 0.5) / 0.5
