"""Ends the speech of an answer that no one waits for any more, also in the middle of a run."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class SynthesisCancelled(Exception):
    """No session waits for the speech any more."""


class Cancellation(threading.Event):
    """Set when an answer is cancelled. Any thread may set it; one thread at a time speaks the answer."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._end: Callable[[], object] | None = None

    def set(self) -> None:
        """Cancel, and end what the speaking thread does."""
        with self._lock:
            super().set()
            if self._end is not None:
                self._end()

    @contextmanager
    def ends_by(self, end: Callable[[], object]) -> Iterator[None]:
        """What is done inside ends soon after `end` was called. A set cancellation calls it."""
        with self._lock:
            self._end = end
            if self.is_set():
                end()
        try:
            yield
        finally:
            with self._lock:
                self._end = None
