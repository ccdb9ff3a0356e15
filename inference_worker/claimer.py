"""Fills free slots from the queue, and notices at once when a held session has been ended elsewhere."""

from __future__ import annotations

import asyncio

import structlog

from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.events import EventWatch, follow
from antiphon.inference_worker.bench import Bench
from antiphon.inference_worker.outlast import outlast
from antiphon.inference_worker.roster import Roster
from antiphon.shared_schemas.events import SessionEvent
from antiphon.shared_schemas.states import WAITING_STATES, SessionState

log = structlog.get_logger()

_FALLBACK_S = 1.0
"""A claim is tried this often even if no event tells of a waiting session."""


class Claimer:
    """Two loops: one listens to transitions, one claims when woken."""

    def __init__(self, bench: Bench, roster: Roster) -> None:
        self._bench = bench
        self._roster = roster

    async def listen(self, watch: EventWatch) -> None:
        """Wake on sessions that wait; abort those that ended."""
        async for events in follow(watch):
            for event in events:
                self._notice(event)

    def _notice(self, event: SessionEvent) -> None:
        if event.state in WAITING_STATES:
            self._roster.changed.set()
        elif event.state is SessionState.ENDED:
            self._roster.ended(event.ticket)

    async def fill(self) -> None:
        """Claim for as long as there is room and someone waits; then sleep until something changes."""
        while True:
            self._roster.changed.clear()
            try:
                while self._roster.free > 0 and await self._claim_one():
                    pass
            except BrokerUnavailable as error:
                log.warning("claim_failed", error=str(error))
            try:
                async with asyncio.timeout(_FALLBACK_S):
                    await self._roster.changed.wait()
            except TimeoutError:
                continue

    async def _claim_one(self) -> bool:
        """True if there was one. A claim that Redis has made is taken up even if the drain begins meanwhile."""
        return await outlast(asyncio.create_task(self._take_up(), name="take-up"))

    async def _take_up(self) -> bool:
        claim = await self._bench.broker.leases.claim(self._bench.worker_id)
        if claim is not None:
            self._roster.start(claim)
        return claim is not None
