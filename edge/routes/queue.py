"""`/api/queue` and `/api/config/eta`: the waiting line, and how long it is taken to be."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from antiphon.edge.routes.dependencies import NEEDS_REDIS, TAKES_BODY, EdgeDep
from antiphon.edge.routes.models import Cancelled, EtaConfig, EtaStatus, QueueStatus, QueueTicket
from antiphon.edge.routes.views import ETA_FIELDS, eta_status, queue_item, queue_status

router = APIRouter(prefix="/api", tags=["queue"], responses=NEEDS_REDIS)
admin_router = APIRouter(prefix="/api", tags=["queue"], responses=NEEDS_REDIS)

TicketId = Annotated[str, Path(max_length=32, description="`ticket_id` of a `queued` message")]


@router.get("/queue")
async def queue(edge: EdgeDep) -> QueueStatus:
    """Who waits, in order, with estimates, and what runs."""
    return queue_status(await edge.broker.queue.snapshot(), edge.settings.max_queue_size)


@router.get("/queue/{ticket_id}")
async def ticket(edge: EdgeDep, ticket_id: TicketId) -> QueueTicket:
    """One place in the queue; `found` is false once it was assigned, cancelled or left."""
    snapshot = await edge.broker.queue.snapshot()
    for row in snapshot.waiting:
        if str(row.ticket) == ticket_id:
            return QueueTicket(found=True, ticket=queue_item(row, snapshot.at))
    return QueueTicket(found=False, message="not in the queue: assigned, cancelled or gone")


@admin_router.delete("/queue/{ticket_id}")
async def cancel(edge: EdgeDep, ticket_id: TicketId) -> Cancelled:
    """Take a waiting session out of the queue; its client is told. A running one is left alone."""
    snapshot = await edge.broker.queue.snapshot()
    for row in snapshot.waiting:
        if str(row.ticket) == ticket_id:
            return Cancelled(success=await edge.broker.sessions.cancel(row.sid, row.ticket))
    return Cancelled(success=False)


@router.get("/config/eta")
async def eta(edge: EdgeDep) -> EtaStatus:
    """What waiting times are estimated from."""
    return eta_status(await edge.broker.eta.status())


@admin_router.put("/config/eta", responses=TAKES_BODY)
async def set_eta(edge: EdgeDep, config: EtaConfig) -> EtaStatus:
    """Change the baselines, on every edge at once."""
    baselines = {kind: getattr(config, f"eta_{name}_s") for name, kind in ETA_FIELDS.items()}
    await edge.broker.eta.configure(baselines, config.ema_alpha)
    return eta_status(await edge.broker.eta.status())
