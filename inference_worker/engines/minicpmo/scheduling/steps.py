"""What a session asks the engine for, one step at a time, and which steps may run together.

A session is written as generators that yield steps and receive results, so the code of one
conversation reads from top to bottom while the engine batches the steps of all of them.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from torch import Tensor


T = TypeVar("T")

MAX_BATCHED_TOKENS = 32
"""Longer pieces run alone: they fill the device by themselves."""


MAX_DRAWS = 26
"""Draws per unit; the last is never spoken, so a unit has at most 25 codes: one second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingSettings:
    """How one session chooses. `top_k` and `top_p` of 0 are off, `repetition_window` 0 is everything."""

    greedy: bool = False
    temperature: float = 0.7
    top_k: int = 20
    top_p: float = 0.8
    listen_prob_scale: float = 1.0
    listen_top_k: int | None = None
    repetition_penalty: float = 1.05
    repetition_window: int = 512
    length_penalty: float = 1.1


@dataclass(frozen=True, slots=True)
class TokenRow:
    """One session's wish: its settings, what it chose so far, and two uniform draws in [0, 1)."""

    settings: SamplingSettings
    history: Sequence[int]
    draws: tuple[float, float] = (0.0, 0.0)

    @property
    def recent(self) -> list[int]:
        """The distinct ids that the repetition penalty looks at."""
        window = self.settings.repetition_window
        return sorted(set(self.history[-window:] if window else self.history))


@dataclass(frozen=True, slots=True)
class SampledToken:
    """A token, and whether it belongs into the history."""

    token: int
    recorded: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechSettings:
    """How codes are drawn."""

    greedy: bool = False
    temperature: float = 0.8
    repetition_penalty: float = 1.05


@dataclass(frozen=True, slots=True)
class CodeRow:
    """One session's wish: its settings, this unit's codes, whether the end is allowed, a draw."""

    settings: SpeechSettings
    codes: Sequence[int]
    may_end: bool
    draw: float = 0.0


def bucket(count: int) -> int:
    """The power of two that holds `count`."""
    return 1 << max(0, count - 1).bit_length()


@dataclass(frozen=True, slots=True, eq=False)
class EngineStep:
    """One request; steps with equal `group` may share a batch, None runs alone."""

    @property
    def group(self) -> Hashable | None:
        """What the step can share a batch with."""
        return type(self).__name__


@dataclass(frozen=True, slots=True, eq=False)
class Feed(EngineStep):
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
        return ("feed", bucket(self.size)) if self.size <= MAX_BATCHED_TOKENS else None


@dataclass(frozen=True, slots=True, eq=False)
class FeedForStates(Feed):
    """A feed of what was heard and said before; answered by the hidden states of all of it, (n, width)."""

    @property
    def group(self) -> Hashable | None:
        """Alone: it is as long as many units."""
        return None


@dataclass(frozen=True, slots=True)
class FeedResult:
    """The last token's final hidden state (width,) and logits (vocabulary,), None if not wanted."""

    hidden: Tensor
    logits: Tensor | None


@dataclass(frozen=True, slots=True, eq=False)
class SampleToken(EngineStep):
    """Choose a token from `logits`; answered by Chosen."""

    logits: Tensor
    row: TokenRow


@dataclass(frozen=True, slots=True, eq=False)
class SampleWrittenToken(EngineStep):
    """Choose a token of a written answer, by plain sampling; answered by Chosen."""

    logits: Tensor
    row: TokenRow


@dataclass(frozen=True, slots=True, eq=False)
class EncodeAudio(EngineStep):
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
class EncodeClips(EngineStep):
    """Encode whole clips of log-mel; answered by a list of (n, width)."""

    mels: list[Tensor]
    full_attention: bool = False

    @property
    def group(self) -> Hashable | None:
        """Alone: a clip's tail depends on what it is padded to."""
        return None


@dataclass(frozen=True, slots=True, eq=False)
class EncodeImages(EngineStep):
    """Encode the parts of pictures; answered by (parts, 64, width)."""

    pixels: list[Tensor]
    grids: list[tuple[int, int]]

    @property
    def group(self) -> Hashable | None:
        """Alone: a picture of a thousand patches fills the device."""
        return None


@dataclass(frozen=True, slots=True, eq=False)
class SpeechCondition(EngineStep):
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
class DecodeSpeech(EngineStep):
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
class ShiftCache(EngineStep):
    """Move `count` entries of a slot's context and turn their keys; answered by None."""

    slot: int
    source: int
    target: int
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class ClearSlot(EngineStep):
    """Erase everything a slot holds; answered by None."""

    slot: int


Steps = Generator[EngineStep, Any, T]
"""A session's generator: yields steps, receives their answers, returns T."""
