"""The contexts of a session, text and audio: their lengths, how they grow, and what leaves them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from antiphon.inference_worker.engines.common.costs import TokenCounter
from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
from antiphon.inference_worker.engines.minicpmo.preprocess.images import SlicedImage
from antiphon.inference_worker.engines.minicpmo.preprocess.mel import (
    CHUNK_FRAMES,
    REDUNDANT_FRAMES,
    MelStream,
)
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    MAX_CLIPS,
    MAX_PICTURES,
    MAX_RAGGED_TOKENS,
    EncodeAudio,
    EncodeClips,
    EncodeImages,
    Feed,
    FeedForStates,
    FeedResult,
    Steps,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.token_choice import TokenRow
from antiphon.inference_worker.engines.types import ContextFull
from antiphon.shared_schemas.audio import Samples

Piece = Tensor | tuple[int, ...]


MAX_FEED_TOKENS = MAX_RAGGED_TOKENS
"""Tokens of one step. A longer prompt has several, which share the batches of other sessions."""


@dataclass(slots=True, kw_only=True)
class AudioInput:
    """The audio stream of a full-duplex session; `position` is the length of its audio cache."""

    slot: int
    capacity: int
    stream: MelStream = field(default_factory=MelStream)
    position: int = 0

    def push(self, samples: Samples) -> Tensor | None:
        """Append samples; returns a chunk of log-mel when a second is complete."""
        self.stream.push(samples)
        return self.stream.take() if self.stream.ready else None

    def encode(self, mel: Tensor) -> Steps[Tensor]:
        """Ten embeddings of a chunk of log-mel (80, frames)."""
        if self.position + (mel.shape[1] - 1) // 2 + 1 >= self.capacity:
            self.position = 0  # the position table is used up: forget all audio so far
        leading = mel.shape[1] - CHUNK_FRAMES - REDUNDANT_FRAMES
        step = EncodeAudio(self.slot, self.position, mel, leading, REDUNDANT_FRAMES)
        embeds: Tensor = yield step
        self.position += step.size
        return embeds


def encode_images(images: Sequence[SlicedImage]) -> Steps[list[Tensor]]:
    """Embeddings (64, width) of every slice of every image, in order."""
    pixels = [part for image in images for part in image.pixels]
    grids = [grid for image in images for grid in image.grids]
    seen: list[Tensor] = []
    for at in range(0, len(pixels), MAX_PICTURES):
        portion = slice(at, at + MAX_PICTURES)
        seen += yield EncodeImages(pixels[portion], grids[portion])
    return seen


def encode_clips(mels: Sequence[Tensor], *, full_attention: bool = False) -> Steps[list[Tensor]]:
    """Embeddings (n, width) of each log-mel, in order. The end of a clip depends on its padding, so all have
    that of the longest one.
    """
    encoded, frames = list[Tensor](), max(mel.shape[1] for mel in mels)
    for at in range(0, len(mels), MAX_CLIPS):
        encoded += yield EncodeClips(mels[at : at + MAX_CLIPS], frames, full_attention)
    return encoded


class TextContext:
    """The text cache row of one slot, filled up to `length` of `capacity` tokens."""

    def __init__(
        self,
        slot: int,
        tokenizer: Tokenizer,
        *,
        capacity: int,
        seed: int = 0,
    ) -> None:
        self.slot = slot
        self.length = 0
        self.embeddings_fed = 0
        """Embeddings of audio and images among all tokens that were fed."""
        self._rng = random.Random(seed)  # noqa: S311  # token choice, not a secret
        self._pending: Tensor | None = None
        self._tokenizer = tokenizer
        self._ids = tokenizer.ids
        self._capacity = capacity

    def feed(
        self, pieces: Sequence[Piece], *, want_logits: bool = True, draw: TokenRow | None = None
    ) -> Steps[FeedResult]:
        """Append ids and embeddings, and `draw` the token that follows. Raises ContextFull with nothing
        appended.
        """
        *before, last = self._portions(pieces)
        for portion in before:
            yield from self._append(Feed(self.slot, self.length, portion, want_logits=False))
        fed: FeedResult = yield from self._append(
            Feed(self.slot, self.length, last, want_logits, draw)
        )
        return fed

    def feed_for_states(self, pieces: Sequence[Piece]) -> Steps[list[Tensor]]:
        """Append tokens of the past; returns the hidden state (width,) of each."""
        states: list[Tensor] = []
        for portion in self._portions(pieces):
            states += yield from self._append(FeedForStates(self.slot, self.length, portion))
        return states

    def image_pieces(self, images: Sequence[SlicedImage]) -> Steps[list[Piece]]:
        """The images of a unit as pieces, each between its marks and followed by its slices."""
        parts = iter((yield from encode_images(images)))
        pieces: list[Piece] = []
        for image in images:
            pieces += [(self._ids.image,), next(parts), (self._ids.image_end,)]
            for _ in image.pixels[1:]:
                pieces += [(self._ids.slice,), next(parts), (self._ids.slice_end,)]
        return pieces

    def _append(self, step: Feed) -> Steps[Any]:
        answer = yield step
        self.length += step.size
        self.embeddings_fed += sum(len(piece) for piece in step.pieces if isinstance(piece, Tensor))
        return answer

    def _portions(self, pieces: Sequence[Piece]) -> list[tuple[Piece, ...]]:
        if self.length + sum(map(len, pieces)) > self._capacity:
            raise ContextFull(f"the context of {self._capacity} tokens is full")
        return list(in_portions(pieces, MAX_FEED_TOKENS)) or [()]


def in_portions(pieces: Sequence[Piece], most: int) -> Iterator[tuple[Piece, ...]]:
    """`pieces` in order, split into portions of `most` tokens. Empty pieces are dropped."""
    portion: list[Piece] = []
    room = most
    for whole in pieces:
        piece = whole
        while len(piece) > room:
            yield (*portion, piece[:room])
            portion, piece, room = [], piece[room:], most
        if len(piece):
            portion.append(piece)
            room -= len(piece)
    if portion:
        yield tuple(portion)


@contextmanager
def counting_input(
    counter: TokenCounter, session: TextContext, images: Sequence[object], tokens_per_slice: int
) -> Iterator[None]:
    """Count what the block feeds to `session`; `images` may have other parts, which are ignored.

    Nothing is counted if the block raises.
    """
    length, embeddings = session.length, session.embeddings_fed
    yield
    slices = sum(len(part.pixels) for part in images if isinstance(part, SlicedImage))
    media, vision = session.embeddings_fed - embeddings, slices * tokens_per_slice
    counter.add(
        input_text=session.length - length - media,
        input_audio=media - vision,
        input_vision=vision,
    )


@dataclass(frozen=True, slots=True)
class ContextUnit:
    """A closed unit: its number of positions and the ordinary words spoken in it."""

    length: int
    words: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class WindowSlide:
    """Move `count` entries from `source` to `target`, then write `refill` from `refill_at` on."""

    source: int
    target: int
    count: int
    refill_at: int = 0
    refill: tuple[int, ...] = ()


@dataclass(slots=True)
class ContextLayout:
    """Prefix, words of dropped units, suffix, units: in this order without gaps.

    The window `basic` keeps the length between two limits; `context` keeps a number of units and the
    words of the older ones.
    """

    options: EngineOptions
    prefix: int = 0
    suffix: tuple[int, ...] = ()
    marker: tuple[int, ...] = ()
    previous: tuple[int, ...] = ()
    units: list[ContextUnit] = field(default_factory=list)

    @property
    def protected(self) -> int:
        """Positions before the first unit."""
        return self.prefix + len(self.previous) + len(self.suffix)

    @property
    def length(self) -> int:
        return self.protected + sum(unit.length for unit in self.units)

    def close(self, unit: ContextUnit) -> WindowSlide | None:
        """Append a unit; returns the change to the cache if the window slides."""
        self.units.append(unit)
        if self.options.window == "basic":
            return self._slide_basic()
        if self.options.window == "context":
            return self._slide_context()
        return None

    def _slide_basic(self) -> WindowSlide | None:
        if self.length <= self.options.basic_high_tokens:
            return None
        before = self.length
        while self.units and self.length > self.options.basic_low_tokens:
            self.units.pop(0)
        gone = before - self.length
        return WindowSlide(self.protected + gone, self.protected, self.length - self.protected)

    def _slide_context(self) -> WindowSlide | None:
        surplus = len(self.units) - self.options.context_max_units
        if surplus <= 0:
            return None
        dropped, self.units = self.units[:surplus], self.units[surplus:]
        source = self.protected + sum(unit.length for unit in dropped)
        changed = self._remember(word for unit in dropped for word in unit.words)
        return WindowSlide(
            source=source,
            target=self.protected,
            count=self.length - self.protected,
            refill_at=self.prefix,
            refill=(*self.previous, *self.suffix) if changed else (),
        )

    def _remember(self, words: Iterable[int]) -> bool:
        """Append words after the marker, keep the newest, and return whether the text changed."""
        content = (*self.previous[len(self.marker) :], *words)
        newest = content[-self.options.context_previous_max_tokens :]
        before = self.previous
        self.previous = (*self.marker, *newest) if newest else ()
        return self.previous != before


WINDOW_HIGH_TOKENS, WINDOW_LOW_TOKENS = 8000, 6000


@dataclass(frozen=True, slots=True)
class TurnWindow:
    """The turns in a cache, behind the `protected` tokens of the system prompt and a greeting.

    A cache that is longer than `high` tokens loses its oldest ones until it has `low`. Whole turns leave
    it, or, if it `counts_as_reference`, as many tokens as the reference counts for them. The reference
    counts neither the first turn nor the opening of an answer, and an answer only if it was spoken to
    its end. So the tokens that leave the cache may end inside a turn.
    """

    high: int = WINDOW_HIGH_TOKENS
    low: int = WINDOW_LOW_TOKENS
    counts_as_reference: bool = True
    protected: int = 0
    dropped: int = 0
    """Tokens that have left the cache."""

    _starts: tuple[int, ...] = ()
    """Where each user turn begins in the cache."""

    _counted: tuple[int, ...] = ()
    """Tokens of each turn after the first, as the reference counts them."""

    _first_turn: bool = True
    _turn_is_open: bool = False
    """The last counted turn also counts what comes next."""

    def add_user_turn(self, start: int, tokens: int) -> TurnWindow:
        return replace(self._count(tokens), _starts=(*self._starts, start))

    def add_spoken_answer(self, tokens: int) -> TurnWindow:
        """Close the turn with an answer that was spoken to its end and has `tokens` as text."""
        return replace(self._count(tokens), _first_turn=False, _turn_is_open=False)

    def excess(self, length: int, room: int) -> int:
        """How many of the `length` tokens must leave the cache, so that it has at most `room`."""
        high = min(self.high, room)
        if not self.counts_as_reference:
            return self._excess_of_turns(length, high)
        gone = self._excess_as_counted(length, high)
        return gone if length - gone <= room else self._excess_of_turns(length, room)

    def without(self, tokens: int) -> TurnWindow:
        """The window after the oldest `tokens` that are not protected have left the cache."""
        starts = (start - tokens for start in self._starts)
        counted, left = list(self._counted), tokens
        while counted and left > 0:
            left -= counted.pop(0)
        return replace(
            self,
            dropped=self.dropped + tokens,
            _starts=tuple(start for start in starts if start >= self.protected),
            _counted=tuple(counted),
            _turn_is_open=self._turn_is_open and bool(counted),
        )

    def _count(self, tokens: int) -> TurnWindow:
        if self._first_turn:
            return self
        *before, last = self._counted if self._turn_is_open else (*self._counted, 0)
        return replace(self, _counted=(*before, last + tokens), _turn_is_open=True)

    def _low(self, high: int) -> int:
        return high * self.low // self.high

    def _excess_as_counted(self, length: int, high: int) -> int:
        gone = 0
        if length > high:
            for tokens in self._counted:
                if length - gone <= self._low(high) or length - gone - tokens < self.protected:
                    break
                gone += tokens
        return gone

    def _excess_of_turns(self, length: int, high: int) -> int:
        if length <= high:
            return 0
        kept = [
            start for start in self._starts if self.protected + length - start <= self._low(high)
        ]
        return (kept[0] if kept else length) - self.protected
