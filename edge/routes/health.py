"""`/health`, `/status`, `/workers`, `/sessions`, `/cache`: is it well, and what does it do."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from importlib.metadata import version

from fastapi import APIRouter

from antiphon.broker.errors import BrokerUnavailable
from antiphon.edge.context import EdgeContext
from antiphon.edge.routes.dependencies import NEEDS_REDIS, EdgeDep
from antiphon.edge.routes.models import (
    CacheHolder,
    CacheStatus,
    Health,
    LiveSessions,
    ServiceStatus,
    WorkersResponse,
)
from antiphon.edge.routes.views import live_sessions, service_status, worker_info

_PING_S = 1.0
_VERSION = version("antiphon")

public_router = APIRouter(tags=["health"])
router = APIRouter(tags=["health"])


@public_router.get("/health")
async def health(edge: EdgeDep) -> Health:
    """Answers 200 as long as the process lives, whatever Redis does."""
    return Health(
        status="draining" if edge.draining else "healthy",
        timestamp=datetime.now(tz=UTC),
        edge_id=edge.id,
        redis="ok" if await _redis_answers(edge) else "unavailable",
        version=_VERSION,
    )


@router.get("/status", responses=NEEDS_REDIS)
async def status(edge: EdgeDep) -> ServiceStatus:
    """Workers by what they do, slots, the queue's length, and what runs."""
    return service_status(
        await edge.broker.queue.snapshot(),
        max_queue_size=edge.settings.max_queue_size,
        healthy=not edge.draining,
        ttl_ms=edge.settings.heartbeat_ttl_s * 1000,
    )


@router.get("/workers", responses=NEEDS_REDIS)
async def workers(edge: EdgeDep) -> WorkersResponse:
    """Every worker with what it is, what it holds and what it has counted."""
    snapshot = await edge.broker.queue.snapshot()
    ttl_ms = edge.settings.heartbeat_ttl_s * 1000
    rows = [worker_info(worker, snapshot, ttl_ms) for worker in snapshot.workers]
    return WorkersResponse(total=len(rows), workers=rows)


@router.get("/sessions", responses=NEEDS_REDIS)
async def sessions(edge: EdgeDep) -> LiveSessions:
    """Every session that a worker holds; recordings are under `/api/sessions`."""
    return live_sessions(await edge.broker.queue.snapshot())


@router.get("/cache", responses=NEEDS_REDIS)
async def cache(edge: EdgeDep) -> CacheStatus:
    """Which workers may hold a conversation's context."""
    rows = (await workers(edge)).workers
    return CacheStatus(
        workers=[CacheHolder(worker_id=row.worker_id, status=row.status) for row in rows]
    )


async def _redis_answers(edge: EdgeContext) -> bool:
    try:
        async with asyncio.timeout(_PING_S):
            await edge.broker.ping()
    except (BrokerUnavailable, TimeoutError):
        return False
    return True
