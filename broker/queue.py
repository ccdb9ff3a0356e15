"""The waiting line: join it, leave it, see it."""

from __future__ import annotations

from typing import Any

import orjson

from antiphon.broker.errors import QueueFull, SessionExists
from antiphon.broker.eta import SessionLengths, estimate_waits
from antiphon.broker.registry import read_worker
from antiphon.broker.scripts import Scripts
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.registry import QueuedSession, QueueSnapshot, RunningSession, Ticket
from antiphon.shared_schemas.resume_token import ResumeToken
from antiphon.shared_schemas.states import SessionKind, SessionState


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
        summary: dict[str, Any],
        resume: ResumeToken | None = None,
        protocol: str = "",
        trace: bytes = b"",
    ) -> Ticket:
        """Enqueue a new session. Raises QueueFull, or SessionExists while the id is live.

        With `resume` its client may come back, under the same `protocol`.
        """
        digest = resume.digest if resume else ""
        args = (sid, kind, edge, recording, orjson.dumps(summary), self._max, digest, protocol)
        answer = await self._scripts.run("enqueue", *args, trace)
        outcome = answer[0].decode()
        if outcome == "exists":
            raise SessionExists(sid)
        if outcome == "full":
            raise QueueFull(int(answer[1]))
        ticket, position, length, wait = (int(value) for value in answer[1:])
        return Ticket(number=ticket, position=position, queue_length=length, wait=bool(wait))

    async def snapshot(self) -> QueueSnapshot:
        """Everyone who waits, with position and estimate, and everything that runs."""
        now, waiting, running, serving, eta = await self._scripts.run("snapshot")
        workers = tuple(read_worker(i.decode(), row) for i, row in _groups(serving, 2))
        lengths = SessionLengths.read(eta)
        jobs = tuple(_running(now, row, lengths) for row in _groups(running, 7))
        kinds = [SessionKind(row[1].decode()) for row in _groups(waiting, 5)]
        waits = estimate_waits(kinds, jobs, workers, lengths)
        return QueueSnapshot(
            at=int(now),
            waiting=tuple(
                QueuedSession(
                    sid=sid.decode(),
                    kind=SessionKind(kind.decode()),
                    ticket=int(ticket),
                    position=place,
                    queued_at=int(queued_at),
                    state=SessionState(state.decode()),
                    eta_s=eta_s,
                )
                for place, ((sid, kind, ticket, queued_at, state), eta_s) in enumerate(
                    zip(_groups(waiting, 5), waits, strict=True), start=1
                )
            ),
            running=jobs,
            workers=workers,
        )


def _groups(flat: list[Any], size: int) -> list[tuple[Any, ...]]:
    return list(zip(*[iter(flat)] * size, strict=True))


def _running(now: int, row: tuple[Any, ...], lengths: SessionLengths) -> RunningSession:
    sid, kind_name, worker, state, assigned_at, *counts = (value.decode() for value in row)
    attempt, connections = map(int, counts)
    kind = SessionKind(kind_name)
    elapsed = max(0.0, (int(now) - int(assigned_at)) / 1000)
    return RunningSession(
        sid=sid,
        kind=kind,
        worker=worker,
        state=SessionState(state),
        assigned_at=int(assigned_at),
        elapsed_s=elapsed,
        remaining_s=max(0.0, lengths.expected_s(kind) - elapsed),
        attempt=attempt,
        resumes=max(0, connections - 1),
    )
