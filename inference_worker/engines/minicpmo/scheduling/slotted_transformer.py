"""A transformer with its slotted cache: batches of new tokens in, hidden states out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.device import device_tensor
from antiphon.inference_worker.engines.minicpmo.model.attention import (
    additive_mask,
    causal_mask,
    chunk_mask,
)
from antiphon.inference_worker.engines.minicpmo.model.audio import AudioEncoder
from antiphon.inference_worker.engines.minicpmo.model.decoder import Decoder
from antiphon.inference_worker.engines.minicpmo.model.kv_cache import CacheWindow, SlottedCache
from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.minicpmo.scheduling.cuda_graphs import (
    ForwardFunction,
    GraphPool,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import MAX_BATCHED_TOKENS, bucket

MIN_CACHE_LENGTH = 256

TEXT_GRAPHS = (1, 2, 16)
"""Tokens per feed in a unit: one by one, the two that end it, the eleven of a second of audio."""

SPEECH_GRAPHS = (1,)
AUDIO_GRAPHS = (50,)
"""Steps of one second of audio after the convolutions."""


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
    """What a forward pass covers: `rows` from row `first` on, `new` tokens each, `length` of the cache."""

    first: int
    rows: int
    new: int
    length: int


class SlottedTransformer:
    """One transformer over one cache. Steps of `graphed` tokens use CUDA graphs if enabled.

    `mask` maps positions (rows, new) to visible entries (rows, 1, new or 1, length).
    """

    def __init__(
        self,
        transformer: Decoder | AudioEncoder,
        cache: SlottedCache,
        graphs: GraphPool,
        *,
        mask: Callable[[Tensor, int], Tensor],
        graphed: Sequence[int],
        invariant: bool,
    ) -> None:
        self._transformer = transformer
        self.cache = cache
        self._graphs = graphs
        self._graphed = graphed
        self._mask = mask
        self._invariant = invariant
        table = transformer.table
        self._device, self._dtype, self._width = table.device, table.dtype, table.shape[1]

    def forward(self, inputs: Sequence[SlotInput]) -> Tensor:
        """Append to each slot; the final hidden state of the last new token of each, (inputs, width)."""
        hidden, (rows, columns) = self._append(inputs, self._shape(inputs))
        final: Tensor = hidden[rows, columns]
        return final

    def states(self, slot_input: SlotInput) -> Tensor:
        """Append to one slot; the final hidden states of all new tokens, (n, width)."""
        shape = self._shape([slot_input])
        hidden, _ = self._append([slot_input], shape)
        return hidden[slot_input.slot - shape.first, : len(slot_input.embeds)]

    def rows(self, inputs: Sequence[SlotInput]) -> Tensor:
        """Append inputs of equal length; hidden states of all rows from the first, (rows, n, width)."""
        rows, length = self._covering(inputs)
        hidden, _ = self._append(inputs, BatchShape(0, rows, len(inputs[0].embeds), length))
        return hidden

    def _append(self, inputs: Sequence[SlotInput], shape: BatchShape) -> tuple[Tensor, Tensor]:
        """Hidden states of all rows, (rows, new, width), and the place of each last token, (2, inputs)."""
        positions, writes, real, last = self._tables(inputs, shape)
        embeds = self._zero_embeds(shape)
        embeds[real[0], real[1]] = torch.cat([p.embeds for p in inputs])
        return self._run(shape, (embeds, positions, writes)), last

    def _tables(self, inputs: Sequence[SlotInput], shape: BatchShape) -> list[Tensor]:
        """Positions and writes (rows, new); row and column of every token, and of the last ones.

        Built from Python integers and sent in one copy; building tensors takes the host three times
        as long.
        """
        positions = [[0] * shape.new for _ in range(shape.rows)]
        writes = [[self.cache.positions] * shape.new for _ in range(shape.rows)]
        for p in inputs:
            span, row = range(p.start, p.end), p.slot - shape.first
            positions[row][: len(span)] = writes[row][: len(span)] = span
        own = [(p.slot - shape.first, len(p.embeds)) for p in inputs]
        rows = [row for row, count in own for _ in range(count)]
        columns = [column for _, count in own for column in range(count)]
        last = [row for row, _ in own], [count - 1 for _, count in own]
        packed = device_tensor(
            [*chain(*positions, *writes), *rows, *columns, *chain(*last)], self._device
        )
        sizes = [(shape.rows, shape.new)] * 2 + [(2, len(rows)), (2, len(own))]
        parts = torch.split(packed, [height * width for height, width in sizes])
        return [part.view(size) for part, size in zip(parts, sizes, strict=True)]

    def capture(self) -> int:
        """Capture the graphed steps at every possible shape; returns their number."""
        shapes = [shape for new in self._graphed for shape in self._shapes(new)]
        # The largest first: all others fit into the memory that it reserves.
        for shape in sorted(shapes, key=lambda s: s.rows * s.new * s.length, reverse=True):
            inputs = self._discarded_inputs(shape)
            self._graphs.capture((self._transformer, shape), inputs, self._forward_of(shape))
        return len(shapes)

    def warm_up(self) -> int:
        """Run every possible shape of a few tokens once, so that its kernels are loaded; returns
        their number.
        """
        sizes = [1 << n for n in range(MAX_BATCHED_TOKENS.bit_length())]
        shapes = [shape for new in sizes for shape in self._shapes(new)]
        for shape in shapes:
            self._forward_of(shape)(*self._discarded_inputs(shape))
        return len(shapes)

    def _discarded_inputs(self, shape: BatchShape) -> tuple[Tensor, Tensor, Tensor]:
        """Input that does not change the cache."""
        positions = torch.zeros(shape.rows, shape.new, dtype=torch.long, device=self._device)
        writes = torch.full_like(positions, self.cache.positions)
        return self._zero_embeds(shape), positions, writes

    def _zero_embeds(self, shape: BatchShape) -> Tensor:
        return torch.zeros(
            shape.rows, shape.new, self._width, dtype=self._dtype, device=self._device
        )

    def _run(self, shape: BatchShape, inputs: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        forward = self._forward_of(shape)
        if shape.new in self._graphed and self._graphs.enabled:
            return self._graphs.run((self._transformer, shape), inputs, forward)
        return forward(*inputs)

    def _forward_of(self, shape: BatchShape) -> ForwardFunction:
        def forward(embeds: Tensor, positions: Tensor, writes: Tensor) -> Tensor:
            window = CacheWindow(self.cache, shape.first, writes, shape.length)
            mask = additive_mask(self._mask(positions, shape.length), self._dtype)
            hidden: Tensor = self._transformer(embeds, positions, mask, window)
            return hidden

        return forward

    def _shape(self, inputs: Sequence[SlotInput]) -> BatchShape:
        rows, length = self._covering(inputs)
        longest = max(len(p.embeds) for p in inputs)
        if len(inputs) == 1 and longest > MAX_BATCHED_TOKENS:
            return BatchShape(inputs[0].slot, 1, longest, length)
        return BatchShape(0, rows, bucket(longest), length)

    def _shapes(self, new: int) -> list[BatchShape]:
        slots = {min(self.cache.slots, 1 << n) - 1 for n in range(9)}
        ends = {min(self.cache.positions, MIN_CACHE_LENGTH << n) for n in range(16)}
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


def build_transformers(
    network: MiniCPMO,
    graphs: GraphPool,
    *,
    slots: int,
    context: int,
    speech_context: int,
    invariant: bool,
) -> tuple[SlottedTransformer, SlottedTransformer, SlottedTransformer]:
    """For text, speech and audio: transformers over new caches of `slots` rows."""
    config = network.config
    text, audio, speech = config, config.audio_config, config.tts_config
    text_heads = text.num_key_value_heads, text.head_dim
    speech_heads = speech.num_key_value_heads, speech.head_dim
    audio_heads = audio.encoder_attention_heads, audio.d_model // audio.encoder_attention_heads

    def build(
        transformer: Decoder | AudioEncoder,
        mask: Callable[[Tensor, int], Tensor],
        graphed: Sequence[int],
        layers: int,
        positions: int,
        heads: tuple[int, int],
    ) -> SlottedTransformer:
        cache = SlottedCache(
            layers=layers,
            slots=slots,
            positions=positions,
            heads=heads[0],
            head_dim=heads[1],
            device=network.device,
            dtype=network.dtype,
        )
        return SlottedTransformer(
            transformer, cache, graphs, mask=mask, graphed=graphed, invariant=invariant
        )

    llm, tts, apm = network.llm.model, network.tts.model, network.apm
    length = audio.max_source_positions
    return (
        build(llm, causal_mask, TEXT_GRAPHS, text.num_hidden_layers, context, text_heads),
        build(
            tts, causal_mask, SPEECH_GRAPHS, speech.num_hidden_layers, speech_context, speech_heads
        ),
        build(apm, chunk_mask, AUDIO_GRAPHS, audio.encoder_layers, length, audio_heads),
    )
