"""A transformer with its slotted cache: batches of new tokens in, hidden states out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.device import device_tensor
from antiphon.inference_worker.engines.minicpmo.model.attention import (
    CacheWindow,
    SlottedCache,
    additive_mask,
    causal_mask,
    chunk_mask,
    tile_counts,
)
from antiphon.inference_worker.engines.minicpmo.model.audio import AudioEncoder
from antiphon.inference_worker.engines.minicpmo.model.decoder import Decoder
from antiphon.inference_worker.engines.minicpmo.scheduling.cuda_graphs import (
    ForwardFunction,
    GraphPool,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    MAX_BATCHED_TOKENS,
    MAX_RAGGED_TOKENS,
    MAX_STEP_TOKENS,
    bucket,
    ragged_bucket,
)

MIN_CACHE_LENGTH = 256
ONE = torch.zeros(1, 0)
"""Takes the place of the embedding of one token."""

TEXT_GRAPHS = (1, 2, 16)
"""Tokens per feed in a padded unit: one by one, the two that end it, the eleven of a second of audio."""

AUDIO_GRAPHS = (50,)
"""Steps of one second of audio after the convolutions."""

RAGGED_COUNTS = tuple(sorted({ragged_bucket(n + 1) for n in range(MAX_STEP_TOKENS)}))
"""Tokens of a ragged batch, with padding."""


@dataclass(frozen=True, slots=True)
class SlotInput:
    """New embeddings (n, width) for one slot, from position `start`."""

    slot: int
    start: int
    embeds: Tensor

    @property
    def end(self) -> int:
        return self.start + len(self.embeds)


@dataclass(frozen=True, slots=True)
class BatchShape:
    """What a forward pass covers: `rows` from row `first` on, `new` tokens each, `length` of the cache.

    The rows of a ragged batch are single tokens of any slot.
    """

    first: int
    rows: int
    new: int
    length: int

    @property
    def tokens(self) -> int:
        return self.rows * self.new


@dataclass(frozen=True, slots=True)
class BatchTables:
    """`tokens` (4, rows, new): position, write, slot and tile of each token. `places` (n,) of the
    new tokens, and `last` (inputs,) of the last one of each input, in the flattened batch.
    """

    tokens: Tensor
    places: Tensor
    last: Tensor


class SlottedTransformer:
    """One transformer over a new cache of `slots` rows. Steps of `graphed` tokens use CUDA graphs if
    enabled.

    A padded batch has a row for every slot up to the highest in use, as long as the longest feed.
    A `ragged` batch of a decoder has only the new tokens of all slots, one after the other.
    """

    def __init__(
        self,
        transformer: Decoder | AudioEncoder,
        graphs: GraphPool,
        *,
        slots: int,
        positions: int,
        graphed: Sequence[int],
        invariant: bool,
        ragged: bool,
    ) -> None:
        decoder = transformer if isinstance(transformer, Decoder) else None
        self._transformer = transformer
        self._graphs = graphs
        self._mask = chunk_mask if decoder is None else causal_mask
        self._invariant = invariant
        self._ragged = ragged and decoder is not None
        self._graphed = RAGGED_COUNTS if self._ragged else graphed
        self._longest = MAX_RAGGED_TOKENS if self._ragged else MAX_BATCHED_TOKENS
        self._tile = 1 if decoder is None else decoder.tile
        # The fused attention compares positions itself.
        self._fused = decoder is not None and decoder.kernels.ragged
        table = transformer.table
        self._device, self._dtype, self._width = table.device, table.dtype, table.shape[1]
        layers, heads, head_dim = transformer.cache_sizes
        self.cache = SlottedCache(
            layers=layers,
            slots=slots,
            positions=positions,
            heads=heads,
            head_dim=head_dim,
            device=self._device,
            dtype=self._dtype,
        )

    def forward(self, inputs: Sequence[SlotInput]) -> Tensor:
        """Append to each slot; the final hidden state of the last new token of each, (inputs, width)."""
        hidden, tables = self._append(inputs, self._shape(inputs))
        final: Tensor = hidden.flatten(0, 1)[tables.last]
        return final

    def states(self, slot_input: SlotInput) -> Tensor:
        """Append to one slot; the final hidden states of all new tokens, (n, width)."""
        hidden, tables = self._append([slot_input], self._shape([slot_input]))
        states: Tensor = hidden.flatten(0, 1)[tables.places]
        return states

    def rows(self, inputs: Sequence[SlotInput]) -> Tensor:
        """Append inputs of equal length; hidden states of all rows from the first, (rows, n, width)."""
        rows, length = self._covering(inputs)
        return self._append(inputs, BatchShape(0, rows, len(inputs[0].embeds), length))[0]

    def _append(self, inputs: Sequence[SlotInput], shape: BatchShape) -> tuple[Tensor, BatchTables]:
        """Hidden states of all rows, (rows, new, width)."""
        tables = self._tables(inputs, shape)
        embeds = self._zero_embeds(shape)
        embeds.view(shape.tokens, -1)[tables.places] = torch.cat([p.embeds for p in inputs])
        return self._run(shape, (embeds, tables.tokens)), tables

    def _tables(self, inputs: Sequence[SlotInput], shape: BatchShape) -> BatchTables:
        """Built from Python integers and sent in one copy; building tensors takes the host three times
        as long. Padding is written to the extra position of the cache.
        """
        size, ragged = shape.tokens, self._is_ragged(shape)
        positions, writes, tiles = [0] * size, [self.cache.positions] * size, [1] * size
        slots = [0 if ragged else shape.first + n // shape.new for n in range(size)]
        places, last, end = list[int](), list[int](), 0
        for p in inputs:
            start = end if ragged else (p.slot - shape.first) * shape.new
            end = start + len(p.embeds)
            positions[start:end] = writes[start:end] = range(p.start, p.end)
            slots[start:end] = [p.slot] * len(p.embeds)
            tiles[start:end] = tile_counts(len(p.embeds), self._tile)
            places += range(start, end)
            last.append(end - 1)
        packed = device_tensor([*positions, *writes, *slots, *tiles, *places, *last], self._device)
        tokens, place, final = torch.split(packed, [4 * size, len(places), len(last)])
        return BatchTables(tokens.view(4, shape.rows, shape.new), place, final)

    def place_tokens(
        self, starts: Sequence[tuple[int, int]], count: int
    ) -> tuple[BatchShape, Tensor, list[int]]:
        """For one token of each slot and its start, and the next ones up to `count`: the shape, the
        tables (4, rows, 1) of the first token, and the row of each slot.
        """
        shape = self._shape([SlotInput(slot, start + count - 1, ONE) for slot, start in starts])
        tables = self._tables([SlotInput(slot, start, ONE) for slot, start in starts], shape)
        slots = [slot - shape.first for slot, _ in starts]
        return shape, tables.tokens, list(range(len(slots))) if self._ragged else slots

    def token_shapes(self, slots: int) -> list[BatchShape]:
        """All shapes of batches of one token of up to `slots` slots."""
        if not self._ragged:
            return self._shapes(1)
        counts = sorted({ragged_bucket(n + 1) for n in range(slots)})
        return [shape for count in counts for shape in self._shapes(count)]

    def capture(self) -> int:
        """Capture the graphed steps at every possible shape; returns their number."""
        shapes = [shape for new in self._graphed for shape in self._shapes(new)]
        # The largest first: all others fit into the memory that it reserves.
        for shape in sorted(shapes, key=lambda s: s.tokens * s.length, reverse=True):
            inputs = self._discarded_inputs(shape)
            self._graphs.capture((self._transformer, shape), inputs, self.forward_of(shape))
        return len(shapes)

    def warm_up(self) -> int:
        """Run every possible shape of a few tokens once, so that its kernels are loaded; returns
        their number.
        """
        padded = [1 << n for n in range(MAX_BATCHED_TOKENS.bit_length())]
        sizes = RAGGED_COUNTS if self._ragged else padded
        shapes = [shape for new in sizes for shape in self._shapes(new)]
        for shape in shapes:
            self.forward_of(shape)(*self._discarded_inputs(shape))
        return len(shapes)

    def _discarded_inputs(self, shape: BatchShape) -> tuple[Tensor, Tensor]:
        """Input that does not change the cache."""
        return self._zero_embeds(shape), self.discarded_tokens(shape)

    def discarded_tokens(self, shape: BatchShape) -> Tensor:
        """Tables (4, rows, new) of tokens that are not written to a slot."""
        tokens = torch.zeros(4, shape.rows, shape.new, dtype=torch.long, device=self._device)
        tokens[1].fill_(self.cache.positions)
        tokens[3].fill_(1)
        return tokens

    def _zero_embeds(self, shape: BatchShape) -> Tensor:
        return torch.zeros(
            shape.rows, shape.new, self._width, dtype=self._dtype, device=self._device
        )

    def _run(self, shape: BatchShape, inputs: tuple[Tensor, Tensor]) -> Tensor:
        forward = self.forward_of(shape)
        count = shape.rows if self._is_ragged(shape) else shape.new
        if count in self._graphed:
            return self._graphs.run((self._transformer, shape), inputs, forward)
        return forward(*inputs)

    def forward_of(self, shape: BatchShape) -> ForwardFunction:
        is_prompt, ragged = shape.new > self._longest, self._is_ragged(shape)

        def forward(embeds: Tensor, tokens: Tensor) -> Tensor:
            positions, writes, slots, tiles = tokens.unbind()
            window = CacheWindow(
                self.cache,
                shape.first,
                writes,
                shape.length,
                slots,
                tiles=None if is_prompt else tiles,
                ragged=ragged,
            )
            mask = None
            if is_prompt or not self._fused:
                mask = additive_mask(self._mask(positions, shape.length), self._dtype)
            hidden: Tensor = self._transformer(embeds, positions, mask, window)
            return hidden

        return forward

    def _is_ragged(self, shape: BatchShape) -> bool:
        """A prompt has one row also here."""
        return self._ragged and shape.new == 1

    def _shape(self, inputs: Sequence[SlotInput]) -> BatchShape:
        rows, length = self._covering(inputs)
        longest = max(len(p.embeds) for p in inputs)
        if len(inputs) == 1 and longest > self._longest:
            return BatchShape(inputs[0].slot, 1, longest, length)
        if self._ragged:
            count = sum(len(p.embeds) for p in inputs)
            return BatchShape(0, ragged_bucket(count), 1, length)
        return BatchShape(0, rows, bucket(longest), length)

    def _shapes(self, new: int) -> list[BatchShape]:
        """All shapes of feeds of `new` tokens; if ragged, of batches of `new` tokens."""
        slots = {min(self.cache.slots, 1 << n) - 1 for n in range(9)}
        ends = {min(self.cache.positions, MIN_CACHE_LENGTH << n) for n in range(16)}
        if self._ragged:
            lengths = sorted({self._rounded_up(0, end)[1] for end in ends})
            return [BatchShape(0, new, 1, length) for length in lengths]
        found = {self._rounded_up(slot, end) for slot in slots for end in ends}
        return [BatchShape(0, rows, new, length) for rows, length in sorted(found)]

    def _covering(self, inputs: Sequence[SlotInput]) -> tuple[int, int]:
        return self._rounded_up(max(p.slot for p in inputs), max(p.end for p in inputs))

    def _rounded_up(self, slot: int, end: int) -> tuple[int, int]:
        """Rows and length that cover `slot` and `end`; the maximum of both with fixed shapes."""
        slots, positions = self.cache.slots, self.cache.positions
        if self._invariant:
            return slots, positions
        return min(slots, bucket(slot + 1)), min(positions, max(MIN_CACHE_LENGTH, bucket(end)))
