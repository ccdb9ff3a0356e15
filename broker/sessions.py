"""A session's row: read it, send it a command, end it."""

from __future__ import annotations

import orjson
from redis.asyncio import Redis

from antiphon.broker.connection import call
from antiphon.broker.keys import Keys
from antiphon.broker.scripts import Scripts, control_script
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.events import SessionCommand
from antiphon.shared_schemas.registry import SessionRow
from antiphon.shared_schemas.states import (
    LEGAL_MOVES,
    WAITING_STATES,
    EndReason,
    SessionKind,
    SessionState,
)


@control_script
def _end(
    reply: int, sid: str, reason: EndReason, row_ttl_s: int, epoch: int | None, ticket: int | None
) -> bool:
    return reply == 1


@control_script
def _ask(reply: int, sid: str, kind: SessionKind, command: SessionCommand) -> bool:
    return reply == 1


class Sessions:
    """Reads and changes `session:<sid>` rows."""

    def __init__(
        self, redis: Redis, keys: Keys, scripts: Scripts, settings: BrokerSettings
    ) -> None:
        self._redis = redis
        self._keys = keys
        self._scripts = scripts
        self._row_ttl_s = settings.session_row_ttl_s

    async def get(self, sid: str) -> SessionRow | None:
        """The row, or None when the id is unknown."""
        reply = await call(self._redis, "HGETALL", self._keys.session(sid))
        row = {k.decode(): v.decode() for k, v in reply.items()}
        return _read(sid, row) if "state" in row else None

    async def end(
        self,
        sid: str,
        reason: EndReason,
        *,
        epoch: int | None = None,
        ticket: int | None = None,
    ) -> bool:
        """End it in any state; True if this call did. With `epoch` or `ticket`: only if they match."""
        return await self._scripts.run(_end, sid, reason, self._row_ttl_s, epoch, ticket)

    async def cancel(self, sid: str, ticket: int) -> bool:
        """Remove a waiting session from the queue; False when it does not wait under this ticket.

        Fenced by the epoch: a worker that claims it at the same time keeps it.
        """
        row = await self.get(sid)
        if row is None or row.ticket != ticket or row.state not in WAITING_STATES:
            return False
        return await self.end(sid, EndReason.CANCELLED, epoch=row.epoch, ticket=ticket)

    async def send_command(self, sid: str, kind: SessionKind, command: SessionCommand) -> bool:
        """Send a command to the edge that serves a session; False when none of this kind is active."""
        return await self._scripts.run(_ask, sid, kind, command)


def origins(state: SessionState) -> list[SessionState]:
    """The states from which a session may move to `state`."""
    return [origin for origin, targets in LEGAL_MOVES.items() if state in targets]


def _read(sid: str, row: dict[str, str]) -> SessionRow:
    return SessionRow(
        sid=sid,
        kind=SessionKind(row["kind"]),
        state=SessionState(row["state"]),
        ticket=int(row["ticket"]),
        epoch=int(row["epoch"]),
        attempt=int(row["attempt"]),
        edge=row["edge"],
        worker=row["worker"],
        recording=row["recording"],
        queued_at=int(row["queued_at"]),
        assigned_at=int(row["assigned_at"]) if "assigned_at" in row else None,
        ended_at=int(row["ended_at"]) if "ended_at" in row else None,
        reason=EndReason(row["reason"]) if "reason" in row else None,
        resumable="resume" in row,
        config=orjson.loads(row["config"]),
        trace=row.get("trace", "").encode(),
    )
