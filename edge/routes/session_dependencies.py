"""How a route gets at the recording that it was asked for: by id, or by the token of a share link."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import structlog
from fastapi import Depends, Path
from starlette.concurrency import run_in_threadpool

from antiphon.edge.context import EdgeContext
from antiphon.edge.errors import HttpError
from antiphon.edge.recordings.names import BadName
from antiphon.edge.recordings.shelf import NoShelf, NotThere, Shelf
from antiphon.edge.routes.dependencies import EdgeDep
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.ids import is_share_token

log = structlog.get_logger()

T = TypeVar("T")

SessionId = Annotated[
    str,
    Path(
        max_length=64,
        description="`recording_session_id` of a session, or the token of a share link",
    ),
]


@dataclass(frozen=True, slots=True)
class Reading:
    """A recording that may be read. `name` is what it was asked for by: its id, or a share token."""

    shelf: Shelf
    recording: str
    name: str

    @property
    def is_shared(self) -> bool:
        """True when it was asked for through a share link."""
        return self.name != self.recording


async def reading(edge: EdgeDep, session_id: SessionId) -> Reading:
    """The recording; that it was read is noted. Raises HttpError."""
    shelf = shelf_of(edge)
    recording = await _opened_by(edge, session_id) if is_share_token(session_id) else session_id
    await at_shelf(shelf.use, recording)
    return Reading(shelf, recording, session_id)


async def owning(edge: EdgeDep, session_id: SessionId) -> Reading:
    """The same for those that change something: a share link does not do. Raises HttpError."""
    if is_share_token(session_id):
        text = "a share link only reads; this needs the recording's own id"
        raise HttpError(403, ErrorCode.FORBIDDEN, text)
    return await reading(edge, session_id)


Readable = Annotated[Reading, Depends(reading)]
Owned = Annotated[Reading, Depends(owning)]


def shelf_of(edge: EdgeContext) -> Shelf:
    """The recordings as far as this edge can reach them."""
    return Shelf(edge.settings.recordings_root)


async def at_shelf(call: Callable[..., T], *args: Any) -> T:
    """Do something on the disk, in a thread. Raises HttpError."""
    with refusing():
        return await run_in_threadpool(call, *args)


@contextmanager
def refusing() -> Iterator[None]:
    """Turns what the shelf raises into Refusals."""
    try:
        yield
    except BadName as error:
        raise HttpError(400, ErrorCode.INVALID_FIELD, str(error)) from None
    except NotThere as error:
        raise HttpError(404, ErrorCode.NOT_FOUND, str(error)) from None
    except NoShelf as error:
        raise HttpError(503, ErrorCode.NO_RECORDINGS, str(error)) from None
    except OSError as error:
        log.exception("recording_not_readable")
        text = f"the recording cannot be read: {error.strerror}"
        raise HttpError(503, ErrorCode.NO_RECORDINGS, text) from None


async def _opened_by(edge: EdgeContext, token: str) -> str:
    recording = await edge.broker.shares.recording(token)
    if recording is None:
        text = "this share link has expired, was revoked, or never was one"
        raise HttpError(404, ErrorCode.NOT_FOUND, text)
    return recording
