"""What a session costs: its tokens, and its computing time by stage."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from antiphon.shared_schemas.unit_result import TokenUsage


class TokenCounter:
    """Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._usage = TokenUsage()

    def add(self, **counts: int) -> None:
        """Add tokens, by the names of the fields of TokenUsage."""
        with self._lock:
            self._usage += TokenUsage(**counts)

    def take(self) -> TokenUsage:
        """What was added since the last call."""
        with self._lock:
            usage, self._usage = self._usage, TokenUsage()
        return usage


Stage = Literal["llm", "tts"]


class StageCosts:
    """Milliseconds by stage since the last `drain`; background threads add to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spent: dict[Stage, float] = {}

    @contextmanager
    def measure(self, stage: Stage) -> Iterator[None]:
        begun = time.perf_counter()
        try:
            yield
        finally:
            spent = milliseconds_since(begun)
            with self._lock:
                self._spent[stage] = self._spent.get(stage, 0.0) + spent

    def drain(self) -> dict[Stage, float]:
        with self._lock:
            spent, self._spent = self._spent, {}
        return spent


def milliseconds_since(begun: float) -> float:
    """`begun` is a value of time.perf_counter()."""
    return (time.perf_counter() - begun) * 1000.0
