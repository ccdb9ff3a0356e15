"""What a recorder is asked to do: one session, from its queueing to its end."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.shared_schemas.events import SessionEvent
from antiphon.shared_schemas.recording import Meta
from antiphon.shared_schemas.states import EndReason, SessionKind


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingJob:
    """One session to record. `event_id` is the transition that stands for the ownership, '' if none."""

    sid: str
    ticket: int
    kind: SessionKind
    recording: str
    event_id: str = ""

    @classmethod
    def from_event(cls, event: SessionEvent) -> RecordingJob:
        """The session that this event put into the queue."""
        return cls(
            sid=event.sid,
            ticket=event.ticket,
            kind=event.kind,
            recording=event.recording,
            event_id=event.id,
        )

    @classmethod
    def from_meta(cls, meta: Meta) -> RecordingJob:
        """A recording that was begun and has lost its recorder."""
        return cls(
            sid=meta.session_id,
            ticket=meta.ticket,
            kind=meta.app_type,
            recording=meta.recording_id,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnding:
    """How a session ended: Redis-clock ms and reason, None where nobody knows any more."""

    at: int | None = None
    reason: EndReason | None = None
    worker: str = ""
