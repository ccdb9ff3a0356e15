"""`GET /api/sessions`: every recording, for whoever administers the server."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query

from antiphon.edge.recordings.catalogue import Catalogue, Found, Row, catalogue_of
from antiphon.edge.recordings.catalogue import Query as Wanted
from antiphon.edge.routes.dependencies import NEEDS_REDIS, EdgeDep
from antiphon.edge.routes.session_dependencies import at_shelf
from antiphon.edge.routes.session_models import SessionInfo, SessionPage
from antiphon.shared_schemas.recording import RecordingState
from antiphon.shared_schemas.states import SessionKind

admin_router = APIRouter(prefix="/api/sessions", tags=["sessions"], responses=NEEDS_REDIS)

Kind = Annotated[SessionKind | None, Query(description="one kind of session only")]
State = Annotated[RecordingState | None, Query(description="recordings in this state only")]
Since = Annotated[datetime | None, Query(description="begun then or later; without a zone: UTC")]
Until = Annotated[datetime | None, Query(description="begun before that; without a zone: UTC")]
Text = Annotated[
    str, Query(max_length=200, description="said in it or in its prompt, or in one of its ids")
]
Offset = Annotated[int, Query(ge=0, le=10_000_000, description="recordings passed over")]
Limit = Annotated[int, Query(ge=1, le=200, description="recordings on the page")]


@admin_router.get("")
async def sessions(
    edge: EdgeDep,
    kind: Kind = None,
    state: State = None,
    since: Since = None,
    until: Until = None,
    text: Text = "",
    offset: Offset = 0,
    limit: Limit = 50,
) -> SessionPage:
    """A page of the recordings, newest first. Looking at the list counts as no use of them."""
    catalogue = catalogue_of(edge.settings.recordings_root)
    wanted = Wanted(kind=kind, state=state, since=_utc(since), until=_utc(until), text=text.strip())
    return await at_shelf(_page, catalogue, wanted, offset, limit)


def _page(catalogue: Catalogue, wanted: Wanted, offset: int, limit: int) -> SessionPage:
    found: Found = catalogue.find(wanted)
    shown = found.rows[offset : offset + limit]
    return SessionPage(
        total=len(found.rows),
        offset=offset,
        limit=limit,
        complete=found.complete,
        sessions=[_info(row, catalogue.size(row.id)) for row in shown],
    )


def _info(row: Row, size: int) -> SessionInfo:
    return SessionInfo(
        id=row.id,
        session_id=row.session_id,
        app_type=row.kind,
        state=row.state,
        reason=row.reason,
        created_at=row.created_at,
        ended_at=row.ended_at,
        duration_s=row.duration_s,
        worker_id=row.worker_id,
        chunks=row.chunks,
        turns=row.turns,
        size_bytes=size,
        url=f"/s/{row.id}",
    )


def _utc(moment: datetime | None) -> datetime | None:
    return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment
