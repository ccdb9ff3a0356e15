"""Claims queued sessions for free slots, and aborts sessions that another process has ended."""

from __future__ import annotations

import asyncio

import structlog

from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.events import EventWatch, follow
from antiphon.inference_worker.pool import SessionPool
from antiphon.inference_worker.sessions.context import WorkerContext
from antiphon.inference_worker.sessions.engine_executor import finish_despite_cancel
from antiphon.shared_schemas.states import WAITING_STATES, SessionState

log = structlog.get_logger()

_FALLBACK_S = 1.0
"""Claim at this interval even without an event."""


class Claimer:
    """Two loops: one follows session events, the other claims."""

    def __init__(self, context: WorkerContext, pool: SessionPool) -> None:
        self._context = context
        self._pool = pool

    async def listen(self, watch: EventWatch) -> None:
        """Wake the claim loop for waiting sessions; abort ended ones."""
        async for events in follow(watch):
            for event in events:
                if event.state in WAITING_STATES:
                    self._pool.changed.set()
                elif event.state is SessionState.ENDED:
                    self._pool.abort_ended(event.ticket)

    async def fill(self) -> None:
        """Claim while there is a free slot and a waiting session; then wait for a change."""
        while True:
            self._pool.changed.clear()
            try:
                # A claim that Redis has made must be started, even if the drain begins.
                while self._pool.free > 0 and await finish_despite_cancel(
                    asyncio.create_task(self._claim_one(), name="claim-one")
                ):
                    pass
            except BrokerUnavailable as error:
                log.warning("claim_failed", error=str(error))
            try:
                async with asyncio.timeout(_FALLBACK_S):
                    await self._pool.changed.wait()
            except TimeoutError:
                continue

    async def _claim_one(self) -> bool:
        """True if a session was waiting."""
        claim = await self._context.broker.leases.claim(self._context.worker_id)
        if claim is not None:
            self._pool.start(claim)
        return claim is not None
