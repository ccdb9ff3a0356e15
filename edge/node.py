"""One running edge: what every route and every connection holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from structlog.contextvars import bind_contextvars

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.tracing import Tracing, open_tracing
from antiphon.edge.access import Access
from antiphon.edge.chat_room import ChatRoom
from antiphon.edge.endings import Endings
from antiphon.edge.heartbeat import Heartbeat
from antiphon.edge.live_feed import LiveFeed
from antiphon.edge.metrics import EdgeMetrics
from antiphon.edge.queue_watch import QueueWatch
from antiphon.edge.session_trace import SessionTrace
from antiphon.edge.settings import EdgeSettings
from antiphon.edge.visitors import Visitors
from antiphon.shared_schemas.ids import new_process_id
from antiphon.shared_schemas.states import SessionKind

_CLOSE_WITHIN_S = 3.0


@dataclass
class Edge:
    """No session state: another edge could rebuild all of it from Redis."""

    id: str
    settings: EdgeSettings
    broker: Broker
    watch: QueueWatch
    endings: Endings
    access: Access
    visitors: Visitors
    chat_room: ChatRoom
    upkeep: asyncio.Task[None]
    """Runs as long as the edge does; ends before it only by a defect."""
    metrics: EdgeMetrics
    live: LiveFeed
    tracing: Tracing | None = None
    draining: bool = False

    def trace(self, sid: str, kind: SessionKind, parent: bytes = b"") -> SessionTrace | None:
        """What a connection adds to its session's trace; None where traces are off."""
        if self.tracing is None:
            return None
        return SessionTrace(self.tracing, self.broker.clock, sid, kind, parent)

    async def drain(self) -> None:
        """Take no new session, let the others run for `drain_s`, then tell them and close."""
        self.draining = True
        if await self._vacated(self.settings.drain_s):
            return
        self.watch.close()
        await self._vacated(_CLOSE_WITHIN_S)

    async def _vacated(self, within_s: float) -> bool:
        try:
            async with asyncio.timeout(within_s):
                await self.watch.vacated()
        except TimeoutError:
            return False
        return True


@asynccontextmanager
async def open_edge(settings: EdgeSettings) -> AsyncIterator[Edge]:
    """Connect and keep up the watch and the heartbeat.

    Raises BrokerUnavailable, IncompatibleRedis, and what Access raises on bad settings.
    """
    access = Access(settings, settings.host)
    visitors = Visitors(settings.max_sockets_per_address, settings.max_connects_per_minute)
    metrics = EdgeMetrics(edge_id := new_process_id("edge"))
    bind_contextvars(instance=edge_id)
    async with (
        open_tracing("edge", edge_id) as tracing,
        open_broker(settings, metrics.broker) as broker,
    ):
        watch = QueueWatch(broker)
        metrics.connections.set_function(lambda: len(watch.serving()))
        heartbeat = Heartbeat(edge_id, broker, watch)
        await heartbeat.beat()
        upkeep = asyncio.create_task(_keep_up(watch, heartbeat), name="edge-upkeep")
        edge = Edge(
            edge_id,
            settings,
            broker,
            watch,
            Endings(broker, metrics),
            access,
            visitors,
            ChatRoom(settings.max_chats_bytes),
            upkeep,
            metrics,
            LiveFeed(broker, watch),
            tracing,
        )
        try:
            yield edge
        finally:
            upkeep.cancel()
            await asyncio.wait([upkeep])
            await _leave(edge)


async def _keep_up(watch: QueueWatch, heartbeat: Heartbeat) -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(watch.run(), name="queue-watch")
        tasks.create_task(heartbeat.run(), name="edge-heartbeat")


async def _leave(edge: Edge) -> None:
    await edge.endings.settle(_CLOSE_WITHIN_S)
    with suppress(BrokerUnavailable):  # the reaper finds out by itself
        await edge.broker.registry.edge_gone(edge.id)
