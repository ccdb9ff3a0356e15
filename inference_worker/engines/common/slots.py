"""The numbered slots of an engine."""

from __future__ import annotations

import threading

from antiphon.inference_worker.engines.types import EngineError


class SlotPool:
    """Allocates the numbers 0 to size - 1. Safe to use from any thread."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._free = list(range(size))
        self._lock = threading.Lock()

    def acquire(self) -> int:
        """Take the lowest free slot. Raises EngineError if none is free."""
        with self._lock:
            if not self._free:
                raise EngineError(f"all {self._size} slots of this engine are in use")
            return self._free.pop(0)

    def release(self, slot: int) -> None:
        """Free `slot`. Safe to call twice."""
        with self._lock:
            self._free = sorted({*self._free, slot})
