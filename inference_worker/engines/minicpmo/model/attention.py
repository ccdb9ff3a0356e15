"""Attention over a slotted cache: the keys and values of every slot, masks, and rotary positions."""

from __future__ import annotations

from dataclasses import dataclass, field

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


class SlottedCache:
    """Per layer (slots, positions + 1, 2, heads, dim). Padding is written to the extra position."""

    def __init__(
        self,
        *,
        layers: int,
        slots: int,
        positions: int,
        heads: int,
        head_dim: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.slots = slots
        self.positions = positions
        shape = (slots, positions + 1, 2, heads, head_dim)
        self.entries = [torch.zeros(shape, device=device, dtype=dtype) for _ in range(layers)]
        self.keys = [entries[:, :, 0] for entries in self.entries]
        self.values = [entries[:, :, 1] for entries in self.entries]

    @property
    def bytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in self.entries)

    def clear(self, slot: int) -> None:
        """Zero a slot, so that no values of a session remain, not even a NaN."""
        for entries in self.entries:
            entries[slot].zero_()

    def shift(self, slot: int, source: int, target: int, count: int, inv_freq: Tensor) -> None:
        """Move `count` entries to new positions and rotate their keys to match. Ranges may overlap."""
        by = rotation_tables((target - source) * inv_freq.float(), torch.float32)
        for keys, values in zip(self.keys, self.values, strict=True):
            moved = keys[slot, source : source + count].float()
            keys[slot, target : target + count] = rotate(moved, *by).to(keys.dtype)
            kept = values[slot, source : source + count].clone()
            values[slot, target : target + count] = kept


@dataclass(slots=True)
class CacheWindow:
    """The rows and positions of one forward pass: the cache as attention layers see it.

    `writes` (rows, new) is the position of each new entry, or `cache.positions` to discard it, and
    `slots` (rows, new) its slot. The layers read the first `length` positions.

    In a padded batch, the rows are slot `first` and following. In a `ragged` batch, each row is one
    token of any slot.

    `tiles` (rows, new) divides the tokens into tiles for the fused attention: consecutive tokens of
    one slot. The first token of a tile has their number, the others have 0. Without tiles, as in a
    prompt, torch's attention runs.
    """

    cache: SlottedCache
    first: int
    writes: Tensor
    length: int
    slots: Tensor = field(default_factory=lambda: torch.empty(0))
    tiles: Tensor | None = None
    ragged: bool = False

    def __post_init__(self) -> None:
        if not len(self.slots):
            rows = torch.arange(len(self.writes), device=self.writes.device)[:, None]
            self.slots = (rows + self.first).expand_as(self.writes).contiguous()

    def entries(self, layer: int) -> Tensor:
        """All of a layer, (slots, positions + 1, 2, heads, dim): keys and values."""
        return self.cache.entries[layer]

    def store(self, entries: Tensor, layer: int) -> None:
        """Put (rows, new, 2, heads, dim) where `writes` says."""
        self.cache.entries[layer][self.slots, self.writes] = entries

    def read(self, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values of the rows, each (rows, heads, length, dim). Ragged rows are copies."""
        entries = self.cache.entries[layer]
        if self.ragged:
            rows = entries[:, : self.length].index_select(0, self.slots[:, 0])
        else:
            rows = entries[self.first : self.first + len(self.writes), : self.length]
        keys, values = rows.transpose(1, 3).unbind(2)
        return keys, values

    def update(self, keys: Tensor, values: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        """The interface of the library's layers: store (rows, heads, new, dim), return all entries."""
        self.store(torch.stack([keys, values], dim=2).transpose(1, 3), layer)
        return self.read(layer)


def tile_counts(tokens: int, tile: int) -> list[int]:
    """The `tiles` of `tokens` consecutive tokens of one slot, at most `tile` in each."""
    return [0 if n % tile else min(tile, tokens - n) for n in range(tokens)]
