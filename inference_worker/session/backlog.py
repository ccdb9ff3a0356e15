"""Unread input of one session. The newest audio wins: beyond a few chunks the oldest are skipped."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from antiphon.shared_schemas.entries import ChunkIn, DiagnosticIn, InEntry


@dataclass(frozen=True, slots=True)
class Unread:
    """One input entry, its number, when it was read (Redis-clock ms), the chunks skipped before it."""

    n: int
    entry: InEntry
    read_at: float
    skipped: tuple[int, ...] = ()


class Backlog:
    """Keeps order; drops the oldest chunk when more than `limit` wait. Nothing else is ever dropped."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._items: deque[Unread] = deque()
        self._chunks = 0

    def __len__(self) -> int:
        return len(self._items)

    def push(self, item: Unread) -> None:
        """Add one entry; diagnostics are the recorder's business and are let go."""
        if isinstance(item.entry, DiagnosticIn):
            return
        self._items.append(item)
        if isinstance(item.entry, ChunkIn):
            self._chunks += 1
            if self._chunks > self._limit:
                self._skip_oldest()

    def pop(self) -> Unread:
        """The oldest entry."""
        item = self._items.popleft()
        if isinstance(item.entry, ChunkIn):
            self._chunks -= 1
        return item

    def _skip_oldest(self) -> None:
        places = [i for i, item in enumerate(self._items) if isinstance(item.entry, ChunkIn)]
        oldest, heir = places[0], places[1]
        self._items[heir] = _inherit(self._items[oldest], self._items[heir])
        del self._items[oldest]
        self._chunks -= 1


def _inherit(gone: Unread, heir: Unread) -> Unread:
    """The next chunk remembers what was skipped; a wish to interrupt must not be lost with the audio."""
    assert isinstance(gone.entry, ChunkIn)
    assert isinstance(heir.entry, ChunkIn)
    entry = heir.entry
    if gone.entry.force_listen and not entry.force_listen:
        entry = replace(entry, force_listen=True)
    return replace(heir, entry=entry, skipped=(*gone.skipped, gone.n, *heir.skipped))
