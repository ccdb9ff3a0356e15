"""A session's row and the worker's lease on it: read, command, claim, move, end."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from pydantic import TypeAdapter

from antiphon.broker.connections.client import RedisClient
from antiphon.broker.keys import Keys
from antiphon.broker.rows import call_on_row, hash_fields, read_row
from antiphon.broker.scripts import Scripts, control_script
from antiphon.broker.settings import BrokerSettings
from antiphon.broker.streams import SessionStreams
from antiphon.shared_schemas.registry import Claim, SessionCommand, SessionRow
from antiphon.shared_schemas.states import (
    HELD_STATES,
    LEGAL_MOVES,
    WAITING_STATES,
    EndReason,
    SessionKind,
    SessionState,
)

_SESSION_ROW = TypeAdapter(SessionRow)
_CLAIM = TypeAdapter(Claim)


def _read_session(sid: str, reply: Mapping[bytes, bytes]) -> SessionRow | None:
    row: dict[str, Any] = hash_fields(reply)
    if "state" not in row:
        return None
    row |= {"sid": sid, "config": orjson.loads(row["config"]), "resumable": "resume" in row}
    return _SESSION_ROW.validate_python(row)


@control_script
def _end(
    reply: int, sid: str, reason: EndReason, row_ttl_s: int, epoch: int | None, ticket: int | None
) -> bool:
    return reply == 1


@control_script
def _ask(reply: int, sid: str, kind: SessionKind, command: SessionCommand, owner: str) -> bool:
    return reply == 1


class Sessions:
    """Reads and changes `session:<sid>` rows."""

    def __init__(
        self,
        redis: RedisClient,
        keys: Keys,
        scripts: Scripts,
        settings: BrokerSettings,
        streams: SessionStreams,
    ) -> None:
        self._redis = redis
        self._keys = keys
        self._scripts = scripts
        self._streams = streams
        self._row_ttl_s = settings.session_row_ttl_s

    async def get(self, sid: str) -> SessionRow | None:
        """The row, or None when the id is unknown or the row is malformed."""
        reply = await call_on_row(self._redis, "HGETALL", self._keys.session(sid))
        return read_row(f"session:{sid}", lambda: _read_session(sid, reply or {}))

    async def end(
        self,
        sid: str,
        reason: EndReason,
        *,
        epoch: int | None = None,
        ticket: int | None = None,
    ) -> bool:
        """End it in any state; True if this call did. With `epoch` or `ticket`: only if they match."""
        ended = await self._scripts.run(_end, sid, reason, self._row_ttl_s, epoch, ticket)
        if ended and ticket is not None:
            self._streams.expire_later(sid, ticket)
        return ended

    async def cancel(self, sid: str, ticket: int) -> bool:
        """Remove a waiting session from the queue; False when it does not wait under this ticket.

        Fenced by the epoch: a worker that claims it at the same time keeps it.
        """
        row = await self.get(sid)
        if row is None or row.ticket != ticket or row.state not in WAITING_STATES:
            return False
        return await self.end(sid, EndReason.CANCELLED, epoch=row.epoch, ticket=ticket)

    async def send_command(
        self, sid: str, kind: SessionKind, command: SessionCommand, *, owner: str = ""
    ) -> bool:
        """Send a command to the edge that serves a session.

        False when none of this kind is active, or when it has another `owner` than the given one.
        """
        return await self._scripts.run(_ask, sid, kind, command, owner)


@control_script
def _claim(reply: list[Any], worker_id: str, lease_ms: int, alone_ms: int) -> Claim | None:
    if not reply:
        return None
    names = ("sid", "kind", "ticket", "epoch", "attempt", "edge", "recording")
    claimed = dict(zip(names, reply, strict=True))
    return read_row(f"claim:{worker_id}", lambda: _CLAIM.validate_python(claimed))


@control_script
def _renew(reply: list[bytes], worker_id: str, lease_ms: int, held: Mapping[str, int]) -> set[str]:
    return {sid.decode() for sid in reply}


@control_script
def _move(
    reply: int,
    sid: str,
    worker_id: str,
    epoch: int,
    state: SessionState,
    config: bytes | None,
    origins: Sequence[SessionState],
) -> bool:
    if reply < 0:
        raise ValueError(f"session {sid!r} cannot move from its present state to {state}")
    return reply == 1


@control_script
def _give_back(reply: int, sid: str, worker_id: str, epoch: int) -> bool:
    return reply == 1


class Leases:
    """Every call is fenced by worker id and epoch."""

    def __init__(self, scripts: Scripts, settings: BrokerSettings) -> None:
        self._scripts = scripts
        self._lease_ms = int(settings.lease_s * 1000)
        self._alone_ms = int(settings.recovery_timeout_s * 1000 / 6)

    async def claim(self, worker_id: str) -> Claim | None:
        """Take the first queued session of a kind this worker serves, if a slot is free.

        A session that has lost workers is on trial then: beside it the worker gets no new one.
        """
        return await self._scripts.run(_claim, worker_id, self._lease_ms, self._alone_ms)

    async def renew(self, worker_id: str, held: Mapping[str, int]) -> set[str]:
        """Extend the leases of `held` (sid → epoch); returns the sids that are no longer held."""
        return await self._scripts.run(_renew, worker_id, self._lease_ms, held) if held else set()

    async def move(
        self,
        sid: str,
        worker_id: str,
        epoch: int,
        state: SessionState,
        *,
        summary: dict[str, Any] | None = None,
    ) -> bool:
        """Record a held session's next state; False when it is no longer held under this epoch.

        A repeated call changes nothing and returns True. `summary` replaces the row's config.
        Raises ValueError on a move that LEGAL_MOVES does not allow.
        """
        if state not in HELD_STATES:
            raise ValueError(f"a worker cannot move a session to {state}; end it or give it back")
        config = orjson.dumps(summary) if summary else None
        args = (sid, worker_id, epoch, state, config, origins(state))
        return await self._scripts.run(_move, *args)

    async def give_back(self, sid: str, worker_id: str, epoch: int) -> bool:
        """Return a session to the head of the queue, for another worker; False if not held."""
        return await self._scripts.run(_give_back, sid, worker_id, epoch)


def origins(state: SessionState) -> list[SessionState]:
    """The states from which a session may move to `state`."""
    return [origin for origin, targets in LEGAL_MOVES.items() if state in targets]
