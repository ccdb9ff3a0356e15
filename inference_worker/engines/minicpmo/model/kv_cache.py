"""The keys and values of every slot, and what one forward pass sees of them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.model.attention import rotate, rotation_tables

SHIFTED_VALUES = 2**23
"""Keys that are moved at a time. With their values and the steps of their rotation, one takes 20 bytes."""


class SlottedCache:
    """Per layer `entries` (slots, positions + 1, 2, heads, dim). Padding is written to the extra position."""

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
        shape = (layers, slots, positions + 1, 2, heads, head_dim)
        self._all = torch.zeros(shape, device=device, dtype=dtype)
        self.entries = self._all.unbind()
        self.keys = [entries[:, :, 0] for entries in self.entries]
        self.values = [entries[:, :, 1] for entries in self.entries]

    @property
    def bytes(self) -> int:
        return self._all.nbytes

    def clear(self, slot: int) -> None:
        """Zero a slot, so that no values of a session remain, not even a NaN."""
        self._all[:, slot].zero_()

    def shift(self, slot: int, source: int, target: int, count: int, inv_freq: Tensor) -> None:
        """Move `count` entries to new positions and rotate their keys to match. Ranges may overlap."""
        by = rotation_tables((target - source) * inv_freq.float(), torch.float32)
        # Several layers at a time: a window may slide in every unit, and the host starts each operation.
        per_layer = max(1, count * self._all[0, 0, 0].numel() // 2)
        for layers in torch.split(self._all[:, slot], max(1, SHIFTED_VALUES // per_layer)):
            moved = layers[:, source : source + count].clone()
            turned = rotate(moved[:, :, 0].float(), *by)
            layers[:, target : target + count, 0] = turned.to(moved.dtype)
            layers[:, target : target + count, 1] = moved[:, :, 1]


class Tiles(NamedTuple):
    """Tiles of tokens that attention processes together: consecutive tokens of one slot.

    `starts` and `sizes` (tokens,) are the first token of each tile and their number. Only the first `most`
    tiles may have tokens.
    """

    starts: Tensor
    sizes: Tensor
    most: int

    @staticmethod
    def of(runs: Iterable[tuple[int, int]], tile: int) -> tuple[list[int], list[int]]:
        """The starts and the sizes for `runs` of tokens of one slot, as start and end."""
        firsts = [(at, end) for start, end in runs for at in range(start, end, tile)]
        return [at for at, _ in firsts], [min(tile, end - at) for at, end in firsts]


@dataclass(slots=True)
class CacheWindow:
    """The rows and positions of one forward pass: the cache as attention layers see it.

    `writes` (rows, new) is the position of each new entry, or `cache.positions` to discard it, and
    `slots` (rows, new) its slot. The layers read the first `length` positions.

    In a padded batch, the rows are slot `first` and following. In a `gathered` batch, each row has any
    slot; in a ragged one, it is a single token.

    `tiles` are those of the fused attention. Without them, as in a prompt, torch's attention runs.
    """

    cache: SlottedCache
    first: int
    writes: Tensor
    length: int
    slots: Tensor = field(default_factory=lambda: torch.empty(0))
    tiles: Tiles | None = None
    gathered: bool = False

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
        """Keys and values of the rows, each (rows, heads, length, dim). Gathered rows are copies."""
        entries = self.cache.entries[layer]
        if self.gathered:
            rows = entries[:, : self.length].index_select(0, self.slots[:, 0])
        else:
            rows = entries[self.first : self.first + len(self.writes), : self.length]
        keys, values = rows.transpose(1, 3).unbind(2)
        return keys, values

    def update(self, keys: Tensor, values: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        """The interface of the library's layers: store (rows, heads, new, dim), return all entries."""
        self.store(torch.stack([keys, values], dim=2).transpose(1, 3), layer)
        return self.read(layer)
