"""How many connections one address may have, and open per minute."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from antiphon.edge.errors import TooManyConnections
from antiphon.edge.limits import Bucket

_MINUTE_S = 60.0
_SWEEP_EVERY = 1024
"""New addresses between two looks for those that can be forgotten."""


@dataclass(slots=True)
class _Visitor:
    arrivals: Bucket | None
    here: int = 0
    last: float = 0.0


class Visitors:
    """Counted per edge. A limit of 0 is none; whoever is None is not counted."""

    def __init__(
        self, at_once: int, per_minute: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._at_once = at_once
        self._per_minute = per_minute
        self._clock = clock
        self._known: dict[str, _Visitor] = {}
        self._sweep_at = _SWEEP_EVERY

    def __len__(self) -> int:
        return len(self._known)

    def arrive(self, who: str | None) -> None:
        """Count one arrival. Raises TooManyConnections."""
        if who is None:
            return
        now = self._clock()
        visitor = self._visitor(who, now)
        visitor.last = now
        if visitor.arrivals is not None and not visitor.arrivals.take(1, now):
            text = f"more than {self._per_minute} connections a minute from your address; wait"
            raise TooManyConnections(text)

    @contextmanager
    def stay(self, who: str | None) -> Iterator[None]:
        """One connection from its arrival to its end. Raises TooManyConnections."""
        self.arrive(who)
        if who is None:
            yield
            return
        visitor = self._known[who]
        if self._at_once and visitor.here >= self._at_once:
            raise TooManyConnections(
                f"more than {self._at_once} connections at once from your address; close one"
            )
        visitor.here += 1
        try:
            yield
        finally:
            visitor.here -= 1

    def _visitor(self, who: str, now: float) -> _Visitor:
        visitor = self._known.get(who)
        if visitor is None:
            self._sweep(now)
            rate = self._per_minute / _MINUTE_S
            bucket = Bucket(self._per_minute, rate, now) if self._per_minute else None
            visitor = self._known[who] = _Visitor(bucket)
        return visitor

    def _sweep(self, now: float) -> None:
        """Forget those who left over a minute ago: their buckets are full again."""
        if len(self._known) < self._sweep_at:
            return
        self._known = {
            who: visitor
            for who, visitor in self._known.items()
            if visitor.here or now - visitor.last < _MINUTE_S
        }
        self._sweep_at = len(self._known) + _SWEEP_EVERY
