"""A session's row: read it, ask something of it, end it."""

from __future__ import annotations

import orjson
from redis.asyncio import Redis

from antiphon.broker.connection import call
from antiphon.broker.keys import Keys
from antiphon.broker.scripts import Scripts
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
        """End it from any state; True if this call did. With `epoch` or `ticket`: only if they match."""
        args = (_text(epoch), _text(ticket))
        return int(await self._scripts.run("end", sid, reason, self._row_ttl_s, *args)) == 1

    async def cancel(self, sid: str, ticket: int) -> bool:
        """Take a waiting session out of the queue; False when it does not wait under this ticket.

        Fenced by the epoch, so that a worker that claims it meanwhile keeps it.
        """
        row = await self.get(sid)
        if row is None or row.ticket != ticket or row.state not in WAITING_STATES:
            return False
        return await self.end(sid, EndReason.CANCELLED, epoch=row.epoch, ticket=ticket)

    async def send_command(self, sid: str, kind: SessionKind, what: SessionCommand) -> bool:
        """Pass a wish on to the edge that serves a session; False when none of this kind is active."""
        return int(await self._scripts.run("ask", sid, kind, what)) == 1


def _text(number: int | None) -> str:
    return "" if number is None else str(number)


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
