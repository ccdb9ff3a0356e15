"""What the routes of recordings take and answer."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, Field, RootModel

from antiphon.shared_schemas.recording import Recording, RecordingState, TurnRecording
from antiphon.shared_schemas.states import EndReason, SessionKind

WEEK_S = 7 * 86_400
MOST_COMMENT = 2000
"""Characters of a comment."""


class Timeline(RootModel[Recording | TurnRecording]):
    """`recording.json`: by chunk of a duplex session, by turn of the others."""


class Uploaded(BaseModel):
    """Where an uploaded recording lies among the assets."""

    status: str
    path: str
    size_bytes: int


class Upload(BaseModel):
    """The asset that a client uploaded, if one did."""

    path: str | None = None
    size_bytes: int | None = None


class Comment(BaseModel):
    """What somebody has to say of a session; empty where nobody has."""

    comment: str = ""


class Commented(BaseModel):
    """How many characters were kept."""

    status: str
    len: int


class ShareWish(BaseModel):
    """How long a link shall open its recording."""

    expires_in_s: float | None = Field(
        default=WEEK_S,
        gt=0,
        le=10 * 365 * 86_400,
        allow_inf_nan=False,
        description="null: until it is revoked",
    )


class ShareLink(BaseModel):
    """A link that opens one recording, to read, for whoever has it."""

    token: str
    url: str = Field(description="the viewer's page, on this server")
    expires_at: datetime | None = Field(description="null: when it is revoked")


class ShareLinks(BaseModel):
    """Every link that opens a recording, those that expire first in front."""

    shares: list[ShareLink]


class ShareRevoked(BaseModel):
    """The link opens nothing any more."""

    success: bool


class SessionInfo(BaseModel):
    """One recording in the list."""

    id: str = Field(description="its id; whoever has it may read it")
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
    size_bytes: int
    url: str = Field(description="the viewer's page, on this server")


class SessionPage(BaseModel):
    """A page of the list, newest first."""

    total: int = Field(description="recordings that match, on all pages")
    offset: int
    limit: int
    complete: bool = Field(
        description="false: a search by text read only the newest; narrow the dates to see others"
    )
    sessions: list[SessionInfo]
