"""One session to record, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.shared_schemas.events import SessionEvent
from antiphon.shared_schemas.recording import Meta
from antiphon.shared_schemas.states import EndReason, SessionKind


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingJob:
    """One session to record. `event_id`: the transition whose ownership means the job, '' if none."""

    sid: str
    ticket: int
    kind: SessionKind
    recording: str
    event_id: str = ""

    @classmethod
    def from_event(cls, event: SessionEvent) -> RecordingJob:
        return cls(
            sid=event.sid,
            ticket=event.ticket,
            kind=event.kind,
            recording=event.recording,
            event_id=event.id,
        )

    @classmethod
    def from_meta(cls, meta: Meta) -> RecordingJob:
        """An unfinished recording that has lost its recorder."""
        return cls(
            sid=meta.session_id,
            ticket=meta.ticket,
            kind=meta.app_type,
            recording=meta.recording_id,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnding:
    """When (Redis-clock ms) and why a session ended; None when Redis no longer knows."""

    at: int | None = None
    reason: EndReason | None = None
    worker: str = ""
