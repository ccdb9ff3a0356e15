"""Looking at pictures: a few parts in a step, so that the other sessions have their turn between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from antiphon.inference_worker.engines.minicpmo.images import Picture
from antiphon.inference_worker.engines.minicpmo.steps import See, Steps

if TYPE_CHECKING:
    from torch import Tensor

PARTS_PER_STEP = 16
"""As many as the reference looks at together; each is up to a thousand patches."""


def look(pictures: Sequence[Picture]) -> Steps[list[Tensor]]:
    """Embeddings (64, width) of every part of every picture, in order."""
    pixels = [part for picture in pictures for part in picture.pixels]
    grids = [grid for picture in pictures for grid in picture.grids]
    seen: list[Tensor] = []
    for at in range(0, len(pixels), PARTS_PER_STEP):
        portion = slice(at, at + PARTS_PER_STEP)
        seen += yield See(pixels[portion], grids[portion])
    return seen
