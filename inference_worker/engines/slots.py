"""Slot numbers of an engine: each belongs to one session at a time."""

from __future__ import annotations

import threading

from antiphon.inference_worker.engines.types import EngineError


class SlotPool:
    """Hands out the numbers 0 to size - 1; safe from any thread."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._free = list(range(size))
        self._lock = threading.Lock()

    def acquire(self) -> int:
        """Take the lowest free slot. Raises EngineError when every slot has a session."""
        with self._lock:
            if not self._free:
                raise EngineError(f"all {self._size} slots of this engine are in use")
            return self._free.pop(0)

    def release(self, slot: int) -> None:
        """Give `slot` back; releasing it twice does no harm."""
        with self._lock:
            self._free = sorted({*self._free, slot})
