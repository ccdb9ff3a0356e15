"""`/api/sessions/{id}`: what was recorded of a session, for whoever knows its id or has a share link."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import iterate_in_threadpool

from antiphon.edge.errors import HttpError
from antiphon.edge.recordings.archive import zip_pieces
from antiphon.edge.recordings.asset_response import AssetResponse
from antiphon.edge.recordings.comments import read_comment
from antiphon.edge.recordings.disguise import DISGUISED, disguise
from antiphon.edge.recordings.upload import stored
from antiphon.edge.routes.dependencies import NEEDS_REDIS, problem_responses
from antiphon.edge.routes.session_dependencies import Readable, Reading, at_shelf
from antiphon.edge.routes.session_models import Comment, Timeline, Upload
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.recording import META_FILE, RECORDING_FILE, Meta

_JSON = "application/json"
_NOT_DONE_S = 5

router = APIRouter(
    prefix="/api/sessions", tags=["sessions"], responses=NEEDS_REDIS | problem_responses(400, 404)
)

_ANY_FILE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"*/*": {}}, "description": "The file"},
    206: {"content": {"*/*": {}}, "description": "The range asked for"},
    304: {"description": "The client has it already"},
    416: {"description": "There is no such range in it"},
}


@router.get("/{session_id}", response_model=Meta)
async def meta(session: Readable) -> Response:
    """What kind of session it was, when, and how far its recording has come: `meta.json`."""
    return Response(await _told(session, META_FILE), media_type=_JSON)


@router.get("/{session_id}/recording", response_model=Timeline)
@router.head("/{session_id}/recording", include_in_schema=False)
async def recording(session: Readable) -> Response:
    """Everything that was said, with times, costs and files: `recording.json`.

    404 with `Retry-After` while the session goes on.
    """
    try:
        if session.is_shared:
            return Response(await _told(session, RECORDING_FILE), media_type=_JSON)
        file = await at_shelf(session.shelf.open, session.recording, RECORDING_FILE)
        return AssetResponse(file, RECORDING_FILE)
    except HttpError as refusal:
        if refusal.code is not ErrorCode.NOT_FOUND:
            raise
        text = "the session is still being recorded; its timeline comes when it has ended"
        raise HttpError(404, refusal.code, text, retry_after_s=_NOT_DONE_S) from None


@router.get("/{session_id}/assets/{asset_path:path}", responses=_ANY_FILE, response_class=Response)
@router.head("/{session_id}/assets/{asset_path:path}", include_in_schema=False)
async def asset(session: Readable, asset_path: str) -> Response:
    """One file of a recording, such as `user_audio/000.wav`; takes `Range` and conditions."""
    if session.is_shared and asset_path in DISGUISED:
        return Response(await _told(session, asset_path), media_type=_JSON)
    return AssetResponse(
        await at_shelf(session.shelf.open, session.recording, asset_path), asset_path
    )


@router.get("/{session_id}/upload-recording")
async def uploaded(session: Readable) -> Upload:
    """The recording that a client made itself: where it lies among the assets, if there is one."""
    found = await at_shelf(stored, session.shelf, session.recording)
    return Upload() if found is None else Upload(path=found.path, size_bytes=found.size)


@router.get("/{session_id}/comment")
async def comment(session: Readable) -> Comment:
    """What somebody had to say of it."""
    return Comment(comment=await at_shelf(read_comment, session.shelf, session.recording))


@router.get(
    "/{session_id}/download",
    responses={200: {"content": {"application/zip": {}}, "description": "The archive"}},
    response_class=StreamingResponse,
)
async def download(session: Readable) -> StreamingResponse:
    """All files in one ZIP, which is made while it is sent."""
    instead = await _disguised(session)
    pieces = await at_shelf(zip_pieces, session.shelf, session.recording, session.name, instead)
    headers = {"Content-Disposition": f'attachment; filename="{session.name}.zip"'}
    return StreamingResponse(_sent(pieces), media_type="application/zip", headers=headers)


async def _sent(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    async for piece in iterate_in_threadpool(pieces):
        yield piece


async def _told(session: Reading, name: str) -> bytes:
    """One of the two JSON files, under the name that the reader knows the recording by."""
    data: bytes = await at_shelf(session.shelf.read, session.recording, name)
    return disguise(data, session.name) if session.is_shared else data


async def _disguised(session: Reading) -> dict[str, bytes]:
    if not session.is_shared:
        return {}
    found = {}
    for name in DISGUISED:
        try:
            found[name] = await _told(session, name)
        except HttpError as refusal:
            if refusal.code is not ErrorCode.NOT_FOUND:
                raise
    return found
