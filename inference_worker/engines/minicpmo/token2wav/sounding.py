"""What the two families of releases do differently: their vocoders, and how a voice's codes are led out."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Protocol

from torch import Tensor

HOP = 480
"""Samples of a frame of mel."""


class Sounding(Protocol):
    """Mel to sound for several streams. A stream's memory is of the family's own type."""

    def prompted(self, codes: Tensor, lookahead: int) -> Tensor:
        """A reference's codes (1, n) and what its last ones look ahead to."""

    def kept_codes(self, entries: Tensor, prompt: int) -> Tensor:
        """What the encoder keeps at 25 entries a second for a voice of `prompt` frames."""

    def nothing(self) -> Any:
        """The memory of a stream that has not sounded."""

    def kind(self, memory: Any) -> Hashable:
        """Equal for memories that can share a batch."""

    def sound(
        self, mel: Tensor, memories: Sequence[Any], *, ends: bool
    ) -> tuple[Tensor, list[Any]]:
        """Sound (streams, samples) of mel (streams, mels, frames), and the memories after it."""
