"""Where a session stands, as far as Redis still knows."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.broker.client import Broker
from antiphon.recorder_service.job import Ending, Job
from antiphon.shared_schemas.registry import SessionRow
from antiphon.shared_schemas.states import EndReason, SessionState


@dataclass(frozen=True, slots=True)
class Standing:
    """`assigned`: a worker has, or may have, had it. `ending` is None while it lives."""

    assigned: bool
    worker: str
    ending: Ending | None


async def look_up(broker: Broker, job: Job) -> Standing:
    """The session's row; when that is gone, what the transitions since its queueing tell.

    Where neither is left the session is over, and nobody knows how it ended.
    """
    row = await broker.sessions.get(job.sid)
    if row is not None and row.recording == job.recording:
        return _of_row(row)
    return await _of_events(broker, job)


def _of_row(row: SessionRow) -> Standing:
    ending = None
    if row.state is SessionState.ENDED:
        ending = Ending(at=row.ended_at, reason=row.reason, worker=row.worker)
    return Standing(row.assigned_at is not None, row.worker, ending)


async def _of_events(broker: Broker, job: Job) -> Standing:
    assigned, worker = False, ""
    async for event in broker.past_events(job.event_id or "0-0"):
        if event.recording != job.recording:
            continue
        assigned = assigned or event.state is SessionState.ASSIGNED
        worker = event.worker
        if event.state is SessionState.ENDED:
            ending = Ending(at=event.at, reason=event.reason, worker=worker)
            return Standing(assigned or bool(worker), worker, ending)
    return Standing(assigned=True, worker=worker, ending=Ending(worker=worker))


async def may_discard(broker: Broker, job: Job) -> bool:
    """False when the id now belongs to a session with a lower ticket: Redis has lost its counters."""
    row = await broker.sessions.get(job.sid)
    return row is None or row.ticket >= job.ticket


async def client_may_return_s(broker: Broker, job: Job, grace_s: float) -> float:
    """How long the client of an ended session may still come back for its last words; 0 if it may not."""
    row = await broker.sessions.get(job.sid)
    if row is None or row.ticket != job.ticket or not row.resumable or row.ended_at is None:
        return 0.0
    if row.reason in (EndReason.CLIENT_GONE, EndReason.EDGE_LOST):
        return 0.0
    return max(0.0, grace_s - (broker.clock.now_ms() - row.ended_at) / 1000)
