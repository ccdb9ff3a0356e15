"""What an administrator watches: workers, queue, sessions and edges as rows by id, and how they changed."""

from __future__ import annotations

from dataclasses import dataclass, field

from antiphon.shared_schemas.lifecycle import SessionEvent
from antiphon.shared_schemas.registry import (
    EdgeSnapshot,
    QueueSnapshot,
    Running,
    Waiting,
    WorkerRow,
)

Row = dict[str, object]
Rows = dict[str, Row]


@dataclass(frozen=True, slots=True)
class View:
    """The system at Redis-clock ms `at`; with `redis` False it has not been seen since."""

    at: int = 0
    redis: bool = False
    tables: dict[str, Rows] = field(default_factory=dict)

    def whole(self) -> Row:
        """Everything, for who has seen nothing yet."""
        return {"at": self.at, "redis": self.redis, **self.tables}

    def since(self, before: View) -> Row | None:
        """Rows that are new or different, and ids that are gone, by table; None when all is as it was."""
        tables = {
            name: change
            for name, rows in self.tables.items()
            if (change := _change(before.tables.get(name, {}), rows))
        }
        if not tables and self.redis == before.redis:
            return None
        return {"at": self.at, "redis": self.redis, **tables}


def view_of(snapshot: QueueSnapshot, edges: EdgeSnapshot) -> View:
    """Rows hold no ages, so that what stands still is not sent again."""
    latency = {sid: one for worker in snapshot.workers for sid, one in worker.latency.items()}
    sessions = {job.sid: _session(job) for job in snapshot.running}
    for sid, row in sessions.items():
        row["latency"] = latency.get(sid)
    return View(
        snapshot.at,
        redis=True,
        tables={
            "workers": {worker.id: _worker(worker) for worker in snapshot.workers},
            "queue": {str(row.ticket): _waiting(row) for row in snapshot.waiting},
            "sessions": sessions,
            "edges": {edge.id: {"sessions": edge.sessions} for edge in edges.edges},
        },
    )


def event_row(event: SessionEvent) -> Row:
    """One transition."""
    return {
        "id": event.id,
        "at": event.at,
        "session": event.sid,
        "kind": event.kind,
        "state": event.state,
        "attempt": event.attempt,
        "edge": event.edge,
        "worker": event.worker,
        "recording": event.recording,
        "reason": event.reason,
        "ask": event.ask,
    }


def _change(before: Rows, after: Rows) -> Row | None:
    new = {name: row for name, row in after.items() if before.get(name) != row}
    gone = [name for name in before if name not in after]
    return {"set": new, "gone": gone} if new or gone else None


def _worker(worker: WorkerRow) -> Row:
    return {
        "state": worker.state,
        "open": worker.open,
        "detail": worker.detail,
        "engine": worker.engine,
        "model": worker.model,
        "device": worker.device,
        "memory": worker.memory,
        "kinds": sorted(worker.kinds),
        "slots": worker.slots,
        "used": worker.used,
        "counters": worker.counters,
    }


def _waiting(row: Waiting) -> Row:
    return {
        "session": row.sid,
        "kind": row.kind,
        "state": row.state,
        "position": row.position,
        "queued_at": row.queued_at,
        "eta_s": round(row.eta_s),
    }


def _session(job: Running) -> Row:
    return {
        "kind": job.kind,
        "state": job.state,
        "worker": job.worker,
        "assigned_at": job.assigned_at,
        "attempt": job.attempt,
        "resumes": job.resumes,
    }
