"""The queue: join it, see it."""

from __future__ import annotations

from typing import Any

from antiphon.broker.errors import QueueFull, SessionExists, TooManySessions
from antiphon.broker.eta import SessionLengths, estimate_waits
from antiphon.broker.registry import read_worker
from antiphon.broker.scripts import Scripts, control_script
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.ids import ResumeToken
from antiphon.shared_schemas.registry import QueuedSession, QueueSnapshot, RunningSession, Ticket
from antiphon.shared_schemas.states import SessionKind, SessionState


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
    owner: str,
    client: str,
    max_sessions: int,
) -> Ticket:
    outcome, *values = reply
    if outcome == b"exists":
        raise SessionExists(sid)
    if outcome == b"full":
        raise QueueFull(int(values[0]))
    if outcome == b"too many":
        raise TooManySessions(int(values[0]))
    number, position, length, wait = (int(value) for value in values)
    return Ticket(number=number, position=position, queue_length=length, wait=bool(wait))


@control_script
def _snapshot(reply: list[Any]) -> QueueSnapshot:
    now_ms, queued, held, serving, lengths_reply = reply
    lengths = SessionLengths.read(lengths_reply)
    running = tuple(_running(now_ms, lengths, row) for row in held)
    workers = tuple(read_worker(name.decode(), row) for name, row in serving)
    rows = [[part.decode() for part in row] for row in queued]
    kinds = [SessionKind(kind) for _, kind, *_ in rows]
    waits = estimate_waits(kinds, running, workers, lengths)
    waiting = tuple(
        QueuedSession(
            sid=sid,
            kind=kind,
            ticket=int(ticket),
            position=position,
            queued_at=int(queued_at),
            state=SessionState(state),
            eta_s=eta_s,
        )
        for position, ((sid, _, ticket, queued_at, state), kind, eta_s) in enumerate(
            zip(rows, kinds, waits, strict=True), start=1
        )
    )
    return QueueSnapshot(at=now_ms, waiting=waiting, running=running, workers=workers)


def _running(now_ms: int, lengths: SessionLengths, row: list[bytes]) -> RunningSession:
    sid, kind_name, worker, state, assigned_at, attempt, connections = (p.decode() for p in row)
    kind = SessionKind(kind_name)
    elapsed_s = max(0.0, (now_ms - int(assigned_at)) / 1000)
    return RunningSession(
        sid=sid,
        kind=kind,
        worker=worker,
        state=SessionState(state),
        assigned_at=int(assigned_at),
        elapsed_s=elapsed_s,
        remaining_s=max(0.0, lengths.expected_s(kind) - elapsed_s),
        attempt=int(attempt),
        resumes=max(0, int(connections) - 1),
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
        owner: str = "",
        client: str = "",
        max_sessions: int = 0,
    ) -> Ticket:
        """Enqueue a new session. Raises QueueFull, TooManySessions, or SessionExists while the id is live.

        With `resume` its client may reconnect, under the same `protocol`. `owner`: the digest of the
        secret that its client must present to control it by HTTP. At most `max_sessions` of one `client`
        may be live; 0: no limit.
        """
        digest = resume.digest if resume else ""
        args = (sid, kind, edge, recording, self._max, digest, protocol, trace, owner, client)
        return await self._scripts.run(_enqueue, *args, max_sessions)

    async def snapshot(self) -> QueueSnapshot:
        """Every queued session with its position and estimate, and every running one."""
        return await self._scripts.run(_snapshot)
