"""Attention of torch, masks, and rotary positions."""

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

GROUPED_SDPA = "grouped_sdpa"


def grouped_sdpa(
    _module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **_ignored: object,
) -> tuple[Tensor, None]:
    """Attend with (rows, heads, new, dim) queries; the mask is additive, (rows, 1, new or 1, all).

    Query heads that share a key head are folded into one sequence: repeating the keys would copy the
    cache.
    """
    rows, heads, new, dim = query.shape
    group = heads // key.shape[1]
    if group > 1:
        query = query.reshape(rows, heads // group, group * new, dim)
        if attention_mask is not None and attention_mask.shape[2] > 1:
            attention_mask = attention_mask.repeat(1, 1, group, 1)
    mixed = scaled_dot_product_attention(query, key, value, attention_mask, scale=scaling)
    return mixed.reshape(rows, heads, new, dim).transpose(1, 2).contiguous(), None


def causal_mask(positions: Tensor, length: int) -> Tensor:
    """True where a token at `positions` (rows, new) sees a cache entry: (rows, 1, new, length)."""
    entries = torch.arange(length, device=positions.device)
    return (entries <= positions.unsqueeze(-1)).unsqueeze(1)


def chunk_mask(positions: Tensor, length: int) -> Tensor:
    """True up to the end of the chunk that is at `positions` (rows, new): (rows, 1, 1, length)."""
    return causal_mask(positions[:, -1:], length)


def additive_mask(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """A boolean mask as an additive one. With a boolean mask every layer would do this conversion again."""
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, float("-inf"))


AttentionInterface.register(GROUPED_SDPA, grouped_sdpa)


def frequencies(theta: float, head_dim: int) -> Tensor:
    """Radians per position of each pair, (head_dim / 2,), always computed on the CPU."""
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float32, device="cpu") / head_dim
    return 1.0 / theta**exponents


def rotation_tables(angles: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Tables for `rotate` from `angles` (..., head_dim / 2): cosines, and sines with a negative first half."""
    cosines, sines = angles.cos(), angles.sin()
    doubled = torch.cat([cosines, cosines], dim=-1), torch.cat([-sines, sines], dim=-1)
    return doubled[0].to(dtype), doubled[1].to(dtype)


def rotate(heads: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Rotate `heads` (..., head_dim): the first half of a head with the second. This takes three kernels;
    negating and concatenating halves takes five.
    """
    swapped = heads.roll(heads.shape[-1] // 2, -1)
    return torch.addcmul(heads * cosines, swapped, sines)
