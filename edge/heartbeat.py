"""Reports once a second that this edge is alive, and recovers sessions of dead processes."""

from __future__ import annotations

import asyncio

import structlog

from antiphon.broker.client import Broker
from antiphon.broker.errors import BrokerUnavailable
from antiphon.edge.notifications import SessionEvents

log = structlog.get_logger()

_PERIOD_S = 1.0
_CLOCK_EVERY = 30
"""Heartbeats between two measurements of the Redis clock."""


class Heartbeat:
    """Reports this edge's sessions, and notifies connections whose sessions are over."""

    def __init__(self, edge_id: str, broker: Broker, events: SessionEvents) -> None:
        self._edge_id = edge_id
        self._broker = broker
        self._events = events
        self._beats = 0

    async def beat(self) -> None:
        """Raises BrokerUnavailable."""
        serving = self._events.serving()
        over = await self._broker.registry.edge_beat(self._edge_id, serving)
        for sid, ticket in serving:
            if sid in over:
                self._events.mark_ended(sid, ticket, over[sid])
        replaced = await self._broker.resume_registry.replaced(self._events.resumable())
        for sid, connection in replaced.items():
            self._events.mark_replaced(sid, connection)

    async def run(self) -> None:
        """Runs forever; retries during an outage of Redis."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            try:
                await self._upkeep()
            except BrokerUnavailable as error:
                log.warning("heartbeat_failed", error=str(error))
            due = max(due + _PERIOD_S, loop.time())
            await asyncio.sleep(due - loop.time())

    async def _upkeep(self) -> None:
        await self.beat()
        requeued, ended = await self._broker.registry.reap()
        if requeued or ended:
            log.info("reaped", requeued=requeued, ended=ended)
        self._beats += 1
        if self._beats % _CLOCK_EVERY == 0:
            await self._broker.clock.sync()
