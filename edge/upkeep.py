"""What an edge does all the time: it sends heartbeats, and watches the connections of the workers."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from antiphon.broker.client import Broker
from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.retry import each_second
from antiphon.broker.worker_connections import WorkerConnection
from antiphon.edge.session_events import SessionEvents

log = structlog.get_logger()

LOOK_EVERY_S = 0.2

SILENT_AFTER_S = 0.4
"""A worker whose connection was only reset opens another one earlier."""

LOST_AFTER_S = 2.0
"""A worker that cannot reach Redis for this long loses its sessions, if its connection is closed."""


class Heartbeat:
    """Reports this edge's sessions, and notifies connections whose sessions are over."""

    def __init__(self, edge_id: str, broker: Broker, events: SessionEvents) -> None:
        self._edge_id = edge_id
        self._broker = broker
        self._events = events

    async def beat(self) -> None:
        """Raises BrokerUnavailable."""
        serving = self._events.serving()
        found = await self._broker.registry.edge_beat(self._edge_id, serving)
        for sid, connection in found.replaced.items():
            self._events.mark_replaced(sid, connection)
        for sid, ticket, _ in serving:
            if sid in found.over:
                self._events.mark_ended(sid, ticket, found.over[sid])
        for record in self._events.resumed(found.forgotten):
            await self._broker.resume_registry.restore(record, edge=self._edge_id)
        self._events.mark_silent({(sid, n) for sid, n, _ in serving if sid in found.silent})

    async def run(self) -> None:
        """Runs forever; retries during an outage of Redis."""
        await each_second(self._upkeep, "send a heartbeat")

    async def _upkeep(self) -> None:
        await self._broker.measure_memory()  # first: a full Redis refuses heartbeats
        await self.beat()
        requeued, ended = await self._broker.registry.reap()
        if requeued or ended:
            log.info("reaped", requeued=requeued, ended=ended)
        await self._broker.clock.refresh()


@dataclass(slots=True)
class _Closed:
    """A connection that was open. `since`: monotonic time; `beat_at`: the last heartbeat then."""

    since: float
    beat_at: bytes
    is_reported: bool = False


class WorkerWatch:
    """Notices within a second that the process of a worker has ended, while this edge serves sessions.

    It asks for the workers' connections, with one command for all of them.
    A process that ends closes its connection. A machine that loses power, or a network that fails,
    closes none: then only the missing heartbeats count.
    """

    def __init__(
        self, broker: Broker, is_idle: Callable[[], bool], on_silent: Callable[[], Awaitable[None]]
    ) -> None:
        """`is_idle`: this edge serves no session. `on_silent`: called when a worker counts as silent."""
        self._broker = broker
        self._is_idle = is_idle
        self._on_silent = on_silent
        self._forget()

    async def run(self) -> None:
        """Runs forever. An outage of Redis is no time in which a connection was closed."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            if self._is_idle():
                self._forget()
                continue
            try:
                await self._look()
            except BrokerUnavailable:
                self._closed.clear()

    def _forget(self, server: bytes = b"") -> None:
        self._server = server
        self._open: set[str] = set()
        self._closed: dict[str, _Closed] = {}

    async def _look(self) -> None:
        seen = await self._broker.worker_connections.look()
        if seen.server != self._server:
            self._forget(seen.server)
        self._open = {
            worker
            for worker, connection in seen.workers.items()
            if connection.is_open or worker in self._open
        }
        self._closed = {
            worker: self._closed.get(worker) or self._now_closed(seen.workers[worker])
            for worker in self._open
            if not seen.workers[worker].is_open
        }
        for worker, closed in self._closed.items():
            await self._judge(worker, closed)

    def _now_closed(self, connection: WorkerConnection) -> _Closed:
        return _Closed(asyncio.get_running_loop().time(), connection.beat_at)

    async def _judge(self, worker: str, closed: _Closed) -> None:
        closed_s = asyncio.get_running_loop().time() - closed.since
        is_lost = closed_s >= LOST_AFTER_S
        if not is_lost and (closed.is_reported or closed_s < SILENT_AFTER_S):
            return
        report = self._broker.worker_connections.report_closed
        closed.is_reported = await report(self._server, worker, closed.beat_at, is_lost=is_lost)
        if not closed.is_reported:  # it lives: wait until its connection is open again
            self._open.discard(worker)
        elif is_lost:
            log.warning("worker_lost", worker=worker)
            await self._broker.registry.reap()
        else:
            log.info("worker_disconnected", worker=worker)
            await self._on_silent()


async def keep_up(broker: Broker, events: SessionEvents, heartbeat: Heartbeat) -> None:
    """Runs forever."""
    watch = WorkerWatch(broker, events.is_empty, heartbeat.beat)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(events.run(), name="session-events")
        tasks.create_task(heartbeat.run(), name="edge-heartbeat")
        tasks.create_task(watch.run(), name="worker-watch")
