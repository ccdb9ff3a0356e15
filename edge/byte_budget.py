"""Caps the total bytes of chat requests that one edge holds in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from antiphon.edge.errors import BudgetExceeded

_MIB = 1024 * 1024
SMALL_BYTES = _MIB
"""A request of up to this size is always accepted."""


class ByteBudget:
    """Bytes of all requests, from their arrival to their end. A single request always fits."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0

    @property
    def held(self) -> int:
        return self._held

    @contextmanager
    def reserve(self) -> Iterator[Reservation]:
        """A reservation for one request, empty at first; released at the end."""
        reservation = Reservation(self)
        try:
            yield reservation
        finally:
            self._held -= reservation.size

    def add(self, reservation: Reservation, size: int) -> None:
        """Raises BudgetExceeded."""
        alone = self._held == reservation.size
        small = reservation.size + size <= SMALL_BYTES
        if not (alone or small) and self._held + size > self._limit:
            text = (
                f"this server holds {self._limit // _MIB} MiB of chat requests already; try again"
            )
            raise BudgetExceeded(text)
        reservation.size += size
        self._held += size


class Reservation:
    """The part of the budget that one request uses, in bytes."""

    def __init__(self, budget: ByteBudget) -> None:
        self.size = 0
        self._budget = budget

    def add(self, size: int) -> None:
        """Raises BudgetExceeded."""
        self._budget.add(self, size)
