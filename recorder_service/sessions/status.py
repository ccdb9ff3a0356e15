"""Where a session stands, as far as Redis still knows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import structlog

from antiphon.broker.client import Broker
from antiphon.broker.retry import retry_until_available
from antiphon.recorder_service.journal.job import RecordingJob, SessionEnding
from antiphon.recorder_service.manifest.meta import read_meta
from antiphon.shared_schemas.entries import (
    ChatIn,
    DiagnosticIn,
    ErrorOut,
    HalfDuplexPrepareIn,
    PrepareIn,
    StopIn,
    StreamEntry,
)
from antiphon.shared_schemas.recording import TIMELINE_FILE
from antiphon.shared_schemas.registry import SessionRow
from antiphon.shared_schemas.states import EndReason, SessionKind, SessionState
from antiphon.shared_schemas.stream_position import StreamPosition


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """`assigned`: a worker has, or may have, had it. `ending` is None while it lives."""

    assigned: bool
    worker: str
    ending: SessionEnding | None


async def session_status(broker: Broker, job: RecordingJob) -> SessionStatus:
    """The session's row; when that is gone, what the transitions since its queueing tell.

    Where neither is left the session is over, and nobody knows how it ended.
    """
    row = await broker.sessions.get(job.sid)
    if row is not None and row.recording == job.recording:
        return _of_row(row)
    return await _of_events(broker, job)


def _of_row(row: SessionRow) -> SessionStatus:
    ending = None
    if row.state is SessionState.ENDED:
        ending = SessionEnding(at=row.ended_at, reason=row.reason, worker=row.worker)
    return SessionStatus(row.assigned_at is not None, row.worker, ending)


async def _of_events(broker: Broker, job: RecordingJob) -> SessionStatus:
    assigned, worker = False, ""
    async for event in broker.past_events(job.event_id or "0-0"):
        if event.recording != job.recording:
            continue
        assigned = assigned or event.state is SessionState.ASSIGNED
        worker = event.worker
        if event.state is SessionState.ENDED:
            ending = SessionEnding(at=event.at, reason=event.reason, worker=worker)
            return SessionStatus(assigned or bool(worker), worker, ending)
    return SessionStatus(assigned=True, worker=worker, ending=SessionEnding(worker=worker))


async def may_discard(broker: Broker, job: RecordingJob) -> bool:
    """False when the id now belongs to a session with a lower ticket: Redis has lost its counters."""
    row = await broker.sessions.get(job.sid)
    return row is None or row.ticket >= job.ticket


async def client_may_return_s(broker: Broker, job: RecordingJob, grace_s: float) -> float:
    """How long the client of an ended session may still come back for its last words; 0 if it may not."""
    row = await broker.sessions.get(job.sid)
    if row is None or row.ticket != job.ticket or not row.resumable or row.ended_at is None:
        return 0.0
    if row.reason in (EndReason.CLIENT_GONE, EndReason.EDGE_LOST):
        return 0.0
    return max(0.0, grace_s - (broker.clock.now_ms() - row.ended_at) / 1000)


_AT_ANY_TIME = (DiagnosticIn, StopIn)
"""What a client may send before it has said what it wants."""


async def may_record(broker: Broker, job: RecordingJob, settled: Awaitable[None]) -> bool:
    """Wait until a worker has done what the client wants, or until the session is over.

    Not only until the client has said it: one whose `prepare` fails may ask for something else. One
    refusal is enough. Where Redis has let go of what was said, the worker's note of it in the
    session's row counts; a client that is not known to have said anything is not recorded.
    """
    await _one_of(_answered(broker, job), settled)
    wishes, whole = await retry_until_available(
        lambda: _stated(broker, job), "read what a client wants"
    )
    if not all(wishes):
        return False
    if wishes and whole:
        return True
    noted = await retry_until_available(lambda: _noted(broker, job), "read a session's settings")
    return bool(wishes) if noted is None else noted


async def _one_of(*events: Awaitable[None]) -> None:
    """Wait for the first of them; the others are given up. Raises what it raises."""
    tasks = [asyncio.ensure_future(event) for event in events]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _answered(broker: Broker, job: RecordingJob) -> None:
    """A worker has said something else than that it cannot; a chat cannot be asked anew."""
    is_chat = job.kind is SessionKind.CHAT
    key = (broker.keys.inbound if is_chat else broker.keys.outbound)(job.sid)
    after = StreamPosition.before(job.ticket)
    while True:  # it may fall behind: go on from where it stands
        async with broker.reader.subscribe(key, after) as entries:
            async for position, entry in entries:
                if not isinstance(entry, ErrorOut):
                    return
                after = position


async def _stated(broker: Broker, job: RecordingJob) -> tuple[list[bool], bool]:
    """Every wish that the stream still holds, and whether it holds all entries up to the last one.

    None comes after the conversation has begun, so no more than its beginning is read.
    """
    wishes: list[bool] = []
    whole, n = True, 0
    async with aclosing(broker.streams.history(broker.keys.inbound(job.sid), job.ticket)) as past:
        async for position, entry in past:
            whole, n = whole and position.n == n + 1, position.n
            wish = _wish(entry)
            if wish is not None:
                wishes.append(wish)
            elif not isinstance(entry, _AT_ANY_TIME):
                break
    return wishes, whole


async def _noted(broker: Broker, job: RecordingJob) -> bool | None:
    """What the worker that prepared the session last noted; None when no worker has, or it is gone."""
    row = await broker.sessions.get(job.sid)
    if row is None or row.recording != job.recording:
        return None
    noted: bool | None = row.config.get("record")
    return noted


def _wish(entry: StreamEntry) -> bool | None:
    match entry:
        case PrepareIn(config=config) | HalfDuplexPrepareIn(config=config):
            return config.record
        case ChatIn(options=options):
            return options.record
    return None


log = structlog.get_logger()


def unfinished_recordings(root: Path, quiet_s: float) -> list[RecordingJob]:
    """Recordings below `root` that are unfinished or unmerged, with a journal as old as `quiet_s`.

    Blocks on the disk; folders may vanish meanwhile.
    """
    oldest = time.time() - quiet_s
    found: list[RecordingJob] = []
    for journal in root.glob(f"*/{TIMELINE_FILE}"):
        try:
            quiet = journal.stat().st_mtime < oldest
            meta = read_meta(journal.parent) if quiet else None
        except OSError as error:
            log.warning("recording_not_readable", folder=journal.parent.name, error=str(error))
            continue
        if meta is not None and meta.is_busy:
            found.append(RecordingJob.from_meta(meta))
    return found


async def has_no_recorder(broker: Broker, job: RecordingJob, quiet_s: float) -> bool:
    """True when no recorder has confirmed progress for `quiet_s`. Raises BrokerUnavailable."""
    progress = await broker.recorder_progress.load(job.ticket)
    return progress is None or progress["at"] < broker.clock.now_ms() - quiet_s * 1000
