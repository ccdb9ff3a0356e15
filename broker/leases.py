"""A worker's hold on its sessions: claim, renew, move on, hand back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from antiphon.broker.scripts import Scripts
from antiphon.broker.sessions import origins
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.registry import Claim
from antiphon.shared_schemas.states import HELD_STATES, SessionKind, SessionState


class Leases:
    """What a worker does with the sessions it holds; every call is fenced by worker id and epoch."""

    def __init__(self, scripts: Scripts, settings: BrokerSettings) -> None:
        self._scripts = scripts
        self._lease_ms = int(settings.lease_s * 1000)

    async def claim(self, worker_id: str) -> Claim | None:
        """Take the first queued session of a kind this worker serves, if a slot is free."""
        answer = await self._scripts.run("claim", worker_id, self._lease_ms)
        if not answer:
            return None
        sid, kind, ticket, epoch, attempt, edge, recording = answer
        return Claim(
            sid=sid.decode(),
            kind=SessionKind(kind.decode()),
            ticket=int(ticket),
            epoch=int(epoch),
            attempt=int(attempt),
            edge=edge.decode(),
            recording=recording.decode(),
        )

    async def renew(self, worker_id: str, held: Mapping[str, int]) -> set[str]:
        """Extend the leases of `held` (sid → epoch); returns the sids that are no longer held."""
        if not held:
            return set()
        flat = [part for pair in held.items() for part in pair]
        lost = await self._scripts.run("renew", worker_id, self._lease_ms, *flat)
        return {sid.decode() for sid in lost}

    async def move(
        self,
        sid: str,
        worker_id: str,
        epoch: int,
        state: SessionState,
        *,
        summary: dict[str, Any] | None = None,
    ) -> bool:
        """Record a held session's next state; False when it is not held under this epoch any more.

        A repeated call changes nothing and answers True.
        `summary` replaces the row's config summary. Raises ValueError on a move that LEGAL_MOVES
        does not allow.
        """
        if state not in HELD_STATES:
            raise ValueError(f"a worker cannot move a session to {state}; end it or give it back")
        config = orjson.dumps(summary) if summary else ""
        args = (sid, worker_id, epoch, state, config, *origins(state))
        answer = int(await self._scripts.run("move", *args))
        if answer < 0:
            raise ValueError(f"session {sid!r} cannot move to {state} from where it stands")
        return answer == 1

    async def give_back(self, sid: str, worker_id: str, epoch: int) -> bool:
        """Return a session to the head of the queue, for another worker to go on with."""
        return int(await self._scripts.run("give_back", sid, worker_id, epoch)) == 1
