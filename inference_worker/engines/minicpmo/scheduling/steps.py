"""The steps that a session requests from the engine, and which of them may share a batch.

A session is written as generators that yield steps and receive results. The code of one
conversation reads from top to bottom, while the engine batches the steps of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from antiphon.inference_worker.engines.minicpmo.scheduling.cuda_graphs import (
    MAX_BATCHED_TOKENS,
    bucket,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import (
    CodeRow,
    SampledToken,
    SamplingSettings,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.token_choice import TokenRow

if TYPE_CHECKING:
    from torch import Tensor


T = TypeVar("T")

MAX_RAGGED_TOKENS = 128
"""The same for ragged batches. A second of audio with a picture has 77 tokens, and a long prompt has portions
of this size, which share the batches of other sessions.
"""

MAX_STEP_TOKENS = 512
"""Tokens of a ragged batch. More would delay every session in it by more than reading the weights."""

MAX_AUDIO_ROWS = 16
"""Sessions whose audio is encoded together. Attention copies their caches, 6 MiB each."""

MAX_PICTURES = 2
"""Slices that are encoded together, of one session or two. The values of a graph of three would exceed the
memory that is counted for graphs.
"""

MAX_CLIPS = 4
"""Clips of up to 30 s that are encoded together."""

PICTURE_PATCHES = 1088
"""Patches that these are padded to in a CUDA graph. A slice has 1024, and up to 6 % more by rounding."""

CODES_PER_STEP = 2
"""Codes that are drawn without the host in between. More would delay the steps of other sessions."""

CODES_BESIDE = 5
"""The same on a separate stream, where they run beside a step of the language model."""


@dataclass(frozen=True, slots=True, eq=False)
class EngineStep:
    """One request. Steps with equal `group` may share a batch; None runs alone."""

    batchable: ClassVar[bool] = True
    draws_codes: ClassVar[bool] = False
    """Whether the step may run on the stream of the speech model, beside steps of other sessions."""

    @property
    def group(self) -> Hashable | None:
        return type(self).__name__ if self.batchable else None

    @property
    def share(self) -> float:
        """The part of a batch that the step takes, of those limits that the number of slots is not."""
        return 0.0

    def patience(self, now: float) -> int:  # noqa: ARG002
        """Steps with less go first; `now` is the engine's clock in seconds. Any step may join a batch."""
        return 0


@dataclass(frozen=True, slots=True, eq=False)
class TokenStep(EngineStep):
    """Append `size` tokens to a cache of `slot` from `start` on.

    In a padded batch, feeds of similar length share a batch; in a ragged one, of any length.
    """

    slot: int
    start: int

    @property
    def size(self) -> int:
        raise NotImplementedError

    @property
    def group(self) -> Hashable | None:
        if not self.batchable or self.size > MAX_BATCHED_TOKENS:
            return None
        return (type(self).__name__, bucket(self.size))

    @property
    def ragged_group(self) -> Hashable | None:
        if not self.batchable or self.size > MAX_RAGGED_TOKENS:
            return None
        return type(self).__name__


@dataclass(frozen=True, slots=True, eq=False)
class Feed(TokenStep):
    """Append ids and embeddings (n, width); returns the FeedResult of the last token.

    With `draw`, the token that follows is drawn in the same step.
    """

    pieces: tuple[Tensor | tuple[int, ...], ...]
    want_logits: bool = True
    draw: TokenRow | None = None

    @property
    def size(self) -> int:
        return sum(len(piece) for piece in self.pieces)


@dataclass(frozen=True, slots=True, eq=False)
class FeedForStates(Feed):
    """A feed that returns the hidden states of all its tokens, (n, width); used for recovery."""

    # Runs alone: it is as long as many units.
    batchable: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class FeedResult:
    """Final hidden state (width,) and logits (vocabulary,) of the last token, and the token that was
    drawn after it; None if not requested.
    """

    hidden: Tensor
    logits: Tensor | None
    drawn: SampledToken | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SampleToken(EngineStep):
    """Draw a token from `logits` (vocabulary,) of an earlier step; returns a SampledToken."""

    logits: Tensor
    row: TokenRow


@dataclass(frozen=True, slots=True, eq=False)
class RankTokens(EngineStep):
    """The tokens that may follow each beam of a session, by the `logits` (vocabulary,) of each beam and
    the tokens `said` in it; returns RankedTokens.
    """

    logits: Sequence[Tensor]
    said: Sequence[Sequence[int]]
    settings: SamplingSettings

    # Runs alone: the history and the candidates of each beam have their own length.
    batchable: ClassVar[bool] = False


class AudioFrames(NamedTuple):
    """Mel frames of a chunk of audio, with the redundant ones on both sides."""

    all: int
    leading: int
    trailing: int


UNIT_FRAMES = AudioFrames(104, 2, 2)
"""Of every unit but the first. Their convolutions have a CUDA graph."""


@dataclass(frozen=True, slots=True, eq=False)
class EncodeAudio(EngineStep):
    """Encode one streamed mel chunk at `start` of the audio cache; returns (10, width)."""

    slot: int
    start: int
    mel: Tensor
    leading_frames: int = 0
    trailing_frames: int = 0

    @property
    def frames(self) -> AudioFrames:
        return AudioFrames(self.mel.shape[1], self.leading_frames, self.trailing_frames)

    @property
    def size(self) -> int:
        """Positions in the audio cache: half the frames, without the redundant ones."""
        dropped = -(-self.leading_frames // 2) + -(-self.trailing_frames // 2)
        return (self.mel.shape[1] + 1) // 2 - dropped

    @property
    def group(self) -> Hashable | None:
        return (type(self).__name__, self.size)

    @property
    def share(self) -> float:
        return 1 / MAX_AUDIO_ROWS


@dataclass(frozen=True, slots=True, eq=False)
class EncodeClips(EngineStep):
    """Encode whole clips of log-mel, padded to at least so many `frames`; returns a list of (n, width)."""

    mels: Sequence[Tensor]
    frames: int = 0
    full_attention: bool = False

    # Runs alone: the end of a clip depends on its padding.
    batchable: ClassVar[bool] = False


@dataclass(frozen=True, slots=True, eq=False)
class EncodeImages(EngineStep):
    """Encode image slices; returns (slices, 64, width)."""

    pixels: list[Tensor]
    grids: list[tuple[int, int]]

    @property
    def group(self) -> Hashable | None:
        return type(self).__name__ if len(self.grids) <= MAX_PICTURES else None

    @property
    def share(self) -> float:
        return len(self.grids) / MAX_PICTURES


@dataclass(frozen=True, slots=True, eq=False)
class SpeechCondition(EngineStep):
    """Compute the condition of the speech model from text tokens and their states; returns (n + 1, width).

    The embeddings of `codes` follow it, for speech that exists already. With `text_ends` it has one
    more row: the mark for the end of the text.
    """

    tokens: list[int]
    states: list[Tensor]
    codes: tuple[int, ...] = ()
    text_ends: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class DecodeSpeech(TokenStep):
    """Feed a condition (n, width); returns the first code after it."""

    draws_codes: ClassVar[bool] = True
    condition: Tensor
    row: CodeRow

    @property
    def size(self) -> int:
        return len(self.condition)


@dataclass(frozen=True, slots=True, eq=False)
class DecodeCodes(TokenStep):
    """Feed a code, and draw as many codes as there are `draws`, each from the one before it; returns
    them. The end cannot be drawn in the first `held` draws. Nothing stops at the end: the entries and
    codes after it are to be ignored.
    """

    draws_codes: ClassVar[bool] = True
    code: int
    row: CodeRow
    """Its codes end with `code`. Its own draw is not used."""

    draws: tuple[float, ...]
    held: int = 0
    due: float = 0.0
    """When the codes begin to be urgent, by the engine's clock."""
    stopped: Callable[[], bool] = lambda: False
    """Whether the answer ends with this step, for which its reader waits."""

    def patience(self, now: float) -> int:
        return int(now < self.due and not self.stopped())

    @property
    def size(self) -> int:
        return len(self.draws)

    @property
    def group(self) -> Hashable:
        return (type(self).__name__, self.size)

    @property
    def ragged_group(self) -> Hashable:
        return self.group


@dataclass(frozen=True, slots=True, eq=False)
class ShiftCache(EngineStep):
    """Move `count` entries of a slot's context and rotate their keys; returns None."""

    slot: int
    source: int
    target: int
    count: int

    # Runs alone: without memory for another session, the caches of a batch would have moved unnoticed.
    batchable: ClassVar[bool] = False


@dataclass(frozen=True, slots=True, eq=False)
class ClearSlot(EngineStep):
    """Erase the contents of a slot; returns None."""

    slot: int


Steps = Generator[EngineStep, Any, T]
"""The generator of a session: yields steps, receives their results, returns T."""
