"""What a session asks the engine for, one step at a time, and which steps may run together.

A session is written as generators that yield steps and receive results, so the code of one
conversation reads from top to bottom while the engine batches the steps of all of them.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from torch import Tensor

    from antiphon.inference_worker.engines.minicpmo.sampler import Row
    from antiphon.inference_worker.engines.minicpmo.speech_sampler import CodeRow

T = TypeVar("T")

SHARED_TOKENS = 32
"""Longer pieces run alone: they fill the device by themselves."""


def bucket(count: int) -> int:
    """The power of two that holds `count`."""
    return 1 << max(0, count - 1).bit_length()


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One request; steps with equal `group` may share a batch, None runs alone."""

    @property
    def group(self) -> Hashable | None:
        """What the step can share a batch with."""
        return type(self).__name__


@dataclass(frozen=True, slots=True, eq=False)
class Feed(Step):
    """Append ids and embeddings (n, width) at `start`; answered by Fed, for the last of them."""

    slot: int
    start: int
    pieces: tuple[Tensor | tuple[int, ...], ...]
    want_logits: bool = True

    @property
    def size(self) -> int:
        """Tokens appended."""
        return sum(len(piece) for piece in self.pieces)

    @property
    def group(self) -> Hashable | None:
        """Together with pieces of about the same length."""
        return ("feed", bucket(self.size)) if self.size <= SHARED_TOKENS else None


@dataclass(frozen=True, slots=True, eq=False)
class Reread(Feed):
    """A feed of what was heard and said before; answered by the hidden states of all of it, (n, width)."""

    @property
    def group(self) -> Hashable | None:
        """Alone: it is as long as many units."""
        return None


@dataclass(frozen=True, slots=True)
class Fed:
    """The last token's final hidden state (width,) and logits (vocabulary,), None if not wanted."""

    hidden: Tensor
    logits: Tensor | None


@dataclass(frozen=True, slots=True, eq=False)
class Choose(Step):
    """Choose a token from `logits`; answered by Chosen."""

    logits: Tensor
    row: Row


@dataclass(frozen=True, slots=True, eq=False)
class ChooseWord(Step):
    """Choose a token of a written answer, by plain sampling; answered by Chosen."""

    logits: Tensor
    row: Row


@dataclass(frozen=True, slots=True, eq=False)
class Hear(Step):
    """Encode one streamed mel chunk at `start` of the audio cache; answered by (10, width)."""

    slot: int
    start: int
    mel: Tensor
    leading_frames: int = 0
    trailing_frames: int = 0

    @property
    def size(self) -> int:
        """Positions of the audio cache it takes: half the frames, less the redundant ones."""
        dropped = -(-self.leading_frames // 2) + -(-self.trailing_frames // 2)
        return (self.mel.shape[1] + 1) // 2 - dropped

    @property
    def group(self) -> Hashable | None:
        """Together with chunks of the same size."""
        return ("hear", self.size)


@dataclass(frozen=True, slots=True, eq=False)
class HearClips(Step):
    """Encode whole clips of log-mel; answered by a list of (n, width)."""

    mels: list[Tensor]
    full_attention: bool = False

    @property
    def group(self) -> Hashable | None:
        """Alone: a clip's tail depends on what it is padded to."""
        return None


@dataclass(frozen=True, slots=True, eq=False)
class See(Step):
    """Encode the parts of pictures; answered by (parts, 64, width)."""

    pixels: list[Tensor]
    grids: list[tuple[int, int]]

    @property
    def group(self) -> Hashable | None:
        """Alone: a picture of a thousand patches fills the device."""
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Condition(Step):
    """The speech model's condition for text tokens and their states; answered by (n + 1, width).

    After it come the embeddings of `codes`, for speech that was made before.
    """

    tokens: list[int]
    states: list[Tensor]
    codes: tuple[int, ...] = ()

    @property
    def group(self) -> Hashable | None:
        """Alone: two small matrix products."""
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Utter(Step):
    """Feed a condition (n, width) or the last code at `start`; answered by the next code."""

    slot: int
    start: int
    what: Tensor | int
    row: CodeRow

    @property
    def size(self) -> int:
        """Positions appended."""
        return 1 if isinstance(self.what, int) else len(self.what)

    @property
    def group(self) -> Hashable | None:
        """Together with pieces of about the same length."""
        return ("utter", bucket(self.size))


@dataclass(frozen=True, slots=True, eq=False)
class Shift(Step):
    """Move `count` entries of a slot's context and turn their keys; answered by None."""

    slot: int
    source: int
    target: int
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class Clear(Step):
    """Erase everything a slot holds; answered by None."""

    slot: int


Steps = Generator[Step, Any, T]
"""A session's generator: yields steps, receives their answers, returns T."""
