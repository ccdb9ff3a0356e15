"""The tokens that the repetition penalty counts: of one session on the host, of all slots on the device."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.device import device_tensor


class RecentTokens:
    """The last tokens of a session, at most `limit`, and how they changed since the last draw."""

    def __init__(self, tokens: Iterable[int] = (), limit: int | None = None) -> None:
        self._tokens = deque[int]()
        self._limit = limit
        self._added, self._dropped = list[int](), list[int]()
        self.extend(tokens)

    def __iter__(self) -> Iterator[int]:
        return iter(self._tokens)

    def __len__(self) -> int:
        return len(self._tokens)

    def append(self, token: int) -> None:
        self._tokens.append(token)
        self._added.append(token)
        if self._limit is not None:
            self.shorten(self._limit)

    def extend(self, tokens: Iterable[int]) -> None:
        for token in tokens:
            self.append(token)

    def shorten(self, length: int) -> None:
        """Drop the oldest tokens until there are at most `length`."""
        while len(self._tokens) > length:
            self._dropped.append(self._tokens.popleft())

    def take_changes(self) -> tuple[list[int], list[int]]:
        """The tokens that were added and those that were dropped since the last call."""
        changes = self._added, self._dropped
        self._added, self._dropped = [], []
        return changes


class TokenHistory:
    """Counts of the recent tokens of every slot, (slots, vocabulary), on the device.

    A draw adds one token, and drops one that leaves the window. Only these changes are sent. The
    tokens of a session that is new in its slot are sent whole.
    """

    def __init__(self, slots: int, vocabulary: int, device: torch.device) -> None:
        self._vocabulary = vocabulary
        self._device = device
        self._counts = torch.zeros(slots, vocabulary, dtype=torch.int32, device=device)
        self._owners: dict[int, RecentTokens] = {}

    def changes(self, rows: Sequence[tuple[int, RecentTokens]], count: int) -> Tensor:
        """The slots of `rows` and the changes that `said` applies: (5, count), with rows of slot 0 as
        padding. Each of `rows` has its own slot.

        Of the five, two are places in the counts, and two the amounts that are added there. Further
        changes are applied at once.
        """
        renewed, places, amounts = list[int](), list[int](), list[int]()
        for slot, recent in rows:
            added, dropped = recent.take_changes()
            if self._owners.get(slot) is not recent:
                self._owners[slot] = recent
                renewed.append(slot)
                added, dropped = list(recent), []
            first = slot * self._vocabulary
            places += [first + token for token in (*added, *dropped)]
            amounts += [1] * len(added) + [-1] * len(dropped)
        if renewed:
            self._counts.index_fill_(0, device_tensor(renewed, self._device), 0)
        room = 2 * count
        if len(places) > room:
            self._add(*device_tensor([places[room:], amounts[room:]], self._device))
        padding = [0] * max(0, room - len(places))
        slots = [slot for slot, _ in rows] + [0] * (count - len(rows))
        table = [*slots, *places[:room], *padding, *amounts[:room], *padding]
        return device_tensor(table, self._device).view(5, count)

    def said(self, changes: Tensor) -> Tensor:
        """Apply `changes`; true for each token that the penalty applies to, (rows, vocabulary)."""
        self._add(changes[1:3].flatten(), changes[3:].flatten())
        return self._counts.index_select(0, changes[0]) > 0

    def _add(self, places: Tensor, amounts: Tensor) -> None:
        self._counts.view(-1).index_add_(0, places, amounts.to(self._counts.dtype))
