"""The operations of a decoder layer between its matrix products on a GPU: one or two Triton programs each."""

from __future__ import annotations

import torch
import triton
from torch import Tensor, nn

from antiphon.inference_worker.engines.minicpmo.model import triton_kernels as programs
from antiphon.inference_worker.engines.minicpmo.model.layer import (
    ForwardInputs,
    SelfAttention,
    TorchKernels,
)

MAX_QUERY_TOKENS = 16
"""Per row; more tokens are a prompt. With four heads per group, 16 tokens are 64 queries in one program."""

MIN_DOT_SIDE = 16
"""Smallest side of a product on tensor cores."""

SPLIT = 256
"""Cache entries that one program reads. A GPU has more cores than a session has key heads, so keys
are split.
"""

MANY_SPLITS = 64
"""Above this number of splits, the partial results exceed the registers of four warps."""

BLOCK = 64
GATE_BLOCK = 1024


class FusedKernels(TorchKernels):
    """Prompts use torch's attention: their matrix products outweigh the launch cost."""

    def add_norm(self, hidden: Tensor, update: Tensor, norm: nn.RMSNorm) -> tuple[Tensor, Tensor]:
        total, normed = torch.empty_like(hidden), torch.empty_like(hidden)
        width = hidden.shape[-1]
        programs.add_norm[(hidden.numel() // width,)](
            hidden,
            update,
            norm.weight,
            total,
            normed,
            norm.eps,
            WIDTH=width,
            BLOCK=triton.next_power_of_2(width),
            num_warps=8,
        )
        return total, normed

    def rotate_and_store(
        self, joint: Tensor, attention: SelfAttention, shared: ForwardInputs
    ) -> Tensor:
        sizes, cache = attention.sizes, shared.cache
        rows, new, _ = joint.shape
        queries = joint.new_empty(rows, new, sizes.query_heads, sizes.head_dim)
        entries = cache.entries(attention.index)
        # Without norms, a placeholder pointer that no program reads.
        gains = (
            (attention.q_norm.weight, attention.k_norm.weight) if sizes.head_norms else (joint,) * 2
        )
        programs.rotate_and_store[(rows * new, sizes.query_heads + 2 * sizes.key_heads)](
            joint,
            *gains,
            shared.cosines,
            shared.sines,
            cache.writes,
            queries,
            entries,
            cache.first,
            new,
            entries.stride(0),
            sizes.eps,
            QUERY_HEADS=sizes.query_heads,
            KEY_HEADS=sizes.key_heads,
            DIM=sizes.head_dim,
            HALF=triton.next_power_of_2(sizes.head_dim // 2),
            NORMED=sizes.head_norms,
            num_warps=1,
        )
        return queries

    def attend(self, queries: Tensor, attention: SelfAttention, shared: ForwardInputs) -> Tensor:
        rows, new, heads, dim = queries.shape
        key_heads = attention.sizes.key_heads
        group = heads // key_heads
        if new > MAX_QUERY_TOKENS:
            return super().attend(queries, attention, shared)
        cache = shared.cache
        entries = cache.entries(attention.index)
        splits = triton.cdiv(cache.length, SPLIT)
        together, wide = (max(MIN_DOT_SIDE, triton.next_power_of_2(n)) for n in (new * group, dim))
        weights = queries.new_empty(rows * key_heads, splits, together, dtype=torch.float32)
        parts = weights.new_empty(*weights.shape, wide)
        mixed = queries.new_empty(rows, new, heads * dim)
        shape = {
            "GROUP": group,
            "KEY_HEADS": key_heads,
            "DIM": dim,
            "WIDE": wide,
            "QUERIES": together,
        }
        programs.attend_split[(rows * key_heads, splits)](
            queries,
            entries,
            shared.positions,
            parts,
            weights,
            cache.first,
            new,
            cache.length,
            entries.stride(0),
            dim**-0.5,
            **shape,
            SPLIT=SPLIT,
            BLOCK=BLOCK,
            num_warps=4,
            num_stages=2,
        )
        programs.combine_splits[(rows * key_heads, new * group)](
            parts,
            weights,
            mixed,
            new,
            splits,
            **shape,
            SPLITS=triton.next_power_of_2(splits),
            num_warps=4 if splits <= MANY_SPLITS else 8,
        )
        return mixed

    def gate(self, joint: Tensor) -> Tensor:
        rows, new, double = joint.shape
        width = double // 2
        fed = joint.new_empty(rows, new, width)
        programs.gate[(rows * new, triton.cdiv(width, GATE_BLOCK))](
            joint, fed, WIDTH=width, BLOCK=GATE_BLOCK, num_warps=4
        )
        return fed
