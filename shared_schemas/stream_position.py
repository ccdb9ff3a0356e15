"""Where an entry is in a session's stream: the fenced stream id.

Stream ids are `<ticket * 1000 + epoch>-<n>`: Redis rejects an id that is not above the last one, so an
older epoch cannot write after a newer one, and a retried append cannot duplicate an entry.
"""

from __future__ import annotations

from typing import NamedTuple

EPOCHS_PER_TICKET = 1000


class StreamPosition(NamedTuple):
    """An entry's id taken apart; `n` counts from 1 over a session's whole life, across epochs."""

    ticket: int
    epoch: int
    n: int

    def id(self) -> str:
        """The Redis stream id. Raises ValueError on an epoch that would run into the next ticket."""
        if not 0 <= self.epoch < EPOCHS_PER_TICKET:
            raise ValueError(f"epoch {self.epoch} is not below {EPOCHS_PER_TICKET}")
        return f"{self.ticket * EPOCHS_PER_TICKET + self.epoch}-{self.n}"

    @classmethod
    def parse(cls, entry_id: bytes | str) -> StreamPosition:
        """Inverse of `id`."""
        text = entry_id.decode() if isinstance(entry_id, bytes) else entry_id
        major, _, n = text.partition("-")
        ticket, epoch = divmod(int(major), EPOCHS_PER_TICKET)
        return cls(ticket, epoch, int(n))

    @classmethod
    def before(cls, ticket: int) -> StreamPosition:
        """The position that precedes every entry of the session with this ticket."""
        return cls(ticket, 0, 0)
