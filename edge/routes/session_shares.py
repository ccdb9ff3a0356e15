"""`/api/sessions/{id}/shares`: links that open one recording, to read, until they expire or are revoked."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path

from antiphon.broker.errors import SharesFull
from antiphon.edge.errors import HttpError
from antiphon.edge.routes.dependencies import NEEDS_REDIS, EdgeDep, problem_responses
from antiphon.edge.routes.session_dependencies import Owned
from antiphon.edge.routes.session_models import ShareLink, ShareLinks, ShareRevoked, ShareWish
from antiphon.edge.routes.views import instant
from antiphon.edge.routes.voices import counted
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.shares import Share

router = APIRouter(
    prefix="/api/sessions/{session_id}/shares",
    tags=["sessions"],
    responses=NEEDS_REDIS | problem_responses(400, 403, 404),
)

Token = Annotated[str, Path(max_length=64, description="`token` of a link")]


@router.post("", responses=problem_responses(409, 413, 429), dependencies=[Depends(counted)])
async def share(edge: EdgeDep, session: Owned, wish: ShareWish) -> ShareLink:
    """Make a link. It works without a key, and shows neither the recording's id nor anything else."""
    try:
        return _link(await edge.broker.shares.make(session.recording, wish.expires_in_s))
    except SharesFull as error:
        raise HttpError(409, ErrorCode.SHARES_FULL, str(error)) from None


@router.get("")
async def shares(edge: EdgeDep, session: Owned) -> ShareLinks:
    """The links that open it now."""
    return ShareLinks(shares=[_link(one) for one in await edge.broker.shares.of(session.recording)])


@router.delete("/{token}")
async def revoke(edge: EdgeDep, session: Owned, token: Token) -> ShareRevoked:
    """Close a link, on every edge at once."""
    if not await edge.broker.shares.revoke(session.recording, token):
        raise HttpError(404, ErrorCode.NOT_FOUND, "this recording has no such share link")
    return ShareRevoked(success=True)


def _link(one: Share) -> ShareLink:
    expires = None if one.expires_at is None else instant(one.expires_at)
    return ShareLink(token=one.token, url=f"/s/{one.token}", expires_at=expires)
