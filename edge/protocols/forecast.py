"""When a context will be full, from how it grew in the last seconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from antiphon.shared_schemas.entries import ResultOut
from antiphon.shared_schemas.realtime_messages import CONTEXT_TOKENS

NOTICE_S = 30.0
"""How long before a limit a client is told that it is near."""

_ENOUGH, _SEEN = 6, 11
"""Units that the growth is taken from: at least five seconds, and ten at most."""


class ContextForecast:
    """Speaks up once. A context that shrinks slides, and is never full."""

    def __init__(self, *, wanted: bool) -> None:
        self._silent = not wanted
        self._seen: list[tuple[int, int]] = []

    def seconds_left(self, unit: ResultOut) -> float | None:
        """How long the context still lasts, when that is worth telling."""
        if self._silent:
            return None
        self._seen = [*self._seen, (unit.current_time, unit.kv_cache_length)][-_SEEN:]
        (begin_ms, begin), (end_ms, end) = self._seen[0], self._seen[-1]
        if len(self._seen) > 1 and end < self._seen[-2][1]:
            self._silent = True
            return None
        if len(self._seen) < _ENOUGH or end <= begin or end_ms <= begin_ms:
            return None
        left_s = (CONTEXT_TOKENS - end) * (end_ms - begin_ms) / 1000 / (end - begin)
        self._silent = left_s <= NOTICE_S
        return round(max(0.0, left_s), 1) if self._silent else None

    def memory(self) -> dict[str, Any]:
        """For `recall`, ready for JSON."""
        return {"silent": self._silent, "seen": [list(pair) for pair in self._seen]}

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Know again what was known."""
        self._silent = memory["silent"]
        self._seen = [(at_ms, tokens) for at_ms, tokens in memory["seen"]]
