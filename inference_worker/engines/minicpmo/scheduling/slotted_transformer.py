"""A transformer with its slotted cache: batches of new tokens in, hidden states out."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import embedding

from antiphon.inference_worker.engines.minicpmo.device import device_tensor
from antiphon.inference_worker.engines.minicpmo.model.attention import (
    additive_mask,
    causal_mask,
    chunk_mask,
)
from antiphon.inference_worker.engines.minicpmo.model.audio import AudioEncoder
from antiphon.inference_worker.engines.minicpmo.model.decoder import Decoder
from antiphon.inference_worker.engines.minicpmo.model.kv_cache import (
    CacheWindow,
    SlottedCache,
    Tiles,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.cuda_graphs import (
    MAX_BATCHED_TOKENS,
    ForwardFunction,
    GraphPool,
    bucket,
    ragged_bucket,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    MAX_AUDIO_ROWS,
    MAX_RAGGED_TOKENS,
    MAX_STEP_TOKENS,
)

MIN_CACHE_LENGTH = 256

TEXT_GRAPHS = (1, 2, 16)
"""Tokens per feed in a padded unit: one by one, the two that end it, the eleven of a second of audio."""

AUDIO_STEPS = 50
"""Steps of one second of audio after the convolutions."""

RAGGED_COUNTS = tuple(sorted({ragged_bucket(n + 1) for n in range(MAX_STEP_TOKENS)}))
"""Tokens of a ragged batch, with padding."""


Run = tuple[int, int]
"""Consecutive tokens of one slot in a batch: the first, and the end."""


@dataclass(frozen=True, slots=True)
class SlotInput:
    """`size` new tokens for one slot, from position `start`: ids, and embeddings (n, width)."""

    slot: int
    start: int
    size: int
    pieces: Sequence[Tensor | tuple[int, ...]]

    @property
    def end(self) -> int:
        return self.start + self.size


@dataclass(frozen=True, slots=True)
class BatchShape:
    """What a forward pass covers: `rows` from row `first` on, `new` tokens each, `length` of the cache.

    The rows of a `gathered` batch have any slots. In a ragged one they are single tokens.
    """

    first: int
    rows: int
    new: int
    length: int
    gathered: bool = False

    @property
    def tokens(self) -> int:
        return self.rows * self.new


class TokenPlaces(NamedTuple):
    """Where the tokens of a batch belong, (rows, new) each.

    A token has a `position`, and is written to one of a `slot`: an extra one for padding. `starts` and
    `sizes` are those of Tiles.
    """

    positions: Tensor
    writes: Tensor
    slots: Tensor
    starts: Tensor
    sizes: Tensor

    @classmethod
    def of(cls, packed: Tensor) -> "TokenPlaces":
        """From (fields, rows, new)."""
        return cls(*packed.unbind())

    def following(self, capacity: int) -> Tensor:
        """The next token of each row, packed. Past the end of the cache, nothing is written."""
        positions = (self.positions + 1).clamp(max=capacity - 1)
        writes = (self.writes + 1).clamp(max=capacity)
        return torch.stack([positions, writes, self.slots, self.starts, self.sizes])


@dataclass(frozen=True, slots=True)
class PlacedBatch:
    """Embeddings (rows, new, width), packed TokenPlaces, and the `last` (inputs,) token of each input in
    the flattened batch.
    """

    embeds: Tensor
    tokens: Tensor
    last: Tensor


class SlottedTransformer:
    """One transformer over a new cache of `slots` rows, followed by `project`. Steps of `graphed` tokens use
    CUDA graphs if enabled.

    A padded batch has a row for every slot up to the highest in use, as long as the longest feed.
    A `ragged` batch of a decoder has only the new tokens of all slots, one after the other. A batch of
    audio has a row for each input, unless shapes are fixed.
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
        project: Callable[[Tensor], Tensor] = lambda hidden: hidden,
    ) -> None:
        decoder = transformer if isinstance(transformer, Decoder) else None
        self._transformer = transformer
        self._project = project
        self._graphs = graphs
        self._mask = chunk_mask if decoder is None else causal_mask
        self._invariant = invariant
        self._ragged = ragged and decoder is not None
        self._gathers = decoder is None and not invariant
        self._graphed = RAGGED_COUNTS if self._ragged else graphed
        self._longest = MAX_RAGGED_TOKENS if self._ragged else MAX_BATCHED_TOKENS
        self._decoder = decoder
        # The fused attention compares positions itself.
        self._fused = decoder is not None and decoder.kernels.ragged
        self._table = table = transformer.table
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
        shape = self._shape(inputs)
        batch = self._placed(inputs, shape)
        final: Tensor = self._run(shape, (batch.embeds, batch.tokens)).flatten(0, 1)[batch.last]
        return final

    def states(self, slot_input: SlotInput) -> Tensor:
        """Append to one slot; the final hidden states of all new tokens, (n, width)."""
        shape = self._shape([slot_input])
        batch = self._placed([slot_input], shape)
        hidden = self._run(shape, (batch.embeds, batch.tokens)).flatten(0, 1)
        first = 0 if shape.gathered else (slot_input.slot - shape.first) * shape.new
        return hidden[first : first + slot_input.size]

    def rows(self, inputs: Sequence[SlotInput]) -> tuple[Tensor, list[int]]:
        """Append inputs of equal length; hidden states (rows, n, width), and the row of each input."""
        new, (rows, length) = inputs[0].size, self._covering(inputs)
        shape, found = BatchShape(0, rows, new, length), [p.slot for p in inputs]
        if self._gathers:
            count = min(self.cache.slots, bucket(len(inputs)))
            shape = BatchShape(0, count, new, length, gathered=True)
            found = list(range(len(inputs)))
        batch = self._placed(inputs, shape)
        return self._run(shape, (batch.embeds, batch.tokens)), found

    def _placed(self, inputs: Sequence[SlotInput], shape: BatchShape) -> PlacedBatch:
        """All numbers are sent in one copy: each copy takes the host as long as a launch."""
        size, capacity = shape.tokens, self.cache.positions
        ids, positions, writes, runs = [0] * size, [0] * size, [capacity] * size, list[Run]()
        slots = [0 if shape.gathered else shape.first + n // shape.new for n in range(size)]
        given, places, last, end = list[Tensor](), list[int](), list[int](), 0
        for p in inputs:
            start = end if shape.gathered else (p.slot - shape.first) * shape.new
            end = start
            for piece in p.pieces:
                begin, end = end, end + len(piece)
                if isinstance(piece, tuple):
                    ids[begin:end] = piece
                else:
                    given.append(piece)
                    places += range(begin, end)
            positions[start:end] = writes[start:end] = range(p.start, p.end)
            slots[start:end] = [p.slot] * p.size
            runs += self._runs(start, end, shape)
            last.append(end - 1)
        tiles = self._tiled(runs, shape)
        numbers = (*positions, *writes, *slots, *tiles, *ids, *last, *places)
        packed = device_tensor(numbers, self._device)
        fields = len(TokenPlaces._fields) * size
        tokens, id_, final, place = torch.split(packed, [fields, size, len(last), len(places)])
        only_given = sum(p.size for p in inputs) == len(places)
        embeds = self._zero_embeds(shape) if only_given else embedding(id_, self._table)
        if given:
            joined = given[0] if len(given) == 1 else torch.cat(given)
            embeds.view(size, -1).index_copy_(0, place, joined)
        return PlacedBatch(
            embeds.view(shape.rows, shape.new, -1), tokens.view(-1, shape.rows, shape.new), final
        )

    def place_tokens(
        self, starts: Sequence[tuple[int, int]], count: int
    ) -> tuple[BatchShape, Tensor, list[int]]:
        """For one token of each slot and its start, and the next ones up to `count`: the shape, the
        packed TokenPlaces (fields, rows, 1) of the first token, and the row of each slot.
        """
        shape = self._shape(
            [SlotInput(slot, start + count - 1, 1, ((0,),)) for slot, start in starts]
        )
        rows, capacity = shape.rows, self.cache.positions
        slots = [slot - shape.first for slot, _ in starts]
        found = list(range(len(starts))) if self._ragged else slots
        positions, writes = [0] * rows, [capacity] * rows
        owners = [0] * rows if shape.gathered else list(range(shape.first, shape.first + rows))
        for row, (slot, start) in zip(found, starts, strict=True):
            positions[row] = writes[row] = start
            owners[row] = slot
        tiles = self._tiled(
            [run for row in found for run in self._runs(row, row + 1, shape)], shape
        )
        packed = device_tensor((*positions, *writes, *owners, *tiles), self._device)
        return shape, packed.view(-1, rows, 1), found

    def token_shapes(self, slots: int) -> list[BatchShape]:
        """All shapes of batches of one token of up to `slots` slots."""
        if not self._ragged:
            return self._shapes(1)
        counts = sorted({ragged_bucket(n + 1) for n in range(slots)})
        return [shape for count in counts for shape in self._shapes(count)]

    def capture(self) -> int:
        """Capture the graphed steps at every possible shape; returns their number."""
        shapes = [shape for tokens in self._graphed for shape in self._shapes(tokens)]
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
        shapes = [shape for tokens in sizes for shape in self._shapes(tokens)]
        for shape in shapes:
            self.forward_of(shape)(*self._discarded_inputs(shape))
        return len(shapes)

    def _discarded_inputs(self, shape: BatchShape) -> tuple[Tensor, Tensor]:
        """Input that does not change the cache."""
        return self._zero_embeds(shape), self.discarded_tokens(shape)

    def discarded_tokens(self, shape: BatchShape) -> Tensor:
        """Packed TokenPlaces (fields, rows, new) of tokens that are not written to a slot."""
        zeros = torch.zeros(shape.rows, shape.new, dtype=torch.long, device=self._device)
        writes = torch.full_like(zeros, self.cache.positions)
        starts = torch.arange(shape.tokens, device=self._device).view_as(zeros)
        sizes = torch.ones_like(zeros)
        return torch.stack(TokenPlaces(zeros, writes, zeros, starts, sizes))

    @staticmethod
    def _runs(start: int, end: int, shape: BatchShape) -> list[Run]:
        """Of an input: its tokens and, in a padded batch, the rest of its row."""
        return [(start, end)] if shape.gathered else [(start, end), (end, start + shape.new)]

    def _tiled(self, runs: Sequence[Run], shape: BatchShape) -> Iterator[int]:
        """The starts of the tiles, and then their sizes, as many as tokens. All tokens are in a tile, also
        padding: what attention leaves out has any values.
        """
        if self._decoder is None:
            return repeat(0, 2 * shape.tokens)
        if shape.gathered:
            rest = [(runs[-1][1], shape.tokens)]
        else:
            used = {start // shape.new for start, _ in runs[::2]}
            rest = [
                (n * shape.new, (n + 1) * shape.new) for n in range(shape.rows) if n not in used
            ]
        starts, sizes = Tiles.of([*runs, *rest], self._decoder.tile(shape.tokens))
        assert len(starts) <= self._most_tiles(shape)
        empty = [0] * (shape.tokens - len(starts))
        return chain(starts, empty, sizes, empty)

    def _most_tiles(self, shape: BatchShape) -> int:
        """In a ragged batch, the last tile of each slot and that of the padding may have few tokens."""
        if self._decoder is None or not shape.gathered:
            return shape.tokens
        full = shape.tokens // self._decoder.tile(shape.tokens)
        return min(shape.tokens, full + self.cache.slots + 1)

    def _zero_embeds(self, shape: BatchShape) -> Tensor:
        return torch.zeros(
            shape.rows, shape.new, self._width, dtype=self._dtype, device=self._device
        )

    def _run(self, shape: BatchShape, inputs: tuple[Tensor, Tensor]) -> Tensor:
        forward = self.forward_of(shape)
        count = shape.rows if self._ragged and shape.gathered else shape.new
        if count in self._graphed:
            return self._graphs.run((self._transformer, shape), inputs, forward)
        return forward(*inputs)

    def forward_of(self, shape: BatchShape) -> ForwardFunction:
        is_prompt, most = shape.new > self._longest, self._most_tiles(shape)

        def forward(embeds: Tensor, tokens: Tensor) -> Tensor:
            places = TokenPlaces.of(tokens)
            window = CacheWindow(
                self.cache,
                shape.first,
                places.writes,
                shape.length,
                places.slots,
                tiles=None if is_prompt else Tiles(places.starts, places.sizes, most),
                gathered=shape.gathered,
            )
            mask = None
            if is_prompt or not self._fused:
                mask = additive_mask(self._mask(places.positions, shape.length), self._dtype)
            return self._project(self._transformer(embeds, places.positions, mask, window))

        return forward

    def _shape(self, inputs: Sequence[SlotInput]) -> BatchShape:
        rows, length = self._covering(inputs)
        longest = max(p.size for p in inputs)
        if len(inputs) == 1 and longest > self._longest:
            return BatchShape(inputs[0].slot, 1, longest, length)
        if self._ragged:
            count = sum(p.size for p in inputs)
            return BatchShape(0, ragged_bucket(count), 1, length, gathered=True)
        return BatchShape(0, rows, bucket(longest), length)

    def _shapes(self, tokens: int) -> list[BatchShape]:
        """All shapes of steps of so many tokens: in each feed or, in a ragged batch, together."""
        most = min(self.cache.slots, MAX_AUDIO_ROWS) if self._gathers else self.cache.slots
        slots = {min(most, 1 << n) - 1 for n in range(9)}
        ends = {min(self.cache.positions, MIN_CACHE_LENGTH << n) for n in range(16)}
        if self._ragged:
            lengths = sorted({self._rounded_up(0, end)[1] for end in ends})
            return [BatchShape(0, tokens, 1, length, gathered=True) for length in lengths]
        found = {self._rounded_up(slot, end) for slot in slots for end in ends}
        return [
            BatchShape(0, rows, tokens, length, self._gathers) for rows, length in sorted(found)
        ]

    def _covering(self, inputs: Sequence[SlotInput]) -> tuple[int, int]:
        return self._rounded_up(max(p.slot for p in inputs), max(p.end for p in inputs))

    def _rounded_up(self, slot: int, end: int) -> tuple[int, int]:
        """Rows and length that cover `slot` and `end`; the maximum of both with fixed shapes."""
        slots, positions = self.cache.slots, self.cache.positions
        if self._invariant:
            return slots, positions
        return min(slots, bucket(slot + 1)), min(positions, max(MIN_CACHE_LENGTH, bucket(end)))
