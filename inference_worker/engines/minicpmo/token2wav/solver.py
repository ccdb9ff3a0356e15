"""The solver of the flow for several streams: Euler steps over the package's DiT blocks.

A block runs as in the package, but values that depend on the time alone are computed once, and each
stream has its keys and values. New entries precede old ones, as in the package.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import layer_norm, scaled_dot_product_attention

from antiphon.inference_worker.engines.minicpmo.device import device_tensor
from antiphon.inference_worker.engines.minicpmo.model.attention import additive_mask

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


class _Modulation(NamedTuple):
    """Weight and bias of a norm at some time, and the gate of the next operation (none at the end)."""

    weight: Tensor
    bias: Tensor
    gate: Tensor


@dataclass(frozen=True, slots=True)
class _Step:
    length: Tensor
    blocks: list[tuple[_Modulation, _Modulation, _Modulation]]
    final: _Modulation


class Solver:
    """Solves with `decoder` in `steps` steps. States retain keys and values in the type `retained`."""

    def __init__(self, decoder: Any, steps: int, retained: torch.dtype) -> None:
        self._retained = retained
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
        self, conditions: Tensor, states: Sequence[SolverState]
    ) -> tuple[Tensor, SolverState]:
        """Mel (streams, frames, mels) from conditions (streams, frames, 3 x mels).

        The returned state has an additional dimension, the streams, before that of 2, and contains
        only the new entries.
        """
        frames = conditions.shape[1]
        starts = [state.attention.shape[-2] for state in states]
        x = torch.stack([self._noise[start : start + frames] for start in starts])
        room, mask = _step_entries(states, frames, x.dtype)
        both = torch.stack([conditions, torch.zeros_like(conditions)], 1)
        before = torch.stack([state.convs for state in states], 2)
        shape = (len(self._steps), *room.shape[:-2], frames, room.shape[-1])
        new = room.new_empty(shape, dtype=self._retained)
        convs = []
        for number, step in enumerate(self._steps):
            for row, (state, start) in enumerate(zip(states, starts, strict=True)):
                room[:, row, ..., frames : frames + start, :] = state.attention[number]
            given = torch.cat([x.unsqueeze(1).expand(-1, 2, -1, -1), both], -1)
            flow, conv = self._flow(
                step, given.flatten(0, 1), room.flatten(1, 2), before[number].flatten(1, 2), mask
            )
            x = x.addcmul(flow[1::2].lerp(flow[::2], self._guidance), step.length)
            new[number] = room[..., :frames, :]
            convs.append(conv)
        return x, SolverState(new, torch.stack(convs).view_as(before))

    def _flow(
        self, step: _Step, x: Tensor, room: Tensor, convs: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Velocity (rows, frames, mels) and the new state of the convolutions (blocks, rows, channels, 2)."""
        x, seen = self._dit.in_proj(x), []
        for block, (attend, convolve, feed), entries, conv in zip(
            self._dit.blocks, step.blocks, room, convs, strict=True
        ):
            mixed = _attention(block.attn, _modulated_norm(block.norm1, x, attend), entries, mask)
            x = torch.addcmul(x, attend.gate, mixed)
            mixed, conv = block.conv.forward_chunk(_modulated_norm(block.norm3, x, convolve), conv)
            x = torch.addcmul(x, convolve.gate, mixed)
            x = torch.addcmul(x, feed.gate, block.mlp(_modulated_norm(block.norm2, x, feed)))
            seen.append(conv)
        last = self._dit.final_layer
        return last.linear(_modulated_norm(last.norm_final, x, step.final)), torch.stack(seen)

    def _step(self, time: Tensor, length: Tensor) -> _Step:
        embedded = self._dit.t_embedder(time.unsqueeze(0))[0]
        blocks = []
        for block in self._dit.blocks:
            shift, scale, gate = block.adaLN_modulation(embedded).unflatten(0, (3, 3, -1)).unbind(1)
            attend, feed, convolve = (
                _Modulation(1 + weight, bias, through)
                for weight, bias, through in zip(scale, shift, gate, strict=True)
            )
            blocks.append((attend, convolve, feed))
        bias, scale = self._dit.final_layer.adaLN_modulation(embedded).chunk(2)
        return _Step(length, blocks, _Modulation(1 + scale, bias, torch.ones_like(bias)))


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
    rows = device_tensor([own_length for own_length in own for _ in range(2)], first.device)
    visible = torch.arange(length, device=first.device) < rows[:, None]
    return room, additive_mask(visible[:, None, None], dtype)


def _modulated_norm(norm: Any, x: Tensor, at: _Modulation) -> Tensor:
    return layer_norm(x, norm.normalized_shape, at.weight, at.bias, norm.eps)


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
