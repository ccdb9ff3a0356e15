"""The conformer encoder of the flow for several streams: codes to what the solver is conditioned on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from antiphon.inference_worker.engines.minicpmo.placing import placed

CONV_FRAMES = 2
"""Of the memory of the two convolutions, the first one's."""


@dataclass(frozen=True, slots=True)
class EncoderMemory:
    """What the encoder keeps of one stream.

    Keys and values (layers, heads, entries, 2 x dim) at 25 and at 50 a second, and the last inputs of
    its convolutions (channels, 6).
    """

    codes: Tensor
    frames: Tensor
    convs: Tensor


class BatchedEncoder:
    """Runs the modules of `flow.encoder`, which take any number of rows.

    Positions are relative and count from the end, so memories of different lengths are filled up on the
    left, where a mask hides what is not theirs.
    """

    def __init__(self, flow: Any) -> None:
        self._flow = flow
        self._encoder = flow.encoder

    def nothing(self) -> EncoderMemory:
        """The memory of a stream that has heard nothing."""
        encoder, weight = self._encoder, self._encoder.after_norm.weight
        attention = encoder.encoders[0].self_attn
        shape = (attention.h, 0, 2 * attention.d_k)
        return EncoderMemory(
            weight.new_zeros(len(encoder.encoders), *shape),
            weight.new_zeros(len(encoder.up_encoders), *shape),
            weight.new_zeros(encoder.output_size(), CONV_FRAMES + 2 * encoder.up_layer.stride),
        )

    def encode(
        self, codes: Tensor, memories: Sequence[EncoderMemory], *, ends: bool
    ) -> tuple[Tensor, list[EncoderMemory]]:
        """From (streams, codes) with lookahead to (streams, frames, mels), and the memories as grown.

        At a turn's end nothing is looked ahead to. The memories are views of the batch.
        """
        encoder = self._encoder
        x, _, _ = encoder.embed(self._flow.input_embedding(codes), None)
        if ends:
            x = pad(x, (0, 0, 0, encoder.pre_lookahead_layer.pre_lookahead_len))
        before = torch.stack([memory.convs for memory in memories])
        conv, up_conv = before[..., :CONV_FRAMES], before[..., CONV_FRAMES:]
        x, conv = encoder.pre_lookahead_layer.forward_chunk(x, cache=conv)
        x, by_code = self._attend(encoder.encoders, x, [memory.codes for memory in memories])
        x, _, up_conv = encoder.up_layer.forward_chunk(
            x.transpose(1, 2).contiguous(), None, cache=up_conv
        )
        x, _, _ = encoder.up_embed(x.transpose(1, 2).contiguous(), None)
        x, by_frame = self._attend(encoder.up_encoders, x, [memory.frames for memory in memories])
        if encoder.normalize_before:
            x = encoder.after_norm(x)
        grown = zip(by_code, by_frame, torch.cat([conv, up_conv], 2), strict=True)
        return self._flow.encoder_proj(x), [EncoderMemory(*parts) for parts in grown]

    def _attend(
        self, layers: Iterable[Any], x: Tensor, memories: Sequence[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        lengths, new = [memory.shape[-2] for memory in memories], x.shape[1]
        longest = max(lengths)
        missing = [longest - length for length in lengths]
        before = torch.stack(
            [
                pad(m, (0, 0, gap, 0)) if gap else m
                for m, gap in zip(memories, missing, strict=True)
            ],
            1,
        )
        mask = _visible(missing, longest + new, x.device)
        positions = self._encoder.embed.position_encoding(offset=None, size=longest + new)
        grown = []
        for layer, entries in zip(layers, before, strict=True):
            x, _, entries, _ = layer(x, mask, positions, att_cache=entries)
            grown.append(entries)
        whole = torch.stack(grown)
        return x, [whole[:, row, :, gap:] for row, gap in enumerate(missing)]


def _visible(missing: Sequence[int], length: int, device: torch.device) -> Tensor:
    """(streams, 1, length), True where an entry is the stream's own; empty where all are."""
    if not any(missing):
        return torch.zeros((0, 0, 0))
    gaps = placed(missing, device)
    return (torch.arange(length, device=device) >= gaps[:, None]).unsqueeze(1)
