"""Keys and values of every slot, in one allocation per layer. A session owns one row."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.model.attention import rotate, rotation_tables


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
