"""Which tokens each session has said, as a mask on the device for the repetition penalty."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.device import device_tensor
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import TokenRow, bucket


class TokenHistory:
    """Counts of the recent tokens of every slot, (slots, vocabulary).

    A draw adds one token, and drops one that leaves the window. Only these changes are sent to the
    device. A history that is not the continuation of the last one of its slot is sent whole.
    """

    def __init__(self, vocabulary: int, device: torch.device) -> None:
        self._vocabulary = vocabulary
        self._device = device
        self._counts = torch.zeros(0, vocabulary, dtype=torch.int32, device=device)
        self._known: dict[int, tuple[int, ...]] = {}

    @torch.inference_mode()
    def said(self, rows: Sequence[TokenRow]) -> Tensor:
        """True for each token that the repetition penalty applies to, (rows, vocabulary).

        Either all rows have a slot, each its own, or none has.
        """
        slots = [n if row.slot is None else row.slot for n, row in enumerate(rows)]
        self._grow(bucket(max(slots) + 1))
        added, dropped, renewed = list[int](), list[int](), list[int]()
        for slot, row in zip(slots, rows, strict=True):
            first, recent = slot * self._vocabulary, row.recent
            before = self._known.get(slot, ())
            self._known[slot] = recent
            if recent == before:
                continue
            if recent[:-1] == before:
                added.append(first + recent[-1])
            elif len(recent) == len(before) and recent[:-1] == before[1:]:
                added.append(first + recent[-1])
                dropped.append(first + before[0])
            else:
                renewed.append(slot)
                added += [first + token for token in recent]
        self._change(added, dropped, renewed)
        return self._counts[device_tensor(slots, self._device)] > 0

    def _change(self, added: list[int], dropped: list[int], renewed: list[int]) -> None:
        if renewed:
            self._counts.index_fill_(0, device_tensor(renewed, self._device), 0)
        if not added:
            return
        changes = [*added, *dropped], [1] * len(added) + [-1] * len(dropped)
        places, amounts = device_tensor(changes, self._device)
        self._counts.view(-1).index_add_(0, places, amounts.to(self._counts.dtype))

    def _grow(self, slots: int) -> None:
        missing = slots - len(self._counts)
        if missing > 0:
            more = self._counts.new_zeros(missing, self._vocabulary)
            self._counts = torch.cat([self._counts, more])
