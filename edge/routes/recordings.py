"""`/api/sessions`: recordings to read, change, share and list."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, ParamSpec, TypeVar

import structlog
from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from antiphon.broker.errors import SharesFull
from antiphon.broker.stores import Share
from antiphon.edge.edge_context import EdgeContext
from antiphon.edge.errors import HttpError
from antiphon.edge.recordings.download import (
    FILES_WITH_ID,
    AssetResponse,
    RedactedFile,
    RedactedResponse,
    zip_blocks,
)
from antiphon.edge.recordings.index import index_of
from antiphon.edge.recordings.store import (
    DiskFull,
    InvalidName,
    RecordingNotFound,
    RecordingStore,
    StoreUnavailable,
    make_peaks,
)
from antiphon.edge.recordings.upload import (
    FORM_FIELD,
    MEDIA_TYPES,
    InvalidUpload,
    UploadInfo,
    UploadSaved,
    UploadTooLarge,
    find_upload,
    save_upload,
)
from antiphon.edge.routes.deps import (
    NEEDS_REDIS,
    RATE_LIMITED,
    TAKES_BODY,
    EdgeDep,
    problem_responses,
)
from antiphon.edge.routes.models import (
    MAX_COMMENT_CHARS,
    ActionResult,
    Comment,
    CommentSaved,
    ShareLink,
    ShareLinkList,
    ShareRequest,
    Timeline,
    to_datetime,
)
from antiphon.shared_schemas.audio import WaveformPeaks
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.ids import is_recording_id, is_session_id, is_share_token
from antiphon.shared_schemas.recording import (
    META_FILE,
    PEAKS_FILE,
    RECORDING_FILE,
    Meta,
    parse_meta,
)
from antiphon.shared_schemas.recording_list import RecordingPage, RecordingQuery

log = structlog.get_logger()

P = ParamSpec("P")
T = TypeVar("T")

_PREFIX = "/api/sessions"
_UPLOAD = "/{session_id}/upload-recording"
UPLOAD_PATH = _PREFIX + _UPLOAD

_RETRY_TIMELINE_S = 5

_FILE_SCHEMA = {"type": "string", "contentMediaType": "application/octet-stream"}
_FORM_SCHEMA = {
    "type": "object",
    "required": [FORM_FIELD],
    "properties": {FORM_FIELD: _FILE_SCHEMA},
}
_UPLOAD_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {"schema": _FORM_SCHEMA},
            **{name: {"schema": {"type": "string", "format": "binary"}} for name in MEDIA_TYPES},
        },
    }
}
_ASSET_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"*/*": {}}, "description": "The file"},
    206: {"content": {"*/*": {}}, "description": "The requested range"},
    304: {"description": "The client has the file already"},
    416: {"description": "The range is outside of the file"},
}
_HTTP_ERRORS: dict[type[Exception], tuple[int, ErrorCode]] = {
    InvalidName: (400, ErrorCode.INVALID_FIELD),
    InvalidUpload: (400, ErrorCode.INVALID_FIELD),
    RecordingNotFound: (404, ErrorCode.NOT_FOUND),
    UploadTooLarge: (413, ErrorCode.MESSAGE_TOO_LARGE),
    StoreUnavailable: (503, ErrorCode.NO_RECORDINGS),
    DiskFull: (507, ErrorCode.DISK_FULL),
}
_ZIP_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/zip": {}}, "description": "The archive"}
}

SessionId = Annotated[
    str,
    Path(
        max_length=64,
        description="`recording_session_id` of a session, or the token of a share link; "
        "for administrators also the id of a session, for its newest recording",
    ),
]
Token = Annotated[str, Path(max_length=64, description="`token` of a link")]

router = APIRouter(
    prefix=_PREFIX, tags=["recordings"], responses=NEEDS_REDIS | problem_responses(400, 404)
)
write_router = APIRouter(
    prefix=_PREFIX,
    tags=["recordings"],
    responses=NEEDS_REDIS | problem_responses(400, 403, 404),
)
admin_router = APIRouter(prefix=_PREFIX, tags=["administration"], responses=NEEDS_REDIS)


@dataclass(frozen=True, slots=True)
class RecordingAccess:
    """A recording that the request may read. `name` is its id, or the requested share token."""

    store: RecordingStore
    recording: str
    name: str

    @property
    def is_shared(self) -> bool:
        return self.name != self.recording


async def require_reader(edge: EdgeDep, request: Request, session_id: SessionId) -> RecordingAccess:
    """Finds the recording and records its use. Raises HttpError."""
    store = RecordingStore(edge.settings.sessions_dir)
    if is_share_token(session_id):
        recording = await edge.broker.shares.recording(session_id)
        if recording is None:
            text = "this share link is expired, revoked or unknown"
            raise HttpError(404, ErrorCode.NOT_FOUND, text)
        name = session_id
    else:
        recording = name = await _recording_of(edge, request, session_id)
    await run_blocking(store.touch, recording)
    return RecordingAccess(store, recording, name)


async def _recording_of(edge: EdgeContext, request: Request, name: str) -> str:
    """The id of the recording. Ids of sessions are easy to guess, so only administrators use them."""
    if is_recording_id(name) or not is_session_id(name) or not edge.access.is_admin(request):
        return name
    found = await run_blocking(index_of(edge.settings.sessions_dir).of_session, name)
    if found is None:
        raise HttpError(404, ErrorCode.NOT_FOUND, "there is no such recording")
    return found


async def require_owner(edge: EdgeDep, request: Request, session_id: SessionId) -> RecordingAccess:
    """Like `require_reader`, but rejects share links. Raises HttpError."""
    if is_share_token(session_id):
        text = "a share link only reads; this needs the recording's own id"
        raise HttpError(403, ErrorCode.FORBIDDEN, text)
    return await require_reader(edge, request, session_id)


Readable = Annotated[RecordingAccess, Depends(require_reader)]
Owned = Annotated[RecordingAccess, Depends(require_owner)]


@router.get("/{session_id}", response_model=Meta)
async def meta(session: Readable) -> Response:
    """Kind, times and state of the recording: `meta.json`."""
    return await _asset(session, META_FILE)


@router.get("/{session_id}/recording", response_model=Timeline)
@router.head("/{session_id}/recording", include_in_schema=False)
async def recording(session: Readable) -> Response:
    """The timeline with text, times, costs and files: `recording.json`.

    404 with `Retry-After` while the session runs.
    """
    try:
        return await _asset(session, RECORDING_FILE)
    except HttpError as error:
        if error.code is not ErrorCode.NOT_FOUND:
            raise
        text = "the session is still being recorded; the timeline is available when it has ended"
        raise HttpError(404, error.code, text, retry_after_s=_RETRY_TIMELINE_S) from None


@router.get(
    "/{session_id}/assets/{asset_path:path}", responses=_ASSET_RESPONSES, response_class=Response
)
@router.head("/{session_id}/assets/{asset_path:path}", include_in_schema=False)
async def asset(session: Readable, asset_path: str) -> Response:
    """One file of the recording, such as `user_audio/000.wav`; supports `Range` and conditions."""
    return await _asset(session, asset_path)


@router.get("/{session_id}/peaks", response_model=WaveformPeaks)
@router.head("/{session_id}/peaks", include_in_schema=False)
async def peaks(session: Readable) -> Response:
    """The waveform of the merged replay: `peaks.json`. 404 without a replay, or until it is made.

    A recording that has none is read once, and keeps them if the server may write.
    """
    made = await run_blocking(make_peaks, session.store, session.recording)
    if made is not None:
        return Response(made, media_type="application/json")
    return await _asset(session, PEAKS_FILE)


@router.get("/{session_id}/download", responses=_ZIP_RESPONSES, response_class=StreamingResponse)
async def download(session: Readable) -> StreamingResponse:
    """All files in one ZIP, created while it is sent."""
    files = await run_blocking(session.store.files, session.recording)
    token = session.name if session.is_shared else None
    blocks = zip_blocks(session.store, session.recording, files, session.name, token)
    # No file name: the id opens the recording, and the page chooses a better name.
    headers = {"Content-Disposition": "attachment"}
    return StreamingResponse(blocks, media_type="application/zip", headers=headers)


@router.get(_UPLOAD)
async def uploaded(session: Readable) -> UploadInfo:
    """The asset that a client uploaded, if there is one."""
    return await run_blocking(find_upload, session.store, session.recording)


@write_router.post(
    _UPLOAD,
    openapi_extra=_UPLOAD_BODY,
    responses=TAKES_BODY | problem_responses(429, 507),
    dependencies=[RATE_LIMITED],
)
async def upload(edge: EdgeDep, session: Owned, request: Request) -> UploadSaved:
    """Save a recording that the client made: the body itself, or the `file` of a form.

    WAV, WebM or MP4, checked by its content. It becomes the asset `frontend_replay.wav`, `.webm` or
    `.mp4` and replaces an earlier one.
    """
    limit, reserve_gb = edge.settings.max_upload_bytes, edge.settings.min_free_disk_gb
    try:
        with _http_errors():
            return await save_upload(request, session.store, session.recording, limit, reserve_gb)
    except ClientDisconnect:
        raise HttpError(408, ErrorCode.SLOW_CONSUMER, "the client disconnected") from None


@router.get("/{session_id}/comment")
async def comment(session: Readable) -> Comment:
    """The comment of the recording."""
    return Comment(comment=await run_blocking(session.store.read_comment, session.recording))


@write_router.post(
    "/{session_id}/comment",
    responses=TAKES_BODY | problem_responses(429),
    dependencies=[RATE_LIMITED],
)
async def set_comment(session: Owned, new: Comment) -> CommentSaved:
    """Replace the comment; an empty one deletes it."""
    text = new.comment.strip()
    if len(text) > MAX_COMMENT_CHARS:
        message = f"comment: longer than {MAX_COMMENT_CHARS} characters"
        raise HttpError(413, ErrorCode.MESSAGE_TOO_LARGE, message, field="comment")
    try:
        data = text.encode()
    except UnicodeEncodeError:
        message = "comment: contains half of a surrogate pair"
        raise HttpError(400, ErrorCode.INVALID_FIELD, message, field="comment") from None
    await run_blocking(session.store.write_comment, session.recording, data)
    return CommentSaved(status="ok", len=len(text))


@write_router.post(
    "/{session_id}/shares",
    responses=TAKES_BODY | problem_responses(409, 429),
    dependencies=[RATE_LIMITED],
)
async def share(edge: EdgeDep, session: Owned, options: ShareRequest) -> ShareLink:
    """Create a link. It needs no key and does not contain the recording's id."""
    try:
        return _link(await edge.broker.shares.create(session.recording, options.expires_in_s))
    except SharesFull as error:
        raise HttpError(409, ErrorCode.SHARES_FULL, str(error)) from None


@write_router.get("/{session_id}/shares")
async def shares(edge: EdgeDep, session: Owned) -> ShareLinkList:
    """The valid links of the recording."""
    links = await edge.broker.shares.of(session.recording)
    return ShareLinkList(shares=[_link(link) for link in links])


@write_router.delete("/{session_id}/shares/{token}")
async def revoke(edge: EdgeDep, session: Owned, token: Token) -> ActionResult:
    """Revoke a link on every edge."""
    if not await edge.broker.shares.revoke(session.recording, token):
        raise HttpError(404, ErrorCode.NOT_FOUND, "this recording has no such share link")
    return ActionResult(success=True)


@admin_router.delete("/{session_id}", responses=problem_responses(400, 403, 404, 409))
async def delete(edge: EdgeDep, session: Owned) -> ActionResult:
    """Delete a recording with its share links. 409 while it is recorded or merged."""
    meta = await run_blocking(_read_meta, session)
    if meta is not None and meta.is_busy:
        text = "the recording is not finished: end its session, and wait until it is merged"
        raise HttpError(409, ErrorCode.NOT_READY, text)
    await edge.broker.shares.forget(session.recording)
    if meta is not None:  # a recorder that takes the session over must not record it again
        await edge.broker.streams.discard(meta.session_id, meta.ticket)
    await run_blocking(session.store.delete, session.recording)
    log.info("recording_deleted", recording=session.recording)
    return ActionResult(success=True)


@admin_router.get("")
async def recordings(edge: EdgeDep, query: Annotated[RecordingQuery, Query()]) -> RecordingPage:
    """A page of all recordings, newest first. Listing does not count as use."""
    return await run_blocking(index_of(edge.settings.sessions_dir).page, query)


async def run_blocking(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Runs a call to the store in a thread. Raises HttpError."""
    with _http_errors():
        return await run_in_threadpool(call, *args, **kwargs)


@contextmanager
def _http_errors() -> Iterator[None]:
    """Turns errors of the store and of uploads into HttpErrors."""
    try:
        yield
    except tuple(_HTTP_ERRORS) as error:
        raise HttpError(*_HTTP_ERRORS[type(error)], str(error)) from None
    except OSError as error:
        log.exception("recording_not_readable")
        text = f"the recording cannot be read: {error.strerror}"
        raise HttpError(503, ErrorCode.NO_RECORDINGS, text) from None


async def _asset(session: RecordingAccess, path: str) -> Response:
    file = await run_blocking(session.store.open, session.recording, path)
    if session.is_shared and path in FILES_WITH_ID:
        return RedactedResponse(RedactedFile(file, session.recording, session.name))
    return AssetResponse(file, path)


def _read_meta(session: RecordingAccess) -> Meta | None:
    """None if it cannot be read."""
    try:
        return parse_meta(session.store.read(session.recording, META_FILE))
    except (RecordingNotFound, ValueError):
        return None


def _link(share: Share) -> ShareLink:
    expires = None if share.expires_at is None else to_datetime(share.expires_at)
    return ShareLink(token=share.token, url=f"/s/{share.token}", expires_at=expires)
