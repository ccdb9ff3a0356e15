"""The solver of the flow for several streams: Euler steps over the package's DiT blocks.

A block runs as in the package, but values that depend on the time alone are computed once, and each
stream has its keys and values. New entries precede old ones, as in the package.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import layer_norm, pad, scaled_dot_product_attention

from antiphon.inference_worker.engines.minicpmo.device import device_tensor
from antiphon.inference_worker.engines.minicpmo.model.attention import additive_mask
from antiphon.inference_worker.engines.minicpmo.token2wav.vocoder import ChunkGraphs

RETAINED = torch.float16
"""Type of the keys and values that a stream retains. Half of float32's memory, and eight times as
exact as bfloat16: keys are normed, so none is large.
"""

ALIGNED = 8
"""Attention copies a mask whose rows are not a multiple of this."""


class SolverState(NamedTuple):
    """The solver state of one stream.

    `attention` is keys and values (steps, blocks, 2, heads, entries, 2 x dim), `convs` the last
    inputs of the blocks' convolutions (steps, blocks, 2, channels, 2). The dimension of 2 is with
    and without conditions.
    """

    attention: Tensor
    convs: Tensor


@dataclass(frozen=True, slots=True)
class _Step:
    """Of one solver step: its length; for each block, weight, bias and gate of attention, convolution
    and feed-forward (blocks, 3, 3, channels); and weight and bias of the last norm (2, channels).
    """

    length: Tensor
    blocks: Tensor
    final: Tensor


class Solver:
    """Solves with `decoder` in `steps` steps. States retain keys and values in the type `retained`."""

    def __init__(
        self, decoder: Any, steps: int, retained: torch.dtype, graphs: ChunkGraphs
    ) -> None:
        self._retained = retained
        self._graphs = graphs
        self._dit = decoder.estimator
        self._guidance = 1.0 + float(decoder.inference_cfg_rate)
        self._noise = decoder.rand_noise[0].transpose(0, 1).contiguous()
        self._steps = [self._step(*times) for times in _times(steps, self._noise)]

    def initial_state(self) -> SolverState:
        block = self._dit.blocks[0]
        attn, conv = block.attn, block.conv
        shape = (len(self._steps), len(self._dit.blocks), 2)
        return SolverState(
            self._noise.new_zeros(
                *shape, attn.num_heads, 0, 2 * attn.head_dim, dtype=self._retained
            ),
            self._noise.new_zeros(
                *shape, conv.in_channels + conv.out_channels, conv.kernel_size - 1
            ),
        )

    def solve(
        self, conditions: Tensor, states: Sequence[SolverState], rows: int | None = None
    ) -> tuple[Tensor, SolverState]:
        """Mel (streams, frames, mels) from conditions (streams, frames, 3 x mels).

        The returned state has an additional dimension, the streams, before that of 2, and contains
        only the new entries. With `rows` the steps run in the graph of this many streams.
        """
        streams, frames = len(states), conditions.shape[1]
        if rows is None:
            room, mask = _step_entries(states, frames, conditions.dtype)
        else:
            conditions = pad(conditions, (0, 0, 0, 0, 0, rows - streams))
            states = [*states, *[self.initial_state()] * (rows - streams)]
            room, mask = (
                self._static_room(rows, frames),
                _mask(states, frames, self._length(frames)),
            )
            room.zero_()  # an entry of an earlier batch that is not finite would spread
        starts = [state.attention.shape[-2] for state in states]
        x = torch.stack([self._noise[start : start + frames] for start in starts])
        both = torch.stack([conditions, torch.zeros_like(conditions)], 1)
        before = torch.stack([state.convs for state in states], 2)
        shape = (len(self._steps), *room.shape[:-2], frames, room.shape[-1])
        new = room.new_empty(shape, dtype=self._retained)
        convs = []

        def forward(*inputs: Tensor) -> tuple[Tensor, Tensor]:
            return self._advance(room, *inputs)

        for number, step in enumerate(self._steps):
            for row, (state, start) in enumerate(zip(states, starts, strict=True)):
                room[:, row, ..., frames : frames + start, :] = state.attention[number]
            inputs = (x, both, before[number], step.length, step.blocks, step.final)
            if rows is None or mask is None:
                x, conv = self._advance(room, *inputs, mask)
            else:
                x, conv = self._graphs.run(("step", rows), (*inputs, mask), forward)
            new[number] = room[..., :frames, :]
            convs.append(conv)
        grown = SolverState(new, torch.stack(convs).view_as(before))
        if rows is None:
            return x, grown
        return x[:streams], SolverState(*(part[:, :, :streams] for part in grown))

    def _length(self, frames: int) -> int:
        """Entries of a stream in a graph, old and new."""
        return -(-(self._graphs.past + frames) // ALIGNED) * ALIGNED

    def _static_room(self, rows: int, frames: int) -> Tensor:
        """A view of the keys and values that all graphs of solver steps share."""
        whole = self._graphs.buffers.get("room")
        if whole is None:
            attn, blocks = self._dit.blocks[0].attn, len(self._dit.blocks)
            shape = (attn.num_heads, self._length(frames), 2 * attn.head_dim)
            largest = max((rows, *self._graphs.sizes))  # no sizes: a capture failed in this chunk
            whole = self._noise.new_empty(blocks, largest, 2, *shape)
            self._graphs.buffers["room"] = whole
        return whole[:, :rows]

    def _advance(
        self,
        room: Tensor,
        x: Tensor,
        conditions: Tensor,
        convs: Tensor,
        length: Tensor,
        blocks: Tensor,
        final: Tensor,
        mask: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """The mel after one step, with and without conditions, and the new state of the convolutions
        (blocks, rows, channels, 2). New keys and values are stored in `room`.
        """
        given = torch.cat([x.unsqueeze(1).expand(-1, 2, -1, -1), conditions], -1)
        flow, convs = self._flow(
            given.flatten(0, 1), room.flatten(1, 2), convs.flatten(1, 2), blocks, final, mask
        )
        return x.addcmul(flow[1::2].lerp(flow[::2], self._guidance), length), convs

    def _flow(
        self,
        x: Tensor,
        room: Tensor,
        convs: Tensor,
        times: Tensor,
        final: Tensor,
        mask: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Velocity (rows, frames, mels) and the new state of the convolutions (blocks, rows, channels, 2)."""
        x, seen = self._dit.in_proj(x), []
        for block, time, entries, conv in zip(self._dit.blocks, times, room, convs, strict=True):
            attend, convolve, feed = (part.unbind() for part in time)
            mixed = _attention(
                block.attn, _modulated_norm(block.norm1, x, *attend[:2]), entries, mask
            )
            x = torch.addcmul(x, attend[2], mixed)
            normed = _modulated_norm(block.norm3, x, *convolve[:2])
            mixed, conv = block.conv.forward_chunk(normed, conv)
            x = torch.addcmul(x, convolve[2], mixed)
            x = torch.addcmul(x, feed[2], block.mlp(_modulated_norm(block.norm2, x, *feed[:2])))
            seen.append(conv)
        last = self._dit.final_layer
        return last.linear(_modulated_norm(last.norm_final, x, *final)), torch.stack(seen)

    def _step(self, time: Tensor, length: Tensor) -> _Step:
        embedded = self._dit.t_embedder(time.unsqueeze(0))[0]
        blocks = []
        for block in self._dit.blocks:
            shift, scale, gate = block.adaLN_modulation(embedded).unflatten(0, (3, 3, -1)).unbind(1)
            attend, feed, convolve = torch.stack([1 + scale, shift, gate], 1)
            blocks.append(torch.stack([attend, convolve, feed]))
        bias, scale = self._dit.final_layer.adaLN_modulation(embedded).chunk(2)
        return _Step(length, torch.stack(blocks), torch.stack([1 + scale, bias]))


def _times(steps: int, like: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Start time and length of each step. They are summed like in the package, because the blocks
    scale time by 1000.
    """
    ends = torch.linspace(0, 1, steps + 1, device=like.device, dtype=like.dtype)
    ends = 1 - torch.cos(ends * 0.5 * torch.pi)
    times, time = [], ends[0]
    for end in ends[1:]:
        times.append((time, end - time))
        time = time + (end - time)
    return times


def _step_entries(
    states: Sequence[SolverState], frames: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor | None]:
    """Space for the keys and values of one step: (blocks, streams, 2, heads, new and old, 2 x dim).

    Streams with fewer old entries are padded on the right; the additive mask (rows, 1, 1, new and
    old) hides the padding.
    """
    own = [frames + state.attention.shape[-2] for state in states]
    first = states[0].attention
    if len(set(own)) == 1:
        shape = (first.shape[1], len(own), *first.shape[2:4], own[0], first.shape[-1])
        return first.new_empty(shape, dtype=dtype), None
    length = -(-max(own) // ALIGNED) * ALIGNED
    room = first.new_zeros(
        first.shape[1], len(own), *first.shape[2:4], length, first.shape[-1], dtype=dtype
    )  # hidden entries must be finite
    return room, _mask(states, frames, length)


def _mask(states: Sequence[SolverState], frames: int, length: int) -> Tensor:
    """The additive mask (rows, 1, 1, length) that hides what is beyond the entries of a stream."""
    own = [frames + state.attention.shape[-2] for state in states for _ in range(2)]
    first = states[0].convs
    visible = torch.arange(length, device=first.device) < device_tensor(own, first.device)[:, None]
    return additive_mask(visible[:, None, None], first.dtype)


def _modulated_norm(norm: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return layer_norm(x, norm.normalized_shape, weight, bias, norm.eps)


def _attention(attn: Any, x: Tensor, entries: Tensor, mask: Tensor | None) -> Tensor:
    """Attend from (rows, frames, channels) to `entries`, and store the new keys and values there."""
    frames, heads = x.shape[1], (attn.num_heads, attn.head_dim)
    keys, values = entries.chunk(2, -1)
    keys[..., :frames, :] = attn.k_norm(attn.to_k(x).unflatten(-1, heads)).transpose(1, 2)
    values[..., :frames, :] = attn.to_v(x).unflatten(-1, heads).transpose(1, 2)
    queries = attn.q_norm(attn.to_q(x).unflatten(-1, heads)).transpose(1, 2)
    mixed = scaled_dot_product_attention(queries, keys, values, mask)
    out: Tensor = attn.proj(mixed.transpose(1, 2).flatten(2))
    return out
