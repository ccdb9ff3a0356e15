"""Rotary positions, half-split: the first half of a head rotates with the second."""

from __future__ import annotations

import torch
from torch import Tensor


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
    """Rotate `heads` (..., head_dim). This takes three kernels; negating and concatenating halves
    takes five.
    """
    swapped = heads.roll(heads.shape[-1] // 2, -1)
    return torch.addcmul(heads * cosines, swapped, sines)
