"""Counts the tokens of a session between two reports."""

from __future__ import annotations

import threading

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
