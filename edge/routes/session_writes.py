"""What the owner of a recording adds to it: a recording of their own, a comment."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request

from antiphon.edge.errors import HttpError
from antiphon.edge.recordings.comments import write_comment
from antiphon.edge.recordings.form import FIELD, BadForm
from antiphon.edge.recordings.sniff import ACCEPTED, NotARecording
from antiphon.edge.recordings.upload import UploadStalled, UploadTooLarge, store
from antiphon.edge.routes.dependencies import NEEDS_REDIS, EdgeDep, problem_responses
from antiphon.edge.routes.session_dependencies import Owned, at_shelf, refusing
from antiphon.edge.routes.session_models import MOST_COMMENT, Comment, Commented, Uploaded
from antiphon.edge.routes.voices import counted
from antiphon.shared_schemas.errors import ErrorCode

UPLOAD_ROUTE = "/upload-recording"

router = APIRouter(
    prefix="/api/sessions",
    tags=["sessions"],
    responses=NEEDS_REDIS | problem_responses(400, 403, 404, 413, 429),
    dependencies=[Depends(counted)],
)

_FILE = {"type": "string", "contentMediaType": "application/octet-stream"}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {"type": "object", "required": [FIELD], "properties": {FIELD: _FILE}}
            },
            **{name: {"schema": {"type": "string", "format": "binary"}} for name in ACCEPTED},
        },
    }
}


@router.post(
    f"/{{session_id}}{UPLOAD_ROUTE}", openapi_extra=_BODY, responses=problem_responses(408)
)
async def upload(edge: EdgeDep, session: Owned, request: Request) -> Uploaded:
    """Keep a recording that the client made: the body itself, or the `file` of a form.

    WAV, WebM or MP4, judged by its content; it becomes the asset `frontend_replay.wav`, `.webm` or
    `.mp4`, in the place of an earlier one.
    """
    limit = edge.settings.max_upload_bytes
    try:
        with refusing():
            stored = await store(request, session.shelf, session.recording, limit)
    except (BadForm, NotARecording) as error:
        raise HttpError(400, ErrorCode.INVALID_FIELD, str(error)) from None
    except UploadTooLarge as error:
        raise HttpError(413, ErrorCode.MESSAGE_TOO_LARGE, str(error)) from None
    except UploadStalled as error:
        raise HttpError(408, ErrorCode.SLOW_CONSUMER, str(error)) from None
    return Uploaded(status="ok", path=stored.path, size_bytes=stored.size)


@router.post("/{session_id}/comment")
async def comment(session: Owned, wish: Comment) -> Commented:
    """Keep a comment, in the place of the one before; an empty one deletes it."""
    text = wish.comment.strip()
    if len(text) > MOST_COMMENT:
        message = f"comment: longer than {MOST_COMMENT} characters"
        raise HttpError(413, ErrorCode.MESSAGE_TOO_LARGE, message)
    try:
        data = text.encode()
    except UnicodeEncodeError:
        message = "comment: holds half of a surrogate pair"
        raise HttpError(400, ErrorCode.INVALID_FIELD, message) from None
    await at_shelf(write_comment, session.shelf, session.recording, data)
    return Commented(status="ok", len=len(text))
