"""The steps that a session requests from the engine, and which of them may share a batch.

A session is written as generators that yield steps and receive results. The code of one
conversation reads from top to bottom, while the engine batches the steps of all of them.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from antiphon.inference_worker.engines.minicpmo.scheduling.token_history import RecentTokens

if TYPE_CHECKING:
    from torch import Tensor


T = TypeVar("T")

MAX_BATCHED_TOKENS = 32
"""Longer pieces run alone in padded batches: each fills the device."""

MAX_RAGGED_TOKENS = 128
"""The same for ragged batches. A second of audio with a picture has 77 tokens."""

MAX_STEP_TOKENS = 512
"""Tokens of a ragged batch. More would delay every session in it by more than reading the weights."""

CODES_PER_STEP = 2
"""Codes that are drawn without the host in between. More would delay the steps of other sessions."""

CODES_BESIDE = 5
"""The same on a separate stream, where they run beside a step of the language model."""

BEAMS = 3
CANDIDATES = 9
"""Continuations per step of a beam search: a beam may end in two ways, and three have to continue."""

RankedTokens = tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]
"""Scores and ids (beams, n) of the tokens that may follow each beam, in falling order of the scores.
The score of a token that may not is -inf.
"""
PENALTY_CODES = 16
"""Recent codes that the repetition penalty of speech counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingSettings:
    """Sampling settings of a session. 0 disables `top_k` and `top_p`.

    `speakable`: a written answer has no tokens that cannot be spoken.
    """

    greedy: bool = False
    temperature: float = 0.7
    top_k: int = 20
    top_p: float = 0.8
    listen_prob_scale: float = 1.0
    listen_top_k: int | None = None
    repetition_penalty: float = 1.05
    length_penalty: float = 1.1
    speakable: bool = False


@dataclass(frozen=True, slots=True)
class TokenRow:
    """Input of one draw: settings, the tokens that the repetition penalty counts, the slot, and two
    uniform draws in [0, 1).

    `written`: a token of a written answer, by plain sampling, not of a duplex unit.
    """

    settings: SamplingSettings
    recent: RecentTokens
    slot: int = 0
    draws: tuple[float, float] = (0.0, 0.0)
    written: bool = False


@dataclass(frozen=True, slots=True)
class SampledToken:
    """A token, and whether it is added to the history."""

    token: int
    recorded: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechSettings:
    """Sampling settings of audio codes. 0 disables `top_k` and `top_p`."""

    greedy: bool = False
    temperature: float = 0.8
    repetition_penalty: float = 1.05
    top_k: int = 0
    top_p: float = 0.0


@dataclass(frozen=True, slots=True)
class CodeRow:
    """Input of one draw: settings, the codes that the repetition penalty counts, whether the end may
    be drawn, and a uniform draw. Without codes, `top_k` and `top_p` do not apply.
    """

    settings: SpeechSettings
    codes: Sequence[int]
    may_end: bool
    draw: float = 0.0


def bucket(count: int) -> int:
    """The smallest power of two that is at least `count`."""
    return 1 << max(0, count - 1).bit_length()


def ragged_bucket(count: int) -> int:
    """The tokens that a ragged batch of `count` is padded to: above 32 also three quarters of a
    power of two.
    """
    whole = bucket(count)
    return whole * 3 // 4 if whole > MAX_BATCHED_TOKENS and count <= whole * 3 // 4 else whole


@dataclass(frozen=True, slots=True, eq=False)
class EngineStep:
    """One request. Steps with equal `group` may share a batch; None runs alone."""

    batchable: ClassVar[bool] = True
    draws_codes: ClassVar[bool] = False
    """Whether the step may run on the stream of the speech model, beside steps of other sessions."""

    @property
    def group(self) -> Hashable | None:
        return type(self).__name__ if self.batchable else None


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
    the tokens `written` in it; returns RankedTokens.
    """

    logits: Sequence[Tensor]
    written: Sequence[Sequence[int]]
    settings: SamplingSettings

    # Runs alone: the history and the candidates of each beam have their own length.
    batchable: ClassVar[bool] = False


@dataclass(frozen=True, slots=True, eq=False)
class EncodeAudio(EngineStep):
    """Encode one streamed mel chunk at `start` of the audio cache; returns (10, width)."""

    slot: int
    start: int
    mel: Tensor
    leading_frames: int = 0
    trailing_frames: int = 0

    @property
    def size(self) -> int:
        """Positions in the audio cache: half the frames, without the redundant ones."""
        dropped = -(-self.leading_frames // 2) + -(-self.trailing_frames // 2)
        return (self.mel.shape[1] + 1) // 2 - dropped

    @property
    def group(self) -> Hashable | None:
        return (type(self).__name__, self.size)


@dataclass(frozen=True, slots=True, eq=False)
class EncodeClips(EngineStep):
    """Encode whole clips of log-mel; returns a list of (n, width)."""

    mels: list[Tensor]
    full_attention: bool = False

    # Runs alone: the end of a clip depends on its padding.
    batchable: ClassVar[bool] = False


@dataclass(frozen=True, slots=True, eq=False)
class EncodeImages(EngineStep):
    """Encode image slices; returns (slices, 64, width)."""

    pixels: list[Tensor]
    grids: list[tuple[int, int]]

    # Runs alone: an image of a thousand patches fills the device.
    batchable: ClassVar[bool] = False


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

    # Runs alone: two small matrix products.
    batchable: ClassVar[bool] = False


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

    @property
    def size(self) -> int:
        return len(self.draws)

    @property
    def restricted(self) -> bool:
        """Whether top-k or top-p apply."""
        return bool(self.row.settings.top_k or self.row.settings.top_p)

    @property
    def group(self) -> Hashable:
        return (type(self).__name__, self.size, self.restricted)

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


@dataclass(frozen=True, slots=True, eq=False)
class ClearSlot(EngineStep):
    """Erase the contents of a slot; returns None."""

    slot: int


Steps = Generator[EngineStep, Any, T]
"""The generator of a session: yields steps, receives their results, returns T."""
