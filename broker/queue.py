"""The queue: join it, see it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from antiphon.broker.errors import QueueFull, SessionExists, TooManySessions
from antiphon.broker.eta import SessionLengths, estimate_waits
from antiphon.broker.keys import shard_tag
from antiphon.broker.registry import read_worker
from antiphon.broker.rows import read_rows, whole_number
from antiphon.broker.scripts import Scripts, control_script
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.ids import ResumeToken
from antiphon.shared_schemas.registry import (
    QueuedSession,
    QueueSnapshot,
    RunningSession,
    Ticket,
    WorkerRow,
)
from antiphon.shared_schemas.states import SessionKind, SessionState, WaitReason


@control_script
def _enqueue(
    reply: list[Any],
    sid: str,
    kind: SessionKind,
    edge: str,
    recording: str,
    shard: str,
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
    now_ms, queued, held, serving, lengths_reply, on_silent_workers = reply
    lengths = SessionLengths.read(lengths_reply)
    running = tuple(read_rows("session", held, partial(_running, now_ms, lengths)))
    workers = tuple(read_rows("worker", serving, read_worker))
    waiting = places = _estimated(_read_waiting(queued), running, workers, lengths)
    if on_silent_workers:
        requeued = _read_waiting([row[:5] for row in on_silent_workers])
        line = sorted([*waiting, *requeued], key=lambda row: row.ticket)
        line = [replace(row, position=position) for position, row in enumerate(line, start=1)]
        silent = {row[5] for row in on_silent_workers}  # may be malformed
        others = [worker for worker in workers if worker.id.encode() not in silent]
        places = _estimated(line, running, others, lengths)
    return QueueSnapshot(
        at=now_ms, waiting=waiting, running=running, workers=workers, places=places
    )


def _estimated(
    line: Sequence[QueuedSession],
    running: Sequence[RunningSession],
    workers: Sequence[WorkerRow],
    lengths: SessionLengths,
) -> tuple[QueuedSession, ...]:
    waits = estimate_waits([row.kind for row in line], running, workers, lengths)
    return tuple(_with_wait(row, wait) for row, wait in zip(line, waits, strict=True))


def _with_wait(row: QueuedSession, wait: float | WaitReason) -> QueuedSession:
    if isinstance(wait, WaitReason):
        return replace(row, eta_s=None, reason=wait)
    return replace(row, eta_s=wait, reason=None)


def _read_waiting(rows: Sequence[list[bytes]]) -> list[QueuedSession]:
    places = ((*row, position) for position, row in enumerate(rows, start=1))
    return list(read_rows("session", places, _waiting))


def _waiting(
    sid: bytes, kind: bytes, ticket: bytes, queued_at: bytes, state: bytes, position: int
) -> QueuedSession:
    return QueuedSession(
        sid=sid.decode(),
        kind=SessionKind(kind.decode()),
        ticket=whole_number(ticket),
        position=position,
        queued_at=whole_number(queued_at),
        state=SessionState(state.decode()),
    )


def _running(
    now_ms: int,
    lengths: SessionLengths,
    sid: bytes,
    kind_name: bytes,
    worker: bytes,
    state: bytes,
    assigned_at: bytes,
    attempt: bytes,
    connections: bytes,
) -> RunningSession:
    kind = SessionKind(kind_name.decode())
    elapsed_s = max(0.0, (now_ms - whole_number(assigned_at)) / 1000)
    return RunningSession(
        sid=sid.decode(),
        kind=kind,
        worker=worker.decode(),
        state=SessionState(state.decode()),
        assigned_at=int(assigned_at),
        elapsed_s=elapsed_s,
        remaining_s=max(0.0, lengths.expected_s(kind) - elapsed_s),
        attempt=whole_number(attempt),
        resumes=max(0, whole_number(connections) - 1),
    )


@control_script
def _awaited(reply: int, kinds: str) -> bool:
    return reply == 1


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
        place = (sid, kind, edge, recording, shard_tag(sid), self._max)
        args = (digest, protocol, trace, owner, client, max_sessions)
        return await self._scripts.run(_enqueue, *place, *args)

    async def awaits(self, kinds: Iterable[SessionKind]) -> bool:
        """True while a session of one of these kinds waits for a worker."""
        return await self._scripts.run(_awaited, ",".join(kinds))

    async def snapshot(self) -> QueueSnapshot:
        """Every queued session with its position and estimate, and every running one."""
        return await self._scripts.run(_snapshot)
