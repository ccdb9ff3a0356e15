"""The queue: join it, see it."""

from __future__ import annotations

from typing import Any, NamedTuple

from antiphon.broker.errors import QueueFull, SessionExists
from antiphon.broker.eta import SessionLengths, estimate_waits
from antiphon.broker.registry import read_worker
from antiphon.broker.scripts import Scripts, control_script
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.registry import QueuedSession, QueueSnapshot, RunningSession, Ticket
from antiphon.shared_schemas.resume_token import ResumeToken
from antiphon.shared_schemas.states import SessionKind, SessionState


class _Queued(NamedTuple):
    """A queued session in the reply of `snapshot.lua`."""

    sid: bytes
    kind: bytes
    ticket: bytes
    queued_at: bytes
    state: bytes


class _Running(NamedTuple):
    """A running session in the reply of `snapshot.lua`."""

    sid: bytes
    kind: bytes
    worker: bytes
    state: bytes
    assigned_at: bytes
    attempt: bytes
    connections: bytes


class _Snapshot(NamedTuple):
    now_ms: int
    queued: list[_Queued]
    running: list[_Running]
    workers: list[tuple[bytes, list[bytes]]]
    lengths: list[bytes]


@control_script
def _enqueue(
    reply: list[Any],
    sid: str,
    kind: SessionKind,
    edge: str,
    recording: str,
    max_queue: int,
    resume_digest: str,
    protocol: str,
    trace: bytes,
) -> Ticket:
    outcome, *values = reply
    if outcome == b"exists":
        raise SessionExists(sid)
    if outcome == b"full":
        raise QueueFull(int(values[0]))
    number, position, length, wait = (int(value) for value in values)
    return Ticket(number=number, position=position, queue_length=length, wait=bool(wait))


@control_script
def _snapshot(reply: list[Any]) -> _Snapshot:
    now_ms, queued, running, workers, lengths = reply
    return _Snapshot(
        int(now_ms),
        [_Queued(*row) for row in queued],
        [_Running(*row) for row in running],
        [(worker_id, row) for worker_id, row in workers],
        lengths,
    )


class Queue:
    """Strict FIFO over all kinds; ticket numbers are the order."""

    def __init__(self, scripts: Scripts, settings: BrokerSettings) -> None:
        self._scripts = scripts
        self._max = settings.max_queue_size

    async def join(
        self,
        sid: str,
        kind: SessionKind,
        *,
        edge: str,
        recording: str,
        resume: ResumeToken | None = None,
        protocol: str = "",
        trace: bytes = b"",
    ) -> Ticket:
        """Enqueue a new session. Raises QueueFull, or SessionExists while the id is live.

        With `resume` its client may reconnect, under the same `protocol`.
        """
        digest = resume.digest if resume else ""
        args = (sid, kind, edge, recording, self._max, digest, protocol, trace)
        return await self._scripts.run(_enqueue, *args)

    async def snapshot(self) -> QueueSnapshot:
        """Every queued session with its position and estimate, and every running one."""
        found = await self._scripts.run(_snapshot)
        workers = tuple(read_worker(name.decode(), row) for name, row in found.workers)
        lengths = SessionLengths.read(found.lengths)
        running = tuple(_running(found.now_ms, row, lengths) for row in found.running)
        kinds = [SessionKind(row.kind.decode()) for row in found.queued]
        waits = estimate_waits(kinds, running, workers, lengths)
        return QueueSnapshot(
            at=found.now_ms,
            waiting=tuple(
                QueuedSession(
                    sid=row.sid.decode(),
                    kind=kind,
                    ticket=int(row.ticket),
                    position=position,
                    queued_at=int(row.queued_at),
                    state=SessionState(row.state.decode()),
                    eta_s=eta_s,
                )
                for position, (row, kind, eta_s) in enumerate(
                    zip(found.queued, kinds, waits, strict=True), start=1
                )
            ),
            running=running,
            workers=workers,
        )


def _running(now_ms: int, row: _Running, lengths: SessionLengths) -> RunningSession:
    kind = SessionKind(row.kind.decode())
    elapsed_s = max(0.0, (now_ms - int(row.assigned_at)) / 1000)
    return RunningSession(
        sid=row.sid.decode(),
        kind=kind,
        worker=row.worker.decode(),
        state=SessionState(row.state.decode()),
        assigned_at=int(row.assigned_at),
        elapsed_s=elapsed_s,
        remaining_s=max(0.0, lengths.expected_s(kind) - elapsed_s),
        attempt=int(row.attempt),
        resumes=max(0, int(row.connections) - 1),
    )
