"""What Redis knows of a session: its status, its client's consent, and whether a recorder has it."""

import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import structlog

from antiphon.broker.client import Broker
from antiphon.broker.retry import retry_until_available
from antiphon.broker.service.process import first_of
from antiphon.recorder_service.journal.state import RecordingJob, SessionEnding
from antiphon.recorder_service.manifest.meta import read_meta
from antiphon.shared_schemas.entries import (
    ChatIn,
    DiagnosticIn,
    ErrorOut,
    HalfDuplexPrepareIn,
    PrepareIn,
    SettingsIn,
    StopIn,
    StreamEntry,
    StreamPosition,
)
from antiphon.shared_schemas.recording import TIMELINE_FILE
from antiphon.shared_schemas.states import EndReason, SessionKind, SessionState

log = structlog.get_logger()

Settled = Callable[[], Awaitable[None]]
"""Waits until a session is over and its last entries have arrived."""

_BEFORE_THE_REQUEST = (DiagnosticIn, StopIn)
"""What a client may send before it asks for anything."""


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """`assigned`: a worker has, or may have had, the session. `ending` is None while it runs."""

    assigned: bool
    worker: str
    ending: SessionEnding | None


async def session_status(broker: Broker, job: RecordingJob) -> SessionStatus:
    """Read the session's row, or its transitions when the row is gone.

    When both are gone the session is over and its ending is unknown.
    """
    row = await broker.sessions.get(job.sid)
    if row is None or row.recording != job.recording:
        return await _status_of_events(broker, job)
    ending = None
    if row.state is SessionState.ENDED:
        ending = SessionEnding(at=row.ended_at, reason=row.reason, worker=row.worker)
    return SessionStatus(row.assigned_at is not None, row.worker, ending)


async def _status_of_events(broker: Broker, job: RecordingJob) -> SessionStatus:
    assigned, worker = False, ""
    async for event in broker.events.since(job.event_id or "0-0"):
        if event.recording != job.recording:
            continue
        assigned = assigned or event.state is SessionState.ASSIGNED
        worker = event.worker
        if event.state is SessionState.ENDED:
            ending = SessionEnding(at=event.at, reason=event.reason, worker=worker)
            return SessionStatus(assigned or bool(worker), worker, ending)
    return SessionStatus(assigned=True, worker=worker, ending=SessionEnding(worker=worker))


async def may_discard(broker: Broker, job: RecordingJob) -> bool:
    """False when the id belongs to a session with a lower ticket: Redis has lost its counters."""
    row = await broker.sessions.get(job.sid)
    return row is None or row.ticket >= job.ticket


async def reconnect_time_left_s(broker: Broker, job: RecordingJob, grace_s: float) -> float:
    """Seconds in which the client of an ended session may still reconnect; 0 if it may not."""
    row = await broker.sessions.get(job.sid)
    if row is None or row.ticket != job.ticket or not row.resumable or row.ended_at is None:
        return 0.0
    if row.reason in (EndReason.CLIENT_GONE, EndReason.EDGE_LOST):
        return 0.0
    return min(grace_s, max(0.0, grace_s - (broker.clock.now_ms() - row.ended_at) / 1000))


def unfinished_recordings(root: Path, quiet_s: float) -> list[RecordingJob]:
    """Recordings below `root` without a final meta or replay whose journal is at least `quiet_s` old.

    A copy with another name and a link are no recordings. Blocks on the disk; folders may vanish during
    the call.
    """
    oldest = time.time() - quiet_s
    found: list[RecordingJob] = []
    for journal in root.glob(f"*/{TIMELINE_FILE}"):
        if journal.parent.is_symlink():
            continue
        try:
            quiet = journal.stat().st_mtime < oldest
            meta = read_meta(journal.parent) if quiet else None
        except OSError as error:
            log.warning("recording_not_readable", folder=journal.parent.name, error=str(error))
            continue
        if meta is not None and meta.is_busy and meta.recording_id == journal.parent.name:
            found.append(RecordingJob.from_meta(meta))
    return found


async def has_no_recorder(broker: Broker, job: RecordingJob, quiet_s: float) -> bool:
    """True when no recorder has saved progress for `quiet_s`. Raises BrokerUnavailable."""
    progress = await broker.recorder_progress.load(job.ticket)
    return progress is None or progress["at"] < broker.clock.now_ms() - quiet_s * 1000


async def may_record(broker: Broker, job: RecordingJob, settled: Settled) -> bool:
    """Whether the client consents: its `prepare` or chat request says so with `record`.

    Waits until a worker has served the request or the session is over, because a client whose
    `prepare` fails may send another one. One refusal is enough. When Redis no longer holds the
    request, the worker's note in the session's row counts. Without either there is no recording.
    """
    await first_of(_request_served(broker, job), settled())
    return await retry_until_available(lambda: _consents(broker, job), "read a request")


async def _consents(broker: Broker, job: RecordingJob) -> bool:
    consents, whole = await _stated_consents(broker, job)
    if not all(consents):
        return False
    if consents and whole:
        return True
    noted = await _noted_consent(broker, job)
    return bool(consents) if noted is None else noted


async def _request_served(broker: Broker, job: RecordingJob) -> None:
    """A worker has answered with anything but an error. A chat's only request needs no answer."""
    is_chat = job.kind is SessionKind.CHAT
    key = (broker.keys.inbound if is_chat else broker.keys.outbound)(job.sid)
    after = StreamPosition.before(job.ticket)
    while True:  # the subscription ends when it falls behind: continue from the last entry
        async with broker.reader.subscribe(key, after) as entries:
            async for position, entry in entries:
                if not isinstance(entry, ErrorOut):
                    return
                after = position


async def _stated_consents(broker: Broker, job: RecordingJob) -> tuple[list[bool], bool]:
    """Every `record` that the stream still holds, and whether it holds all entries up to the last.

    Requests come before the conversation, so only the beginning of the stream is read.
    """
    consents: list[bool] = []
    whole, n = True, 0
    async with aclosing(broker.streams.history(broker.keys.inbound(job.sid), job.ticket)) as past:
        async for position, entry in past:
            whole, n = whole and position.n == n + 1, position.n
            consent = _consent_in(entry)
            if consent is not None:
                consents.append(consent)
            elif not isinstance(entry, _BEFORE_THE_REQUEST):
                break
    return consents, whole


async def _noted_consent(broker: Broker, job: RecordingJob) -> bool | None:
    """The last note of a worker that prepared the session; None when there is none."""
    row = await broker.sessions.get(job.sid)
    if row is None or row.recording != job.recording:
        return None
    noted: bool | None = row.config.get("record")
    return noted


def _consent_in(entry: StreamEntry) -> bool | None:
    match entry:
        case PrepareIn(config=config) | HalfDuplexPrepareIn(config=config):
            return config.record
        case SettingsIn(config=settings):
            return settings.record
        case ChatIn(options=options):
            return options.record
    return None
