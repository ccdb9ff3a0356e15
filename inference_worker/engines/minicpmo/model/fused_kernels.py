"""The operations of a decoder layer between its matrix products on a GPU: one or two Triton programs each."""

from typing import ClassVar

import torch
import triton
from torch import Tensor, nn
from torch.nn.functional import linear

from antiphon.inference_worker.engines.minicpmo.model import triton_kernels as programs
from antiphon.inference_worker.engines.minicpmo.model.layer import (
    ForwardInputs,
    SelfAttention,
    TorchKernels,
)
from antiphon.inference_worker.engines.minicpmo.model.quantized_weight import (
    QuantizedWeight,
    Weight,
)

MIN_DOT_SIDE = 16
"""Smallest side of a product on tensor cores."""

SPLIT, MAX_SPLITS = 256, 16
"""Cache entries that one program reads, and how many programs share those of a token. A GPU has more cores
than a session has key heads, so keys are split. In a cache of more than 4096 entries, splits are longer.
"""

FEW_TOKENS, WIDE_TILE = 32, 64
"""In a step of more tokens, tiles have up to WIDE_TILE queries: a picture reads the cache of its session once
for 16 tokens.
"""

MAX_PACKED_TOKENS = 256
"""Above this number of tokens, a quantised weight is unpacked first, and multiplied by cuBLAS."""

MAX_PACKED_ROWS = 64
"""Tokens of one program."""

PACKED_COLUMNS = 32
"""Outputs of one program: few, so that a product of 4096 outputs occupies 128 multiprocessors."""

FEW_ROWS, MANY_STAGES, FEW_STAGES = 32, 6, 3
"""Groups of weights in flight, so that few programs read at the rate of the memory of Hopper. With more than
FEW_ROWS tokens, so many groups would not fit a multiprocessor.
"""

GROUPS_AT_ONCE = 16

BLOCK = 64
GATE_BLOCK = 1024


class FusedKernels(TorchKernels):
    """Prompts use torch's attention: their matrix products outweigh the launch cost."""

    ragged: ClassVar[bool] = True

    def tile(self, group: int, tokens: int) -> int:
        return _queries(group, tokens) // group

    def multiply(self, given: Tensor, weight: Weight) -> Tensor:
        if not isinstance(weight, QuantizedWeight):
            return super().multiply(given, weight)
        outputs, tokens = len(weight.values), given.numel() // weight.inputs
        given = weight.ordered(given)
        if tokens > MAX_PACKED_TOKENS:
            return linear(given, _unpacked(weight, given.dtype))
        made = given.new_empty(*given.shape[:-1], outputs)
        rows = min(MAX_PACKED_ROWS, max(MIN_DOT_SIDE, triton.next_power_of_2(tokens)))
        programs.multiply_packed[(triton.cdiv(outputs, PACKED_COLUMNS), triton.cdiv(tokens, rows))](
            given.contiguous(),
            *_tensors(weight),
            made,
            tokens,
            outputs,
            INPUTS=weight.inputs,
            GROUP=weight.tile,
            GROUPS=weight.scales.shape[1],
            BITS=weight.bits,
            ROWS=rows,
            COLUMNS=PACKED_COLUMNS,
            num_warps=4,
            num_stages=MANY_STAGES if rows <= FEW_ROWS else FEW_STAGES,
        )
        return made

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
            cache.slots,
            queries,
            entries,
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
        cache = shared.cache
        if cache.tiles is None:
            return super().attend(queries, attention, shared)
        rows, new, heads, dim = queries.shape
        key_heads = attention.sizes.key_heads
        group = heads // key_heads
        entries = cache.entries(attention.index)
        pairs = rows * new * key_heads
        split = max(SPLIT, triton.cdiv(cache.length, MAX_SPLITS))
        splits = triton.cdiv(cache.length, split)
        wide = max(MIN_DOT_SIDE, triton.next_power_of_2(dim))
        weights = queries.new_empty(pairs, splits, group, dtype=torch.float32)
        parts = weights.new_empty(*weights.shape, wide)
        mixed = queries.new_empty(rows, new, heads * dim)
        programs.attend_split[(cache.tiles.most * key_heads, splits)](
            queries,
            entries,
            shared.positions,
            cache.slots,
            cache.tiles.starts,
            cache.tiles.sizes,
            parts,
            weights,
            cache.length,
            split,
            entries.stride(0),
            dim**-0.5,
            GROUP=group,
            KEY_HEADS=key_heads,
            DIM=dim,
            WIDE=wide,
            QUERIES=_queries(group, rows * new),
            BLOCK=BLOCK,
            num_warps=4,
            num_stages=2,
        )
        programs.combine_splits[(pairs, group)](
            parts,
            weights,
            mixed,
            splits,
            GROUP=group,
            DIM=dim,
            WIDE=wide,
            SPLITS=triton.next_power_of_2(splits),
            num_warps=4,
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


def _unpacked(weight: QuantizedWeight, dtype: torch.dtype) -> Tensor:
    """The weight (outputs, inputs)."""
    outputs, groups = len(weight.scales), weight.inputs // weight.tile
    made = weight.values.new_empty(outputs, weight.inputs, dtype=dtype)
    programs.unpack[(outputs, triton.cdiv(groups, GROUPS_AT_ONCE))](
        *_tensors(weight),
        made,
        INPUTS=weight.inputs,
        GROUP=weight.tile,
        GROUPS=weight.scales.shape[1],
        BITS=weight.bits,
        BLOCK=GROUPS_AT_ONCE,
        num_warps=4,
    )
    return made


def _tensors(weight: QuantizedWeight) -> tuple[Tensor, Tensor, Tensor]:
    """Values, scales and zeros; without zeros a placeholder pointer that no program reads."""
    return weight.values, weight.scales, weight.scales if weight.zeros is None else weight.zeros


def _queries(group: int, tokens: int) -> int:
    """Queries of one attention program: in a step of few tokens few, so that a single one wastes little."""
    least = MIN_DOT_SIDE if tokens <= FEW_TOKENS else WIDE_TILE
    return int(max(least, triton.next_power_of_2(group)))
