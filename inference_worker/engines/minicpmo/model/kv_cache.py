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

    `writes` (rows, new) is the position of each new entry, or `cache.positions` to discard it. The
    layers read the first `length` positions of rows `first` and following.
    """

    cache: SlottedCache
    first: int
    writes: Tensor
    length: int
    _rows: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self._rows = torch.arange(len(self.writes), device=self.writes.device)[:, None]

    def entries(self, layer: int) -> Tensor:
        """All of a layer, (slots, positions + 1, 2, heads, dim): keys and values."""
        return self.cache.entries[layer]

    def store(self, entries: Tensor, layer: int) -> None:
        """Put (rows, new, 2, heads, dim) where `writes` says."""
        rows = self.cache.entries[layer][self.first : self.first + len(entries)]
        rows[self._rows, self.writes] = entries

    def read(self, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values of the rows, each (rows, heads, length, dim)."""
        rows = self.cache.entries[layer][self.first : self.first + len(self.writes), : self.length]
        keys, values = rows.transpose(1, 3).unbind(2)
        return keys, values

    def update(self, keys: Tensor, values: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        """The interface of the library's layers: store (rows, heads, new, dim), return all entries."""
        self.store(torch.stack([keys, values], dim=2).transpose(1, 3), layer)
        return self.read(layer)
