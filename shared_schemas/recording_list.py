"""The list of recordings: what is asked for, and one page of it."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field

from antiphon.shared_schemas.recording import Meta, RecordingState
from antiphon.shared_schemas.states import EndReason, SessionKind


def _with_zone(time: datetime) -> datetime:
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


_UtcByDefault = Annotated[datetime, AfterValidator(_with_zone)]


class RecordingQuery(BaseModel):
    """A page of the recordings that match. None and '' match everything."""

    kind: SessionKind | None = Field(default=None, description="only this kind of session")
    state: RecordingState | None = Field(default=None, description="only recordings in this state")
    since: _UtcByDefault | None = Field(
        default=None, description="started at this time or later; default UTC"
    )
    until: _UtcByDefault | None = Field(
        default=None, description="started before this time; default UTC"
    )
    text: str = Field(
        default="", max_length=200, description="part of its words, its prompt, or one of its ids"
    )
    offset: int = Field(default=0, ge=0, le=10_000_000, description="recordings to skip")
    limit: int = Field(default=50, ge=1, le=200, description="recordings per page")

    def matches(self, meta: Meta) -> bool:
        """Checks everything but the text."""
        return (
            self.kind in (None, meta.app_type)
            and self.state in (None, meta.state)
            and (self.since is None or meta.created_at >= self.since)
            and (self.until is None or meta.created_at < self.until)
        )


class RecordingInfo(BaseModel):
    """One recording in the list."""

    id: str = Field(description="anyone who has the id may read the recording")
    session_id: str
    app_type: SessionKind
    state: RecordingState
    reason: EndReason | None
    created_at: datetime
    ended_at: datetime | None
    duration_s: float | None
    worker_id: str
    chunks: int | None
    turns: int | None
    first_words: str = Field(
        default="", description="what was said first, by the user if that is transcribed"
    )
    size_bytes: int
    url: str = Field(description="the viewer's page, on this server")


class RecordingPage(BaseModel):
    """A page of the list, newest first. Iterating over it yields its `sessions`."""

    total: int = Field(description="matching recordings on all pages")
    offset: int
    limit: int
    complete: bool = Field(
        description="false: a text search read only the newest recordings; narrow the dates"
    )
    sessions: list[RecordingInfo]

    def __iter__(self) -> Iterator[RecordingInfo]:  # type: ignore[override]  # pydantic yields fields
        return iter(self.sessions)
