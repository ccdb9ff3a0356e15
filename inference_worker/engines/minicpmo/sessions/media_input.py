"""Audio and images of a session: samples wait for a full second, images are encoded in portions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.preprocess.images import SlicedImage
from antiphon.inference_worker.engines.minicpmo.preprocess.mel import MelStream
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    EncodeAudio,
    EncodeImages,
    Steps,
)
from antiphon.shared_schemas.audio import Samples

SLICES_PER_STEP = 16
"""Slices of one step, as in the reference; each has up to a thousand patches. Other sessions run
between steps.
"""


@dataclass(slots=True, kw_only=True)
class AudioInput:
    """The audio stream of a session; `position` is the length of its audio cache.

    Duplex drops the steps of redundant mel frames after the convolutions; half-duplex does not.
    """

    slot: int
    capacity: int
    stream: MelStream = field(default_factory=MelStream)
    trims: bool = True
    position: int = 0

    def push(self, samples: Samples) -> Tensor | None:
        """Append samples; returns a chunk of log-mel when a second is complete."""
        self.stream.push(samples)
        return self.stream.take() if self.stream.ready else None

    def encode(self, mel: Tensor) -> Steps[Tensor]:
        """Ten embeddings of a chunk of log-mel (80, frames)."""
        if self.position + (mel.shape[1] - 1) // 2 + 1 >= self.capacity:
            self.position = 0  # the position table is used up: forget all audio so far
        step = self._step(mel)
        embeds: Tensor = yield step
        self.position += step.size
        return embeds

    def _step(self, mel: Tensor) -> EncodeAudio:
        if not self.trims:
            return EncodeAudio(self.slot, self.position, mel)
        redundant = self.stream.shape.redundant_frames
        leading = mel.shape[1] - self.stream.shape.core_frames - redundant
        return EncodeAudio(self.slot, self.position, mel, leading, redundant)


def encode_images(images: Sequence[SlicedImage]) -> Steps[list[Tensor]]:
    """Embeddings (64, width) of every slice of every image, in order."""
    pixels = [part for image in images for part in image.pixels]
    grids = [grid for image in images for grid in image.grids]
    seen: list[Tensor] = []
    for at in range(0, len(pixels), SLICES_PER_STEP):
        portion = slice(at, at + SLICES_PER_STEP)
        seen += yield EncodeImages(pixels[portion], grids[portion])
    return seen
