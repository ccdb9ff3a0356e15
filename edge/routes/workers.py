"""`POST /api/admin/workers/{worker_id}/drain`: let a worker finish what it has, and go."""

from __future__ import annotations

from typing import Annotated

import structlog
from fastapi import APIRouter, Path

from antiphon.edge.errors import HttpError
from antiphon.edge.routes.dependencies import NEEDS_REDIS, EdgeDep, problem_responses
from antiphon.edge.routes.models import DrainAsked
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.lifecycle import WorkerAsk

log = structlog.get_logger()

admin_router = APIRouter(prefix="/api/admin", tags=["health"], responses=NEEDS_REDIS)

WorkerId = Annotated[str, Path(max_length=128, description="`worker_id` of `/workers`")]


@admin_router.post("/workers/{worker_id}/drain", responses=problem_responses(404))
async def drain(edge: EdgeDep, worker_id: WorkerId) -> DrainAsked:
    """It takes no more sessions, lets those it has end or hands them on, and leaves, as on SIGTERM."""
    if not await edge.broker.registry.ask_worker(worker_id, WorkerAsk.DRAIN):
        raise HttpError(404, ErrorCode.NOT_FOUND, "no such worker; `/workers` lists them")
    log.info("worker_drain_asked", worker=worker_id)
    return DrainAsked(success=True)
