"""How one session hears: samples wait until a second is full, then go through the audio encoder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from antiphon.inference_worker.engines.minicpmo.mel import MelStream
from antiphon.inference_worker.engines.minicpmo.steps import Hear, Steps

if TYPE_CHECKING:
    from torch import Tensor

    from antiphon.shared_schemas.audio import Samples


@dataclass(slots=True, kw_only=True)
class Ears:
    """The audio side of a session; `position` is how much of the audio cache it fills.

    Duplex trims what comes from redundant mel frames after the convolutions; half-duplex does not.
    """

    slot: int
    capacity: int
    stream: MelStream = field(default_factory=MelStream)
    trims: bool = True
    position: int = 0

    def listen(self, samples: Samples) -> Tensor | None:
        """Take in samples; a chunk of log-mel when a second is full."""
        self.stream.push(samples)
        return self.stream.take() if self.stream.ready else None

    def hear(self, mel: Tensor) -> Steps[Tensor]:
        """Ten embeddings for a chunk of log-mel (80, frames)."""
        if self.position + (mel.shape[1] - 1) // 2 + 1 >= self.capacity:
            self.position = 0  # the table of positions is used up: all that was heard is forgotten
        step = self._step(mel)
        heard: Tensor = yield step
        self.position += step.size
        return heard

    def _step(self, mel: Tensor) -> Hear:
        if not self.trims:
            return Hear(self.slot, self.position, mel)
        redundant = self.stream.shape.redundant_frames
        leading = mel.shape[1] - self.stream.shape.core_frames - redundant
        return Hear(self.slot, self.position, mel, leading, redundant)
