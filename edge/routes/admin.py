"""Administration: pages, workers, the queue, estimates, and the live feed of the whole system."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import asdict
from typing import Annotated

import orjson
import structlog
from fastapi import APIRouter, Path
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from antiphon.edge.admin_feed import FeedMessage
from antiphon.edge.errors import HttpError
from antiphon.edge.routes.deps import NEEDS_REDIS, TAKES_BODY, EdgeDep, problem_responses
from antiphon.edge.routes.models import ActionResult, EtaChange, EtaReport
from antiphon.edge.routes.status import ETA_NAMES, TicketId, eta_report, find_ticket
from antiphon.shared_schemas.apps import (
    APPS,
    App,
    AppInfo,
    AppList,
    AppSwitch,
    AppSwitched,
    PageInfo,
    Pages,
)
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.registry import WorkerCommand

log = structlog.get_logger()

_FEED_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

WorkerId = Annotated[str, Path(max_length=128, description="`worker_id` of `/workers`")]

router = APIRouter(prefix="/api", tags=["pages"], responses=NEEDS_REDIS)
admin_router = APIRouter(prefix="/api", tags=["administration"])


@router.get("/apps")
async def pages(edge: EdgeDep) -> Pages:
    """The enabled pages in the order of the menu."""
    off = await edge.broker.apps.disabled()
    shown = [app for app in APPS.values() if app.page and app.app_id not in off]
    return Pages(apps=[PageInfo(**asdict(app)) for app in shown])


@admin_router.get("/admin/apps", responses=NEEDS_REDIS)
async def apps(edge: EdgeDep) -> AppList:
    """Every page and protocol that can be switched off."""
    off = await edge.broker.apps.disabled()
    return AppList(apps=[_info(app, app.app_id not in off) for app in APPS.values()])


@admin_router.put(
    "/admin/apps/{app_id}", responses=NEEDS_REDIS | TAKES_BODY | problem_responses(404)
)
async def switch(edge: EdgeDep, app_id: str, change: AppSwitch) -> AppSwitched:
    """Enable or disable a page on every edge. Open connections stay."""
    app = APPS.get(app_id)
    if app is None:
        raise HttpError(404, ErrorCode.NOT_FOUND, f"no such app; one of {', '.join(APPS)}")
    await edge.broker.apps.switch(app_id, enabled=change.enabled)
    log.info("app_switched", app=app_id, enabled=change.enabled)
    return AppSwitched(success=True, app=_info(app, change.enabled))


@admin_router.post(
    "/admin/workers/{worker_id}/drain", responses=NEEDS_REDIS | problem_responses(404)
)
async def drain(edge: EdgeDep, worker_id: WorkerId) -> ActionResult:
    """Drain: claim no new session, finish or hand over current sessions, then exit (as on SIGTERM)."""
    if not await edge.broker.registry.command_worker(worker_id, WorkerCommand.DRAIN):
        raise HttpError(404, ErrorCode.NOT_FOUND, "no such worker; `/workers` lists them")
    log.info("worker_drain_asked", worker=worker_id)
    return ActionResult(success=True)


@admin_router.delete("/queue/{ticket_id}", responses=NEEDS_REDIS)
async def cancel(edge: EdgeDep, ticket_id: TicketId) -> ActionResult:
    """Remove a waiting session from the queue and notify its client. Running sessions stay."""
    row = find_ticket(await edge.broker.queue.snapshot(), ticket_id)
    cancelled = row is not None and await edge.broker.sessions.cancel(row.sid, row.ticket)
    return ActionResult(success=cancelled)


@admin_router.put("/config/eta", responses=NEEDS_REDIS | TAKES_BODY)
async def set_eta(edge: EdgeDep, change: EtaChange) -> EtaReport:
    """Change the given baselines on every edge."""
    given = {kind: getattr(change, f"eta_{name}_s") for name, kind in ETA_NAMES.items()}
    baselines = {kind: value for kind, value in given.items() if value is not None}
    await edge.broker.eta.configure(baselines, change.ema_alpha)
    return eta_report(await edge.broker.eta.lengths())


@admin_router.get("/admin/live", include_in_schema=False)  # the response never ends
async def live(edge: EdgeDep) -> StreamingResponse:
    """A snapshot, then changes and events as Server-Sent Events, until the client disconnects."""
    return _EventStream(edge.admin_feed.messages())


class _EventStream(StreamingResponse):
    """Closes its source as soon as the client disconnects."""

    def __init__(self, messages: AsyncGenerator[FeedMessage, None]) -> None:
        self._messages = messages
        frames = (_frame(message) async for message in messages)
        super().__init__(frames, media_type="text/event-stream", headers=_FEED_HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._messages):
            await super().__call__(scope, receive, send)


def _frame(message: FeedMessage) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (message.name.encode(), orjson.dumps(message.data))


def _info(app: App, enabled: bool) -> AppInfo:
    return AppInfo(**asdict(app), enabled=enabled)
