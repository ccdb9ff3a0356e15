"""Into the queue, and what a client hears of its place there."""

from __future__ import annotations

import time
from collections.abc import Callable

from antiphon.broker.client import Broker
from antiphon.broker.errors import BrokerUnavailable
from antiphon.edge.protocols.contract import QueuePlace
from antiphon.edge.session.notifications import Place
from antiphon.edge.session.terminator import SessionTerminator
from antiphon.shared_schemas.registry import Ticket
from antiphon.shared_schemas.resume_token import ResumeToken
from antiphon.shared_schemas.states import SessionKind

_PATIENCE_S = 1.0
_ETA_STEP_S = 1.0
"""Estimates that differ by less are not worth a message."""


async def join_queue(
    broker: Broker,
    endings: SessionTerminator,
    sid: str,
    kind: SessionKind,
    *,
    edge: str,
    recording: str,
    resume: ResumeToken | None = None,
    protocol: str = "",
    trace: bytes = b"",
) -> Ticket:
    """Enqueue a session. Raises SessionExists, QueueFull or BrokerUnavailable.

    When Redis does not answer, the session may stand in the queue all the same: it is taken out as
    soon as Redis is back.
    """
    try:
        return await broker.queue.join(
            sid,
            kind,
            edge=edge,
            recording=recording,
            resume=resume,
            protocol=protocol,
            trace=trace,
        )
    except BrokerUnavailable:
        endings.withdraw(sid, recording)
        raise


class PlaceReport:
    """Decides which places one client is told: `queued` if it must wait, then what changes.

    `told`: the client has come back and knows that it waits.
    """

    def __init__(
        self, ticket: Ticket, clock: Callable[[], float] = time.monotonic, *, told: bool = False
    ) -> None:
        self._ticket = ticket
        self._clock = clock
        self._told_before = told
        self._since = clock()
        self._told: Place | None = None

    def worth_telling(self, place: Place) -> QueuePlace | None:
        """What to tell of a place; None when it is not worth a message."""
        if self._told is None:
            waits = (
                self._told_before or self._ticket.wait or self._clock() - self._since >= _PATIENCE_S
            )
            return self._tell(place) if waits else None
        return self._tell(place) if self._differs(self._told, place) else None

    def _differs(self, told: Place, place: Place) -> bool:
        moved = (place.position, place.queue_length) != (told.position, told.queue_length)
        return moved or abs(place.eta_s - told.eta_s) >= _ETA_STEP_S

    def _tell(self, place: Place) -> QueuePlace:
        first, self._told = self._told is None and not self._told_before, place
        ticket_id = str(self._ticket.number)
        return QueuePlace(ticket_id, place.position, place.queue_length, place.eta_s, first)
