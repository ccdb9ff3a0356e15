"""A place in the queue as all protocols but realtime tell it."""

from __future__ import annotations

from antiphon.edge.protocols.contract import QueuePlace
from antiphon.shared_schemas.wire import Queued, QueueUpdate


def queue_message(place: QueuePlace) -> Queued | QueueUpdate:
    """`queued` for the first place, `queue_update` for the next ones."""
    kind = Queued if place.first else QueueUpdate
    return kind(
        ticket_id=place.ticket_id,
        position=place.position,
        queue_length=place.queue_length,
        eta_seconds=place.eta_s,
        estimated_wait_s=place.eta_s,
    )
