"""Connections that have not said what they want: how long they may take, and how many of one address."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import structlog
from prometheus_client import Counter as Metric

log = structlog.get_logger()

_SAY_EVERY_S = 10.0
"""A flood is worth a line now and then, not one for each connection."""


class Doorstep:
    """One for an edge. `whose`: by what an address is counted; None where it is not.

    `at_once` of 0 is no limit.
    """

    def __init__(
        self,
        patience_s: float,
        at_once: int,
        whose: Callable[[str], str | None],
        rejected: Metric,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.patience_s = patience_s
        self._at_once = at_once
        self._whose = whose
        self._rejected = rejected
        self._clock = clock
        self._waiting = Counter[str]()
        self._untold = Counter[str]()
        self._told_at = float("-inf")

    def __len__(self) -> int:
        return self._waiting.total()

    def knock(self, host: str) -> str | None:
        """Count a connection until `enter`, by what is returned. Raises OverflowError for one too many."""
        who = self._whose(host)
        if who is None:
            return None
        if self._at_once and self._waiting[who] >= self._at_once:
            self._turn_away("rate_limited")
            raise OverflowError(who)
        self._waiting[who] += 1
        return who

    def enter(self, who: str | None) -> None:
        """It has said what it wants, or it has left."""
        if who is not None:
            self._waiting[who] -= 1
            if not self._waiting[who]:
                del self._waiting[who]

    def too_slow(self) -> None:
        """One was cut off because it took too long."""
        self._turn_away("request_timeout")

    def _turn_away(self, reason: str) -> None:
        self._rejected.labels(reason).inc()
        self._untold[reason] += 1
        if (now := self._clock()) - self._told_at >= _SAY_EVERY_S:
            # No warning: browsers open connections ahead of need, and let them lie.
            log.info("connections_cut_off", **self._untold)
            self._untold.clear()
            self._told_at = now
