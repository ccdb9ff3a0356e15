"""A worker's leases on its sessions: claim, renew, move to the next state, give back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from antiphon.broker.scripts import Scripts, control_script
from antiphon.broker.sessions import origins
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.registry import Claim
from antiphon.shared_schemas.states import HELD_STATES, SessionKind, SessionState


@control_script
def _claim(reply: list[Any], worker_id: str, lease_ms: int) -> Claim | None:
    if not reply:
        return None
    sid, kind, ticket, epoch, attempt, edge, recording = reply
    return Claim(
        sid=sid.decode(),
        kind=SessionKind(kind.decode()),
        ticket=int(ticket),
        epoch=int(epoch),
        attempt=int(attempt),
        edge=edge.decode(),
        recording=recording.decode(),
    )


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

    async def claim(self, worker_id: str) -> Claim | None:
        """Take the first queued session of a kind this worker serves, if a slot is free."""
        return await self._scripts.run(_claim, worker_id, self._lease_ms)

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
