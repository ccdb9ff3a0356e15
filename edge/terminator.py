"""Ends or detaches sessions after their connection closed, however long Redis takes to answer."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import structlog

from antiphon.broker.client import Broker
from antiphon.broker.resume_registry import ResumeRecord
from antiphon.broker.retry import retry_until_available
from antiphon.edge.metrics import EdgeMetrics
from antiphon.shared_schemas.registry import SessionEvent
from antiphon.shared_schemas.states import EndReason

log = structlog.get_logger()


class SessionTerminator:
    """Runs each call to Redis in its own task, which outlives the connection."""

    def __init__(self, broker: Broker, metrics: EdgeMetrics, edge_id: str) -> None:
        self._broker = broker
        self._edge_id = edge_id
        self._metrics = metrics
        self._tasks: set[asyncio.Task[object]] = set()

    def end(self, sid: str, ticket: int, reason: EndReason) -> None:
        """End this session unless it has ended; this frees its place in the queue or its slot."""
        log.info("session_closed", reason=reason)
        self._metrics.ended.labels(reason).inc()
        end = partial(self._broker.sessions.end, sid, reason, ticket=ticket)
        self._start(end, sid, "end a session")

    def detach(
        self, sid: str, ticket: int, connection: int, resumed: ResumeRecord | None = None
    ) -> None:
        """Keep the session for a grace period in which its client may resume it.

        `resumed`: the resume that made the connection. It is stored again if a failover has lost it.
        """
        log.info("session_detached")
        self._metrics.resumes.labels("detached").inc()
        detach = partial(self._detach, sid, ticket, connection, resumed)
        self._start(detach, sid, "detach a session")

    def confirm(self, sid: str, ticket: int, connection: int) -> None:
        """Invalidate the previous resume token: the client has received the new one."""
        confirm = partial(self._broker.resume_registry.confirm, sid, ticket, connection)
        self._start(confirm, sid, "void a token")

    def withdraw(self, sid: str, recording: str) -> None:
        """End a session that may or may not have been queued; only its recording id is known."""
        self._start(partial(self._withdraw, sid, recording), sid, "withdraw a session")

    def end_unserved(self, event: SessionEvent) -> None:
        """End a session of this edge that has no connection here: a failover has lost its end.

        A resumable one may wait for its client.
        """
        self._start(partial(self._end_unserved, event), event.sid, "end a lost session")

    async def wait_until_done(self, within_s: float) -> None:
        """Wait for all tasks, then cancel the rest: the reaper ends those sessions."""
        if not self._tasks:
            return
        _, late = await asyncio.wait(self._tasks, timeout=within_s)
        for task in late:
            log.warning("ending_abandoned", task=task.get_name())
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    def _start(self, call: Callable[[], Awaitable[object]], sid: str, what: str) -> None:
        task = asyncio.create_task(retry_until_available(call, what), name=f"{what}: {sid}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _detach(
        self, sid: str, ticket: int, connection: int, resumed: ResumeRecord | None
    ) -> None:
        registry = self._broker.resume_registry
        if resumed is not None:
            await registry.restore(resumed, edge=self._edge_id)
        await registry.detach(sid, ticket, connection)

    async def _withdraw(self, sid: str, recording: str) -> None:
        sessions = self._broker.sessions
        row = await sessions.get(sid)
        if row is not None and row.recording == recording:
            await sessions.end(sid, EndReason.CLIENT_GONE, ticket=row.ticket)

    async def _end_unserved(self, event: SessionEvent) -> None:
        sessions = self._broker.sessions
        row = await sessions.get(event.sid)
        if row is None or row.resumable or (row.edge, row.ticket) != (self._edge_id, event.ticket):
            return
        if await sessions.end(event.sid, EndReason.CLIENT_GONE, ticket=event.ticket):
            log.warning("unserved_session_ended", session=event.sid)
