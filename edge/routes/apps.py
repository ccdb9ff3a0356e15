"""`/api/apps` for menus, `/api/admin/apps` for whoever switches pages on and off."""

from __future__ import annotations

import structlog
from fastapi import APIRouter

from antiphon.edge.errors import HttpError
from antiphon.edge.routes.dependencies import NEEDS_REDIS, TAKES_BODY, EdgeDep, problem_responses
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

log = structlog.get_logger()

router = APIRouter(prefix="/api", tags=["apps"], responses=NEEDS_REDIS)
admin_router = APIRouter(prefix="/api/admin", tags=["apps"], responses=NEEDS_REDIS)


@router.get("/apps")
async def pages(edge: EdgeDep) -> Pages:
    """The pages that are on, in the order of the menu."""
    off = await edge.broker.apps.off()
    return Pages(
        apps=[
            PageInfo(app_id=app.app_id, name=app.name, route=app.route)
            for app in APPS.values()
            if app.page and app.app_id not in off
        ]
    )


@admin_router.get("/apps")
async def apps(edge: EdgeDep) -> AppList:
    """Every page and protocol that can be switched off."""
    off = await edge.broker.apps.off()
    return AppList(apps=[_info(app, app.app_id not in off) for app in APPS.values()])


@admin_router.put("/apps/{app_id}", responses=TAKES_BODY | problem_responses(404))
async def switch(edge: EdgeDep, app_id: str, wish: AppSwitch) -> AppSwitched:
    """Turn a switch, on every edge at once. Connections that are open stay."""
    app = APPS.get(app_id)
    if app is None:
        raise HttpError(404, ErrorCode.NOT_FOUND, f"no such app; one of {', '.join(APPS)}")
    await edge.broker.apps.switch(app_id, enabled=wish.enabled)
    log.info("app_switched", app=app_id, enabled=wish.enabled)
    return AppSwitched(success=True, app=_info(app, wish.enabled))


def _info(app: App, enabled: bool) -> AppInfo:
    return AppInfo(app_id=app.app_id, name=app.name, route=app.route, enabled=enabled)
