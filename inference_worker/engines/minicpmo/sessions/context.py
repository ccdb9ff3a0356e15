"""The text context of a session: its length, its capacity, and how it grows."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.preprocess.images import SlicedImage
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    Feed,
    FeedForStates,
    FeedResult,
    Steps,
)
from antiphon.inference_worker.engines.minicpmo.sessions.media_input import (
    AudioInput,
    encode_images,
)
from antiphon.inference_worker.engines.types import ContextFull

Piece = Tensor | tuple[int, ...]


MAX_FEED_TOKENS = 1024
"""Tokens of one step. Between the steps of a longer prompt, other sessions run."""


class TextContext:
    """The text cache row of one slot, filled up to `length` of `capacity` tokens."""

    def __init__(
        self, slot: int, tokenizer: Tokenizer, audio_input: AudioInput, *, capacity: int, seed: int
    ) -> None:
        self.slot = slot
        self.length = 0
        self.audio_input = audio_input
        self._rng = random.Random(seed)  # noqa: S311  # token choice, not a secret
        self._pending: Tensor | None = None
        self._tokenizer = tokenizer
        self._ids = tokenizer.ids
        self._capacity = capacity

    def feed(self, pieces: Sequence[Piece], *, want_logits: bool = True) -> Steps[FeedResult]:
        """Append ids and embeddings. Raises ContextFull with nothing appended."""
        *before, last = self._portions(pieces)
        for portion in before:
            yield from self._append(Feed(self.slot, self.length, portion, want_logits=False))
        fed: FeedResult = yield from self._append(Feed(self.slot, self.length, last, want_logits))
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
