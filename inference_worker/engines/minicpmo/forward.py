"""A transformer body with its slotted cache: batches of new tokens in, last hidden states out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from inference_worker.engines.minicpmo.graphs import Forward, GraphPool
from inference_worker.engines.minicpmo.kv_cache import CacheWindow, SlottedCache
from inference_worker.engines.minicpmo.model.attention import causal_mask
from inference_worker.engines.minicpmo.model.decoder import Decoder
from inference_worker.engines.minicpmo.placing import carried
from inference_worker.engines.minicpmo.steps import SHARED_TOKENS, bucket

SMALLEST_LENGTH = 256


@dataclass(frozen=True, slots=True)
class Placed:
    """New embeddings (n, width) for one slot, starting at a position."""

    slot: int
    start: int
    embeds: Tensor

    @property
    def end(self) -> int:
        """The slot's length afterwards."""
        return self.start + len(self.embeds)


@dataclass(frozen=True, slots=True)
class Shape:
    """What a forward covers: `rows` from row `first` on, `new` tokens each, `length` of the cache."""

    first: int
    rows: int
    new: int
    length: int


def covering(cache: SlottedCache, slot: int, end: int, *, invariant: bool) -> tuple[int, int]:
    """Rows and length that reach `slot` and `end`; all there is when shapes must not vary."""
    if invariant:
        return cache.slots, cache.positions
    rows = min(cache.slots, bucket(slot + 1))
    return rows, min(cache.positions, max(SMALLEST_LENGTH, bucket(end)))


class SlottedBody:
    """One decoder over one cache. One-token steps go through CUDA graphs where they are captured."""

    def __init__(
        self, body: Decoder, cache: SlottedCache, graphs: GraphPool, *, invariant: bool
    ) -> None:
        self._body = body
        self._cache = cache
        self._graphs = graphs
        self._invariant = invariant
        weight = body.embed_tokens.weight
        self._device, self._dtype, self._width = weight.device, weight.dtype, weight.shape[1]

    def forward(self, placed: Sequence[Placed]) -> Tensor:
        """Append to each slot; final hidden states of the last new token of each, (placed, width)."""
        shape = self._shape(placed)
        last = torch.tensor([[p.slot - shape.first, len(p.embeds) - 1] for p in placed])
        hidden, (rows, columns) = self._append(placed, shape, last.T)
        final: Tensor = hidden[rows, columns]
        return final

    def states(self, placed: Placed) -> Tensor:
        """Append to one slot; final hidden states of all new tokens, (n, width)."""
        shape = self._shape([placed])
        hidden, _ = self._append([placed], shape, torch.zeros(2, 1, dtype=torch.long))
        return hidden[placed.slot - shape.first, : len(placed.embeds)]

    def _append(
        self, placed: Sequence[Placed], shape: Shape, wanted: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Hidden states of all rows, (rows, new, width); and `wanted`, which travels along."""
        positions = torch.zeros(shape.rows, shape.new, dtype=torch.long)
        writes = torch.full_like(positions, self._cache.positions)
        for p in placed:
            row, count = p.slot - shape.first, len(p.embeds)
            positions[row, :count] = writes[row, :count] = torch.arange(p.start, p.end)
        real = (writes < self._cache.positions).nonzero().T
        positions, writes, real, wanted = self._carried(positions, writes, real, wanted)
        by_row = sorted(placed, key=lambda p: p.slot)
        embeds = torch.zeros(
            shape.rows, shape.new, self._width, dtype=self._dtype, device=self._device
        )
        embeds[real[0], real[1]] = torch.cat([p.embeds for p in by_row])
        return self._through(shape, (embeds, positions, writes)), wanted

    def _carried(self, *tables: Tensor) -> list[Tensor]:
        """All of them on the device, in one copy."""
        packed = carried(torch.cat([table.flatten() for table in tables]), self._device)
        parts = torch.split(packed, [table.numel() for table in tables])
        return [part.view(table.shape) for part, table in zip(parts, tables, strict=True)]

    def capture(self) -> int:
        """Record the one-token step at every shape that can occur; how many there are."""
        shapes = self._shapes(1)
        for shape in shapes:
            inputs = self._nothing(shape)
            self._graphs.capture((self._body, shape), inputs, self._forward_of(shape))
        return len(shapes)

    def warm_up(self) -> int:
        """Run once every shape of a few tokens that can occur, so that its kernels are there."""
        sizes = [1 << n for n in range(1, SHARED_TOKENS.bit_length())]
        shapes = [shape for new in sizes for shape in self._shapes(new)]
        for shape in shapes:
            self._forward_of(shape)(*self._nothing(shape))
        return len(shapes)

    def _nothing(self, shape: Shape) -> tuple[Tensor, Tensor, Tensor]:
        """Input that leaves no trace in the cache."""
        embeds = torch.zeros(
            shape.rows, shape.new, self._width, dtype=self._dtype, device=self._device
        )
        positions = torch.zeros(shape.rows, shape.new, dtype=torch.long, device=self._device)
        return embeds, positions, torch.full_like(positions, self._cache.positions)

    def _through(self, shape: Shape, inputs: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        forward = self._forward_of(shape)
        if shape.new == 1 and self._graphs.enabled:
            return self._graphs.run((self._body, shape), inputs, forward)
        return forward(*inputs)

    def _forward_of(self, shape: Shape) -> Forward:
        def forward(embeds: Tensor, positions: Tensor, writes: Tensor) -> Tensor:
            window = CacheWindow(self._cache, shape.first, writes, shape.length)
            mask = causal_mask(positions, shape.length)
            hidden: Tensor = self._body(embeds, positions, mask, window)
            return hidden

        return forward

    def _shape(self, placed: Sequence[Placed]) -> Shape:
        rows, length = self._covering(max(p.slot for p in placed), max(p.end for p in placed))
        longest = max(len(p.embeds) for p in placed)
        if len(placed) == 1 and longest > SHARED_TOKENS:
            return Shape(placed[0].slot, 1, longest, length)
        return Shape(0, rows, bucket(longest), length)

    def _shapes(self, new: int) -> list[Shape]:
        slots = {min(self._cache.slots, 1 << n) - 1 for n in range(9)}
        ends = {min(self._cache.positions, SMALLEST_LENGTH << n) for n in range(16)}
        found = {self._covering(slot, end) for slot in slots for end in ends}
        return [Shape(0, rows, new, length) for rows, length in sorted(found)]

    def _covering(self, slot: int, end: int) -> tuple[int, int]:
        return covering(self._cache, slot, end, invariant=self._invariant)
