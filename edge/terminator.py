"""Ends or detaches sessions after their connection closed, however long Redis takes to answer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

import structlog

from antiphon.broker.client import Broker
from antiphon.broker.connection import retry_until_available
from antiphon.edge.metrics import EdgeMetrics
from antiphon.shared_schemas.states import EndReason

log = structlog.get_logger()


class SessionTerminator:
    """Runs each call to Redis in its own task, which outlives the connection."""

    def __init__(self, broker: Broker, metrics: EdgeMetrics) -> None:
        self._broker = broker
        self._metrics = metrics
        self._tasks: set[asyncio.Task[None]] = set()

    def end(self, sid: str, ticket: int, reason: EndReason) -> None:
        """End this session unless it has ended; this frees its place in the queue or its slot."""
        log.info("session_closed", reason=reason)
        self._metrics.ended.labels(reason).inc()
        self._start(self._end(sid, ticket, reason), f"end:{sid}")

    def detach(self, sid: str, ticket: int, connection: int) -> None:
        """Keep the session for a grace period in which its client may resume it."""
        log.info("session_detached")
        self._metrics.resumes.labels("detached").inc()
        attachments = self._broker.resume_registry
        work = retry_until_available(
            lambda: attachments.detach(sid, ticket, connection), "detach a session"
        )
        self._start(work, f"detach:{sid}")

    def confirm(self, sid: str, ticket: int, connection: int) -> None:
        """Invalidate the previous resume token: the client has received the new one."""
        attachments = self._broker.resume_registry
        work = retry_until_available(
            lambda: attachments.confirm(sid, ticket, connection), "void a token"
        )
        self._start(work, f"confirm:{sid}")

    def withdraw(self, sid: str, recording: str) -> None:
        """End a session that may or may not have been queued; only its recording id is known."""
        self._start(self._withdraw(sid, recording), f"withdraw:{sid}")

    async def wait_until_done(self, within_s: float) -> None:
        """Wait for all tasks, then cancel the rest: the reaper ends those sessions."""
        if not self._tasks:
            return
        _, late = await asyncio.wait(self._tasks, timeout=within_s)
        for task in late:
            log.warning("ending_abandoned", task=task.get_name())
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    def _start(self, work: Coroutine[None, None, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _end(self, sid: str, ticket: int, reason: EndReason) -> None:
        await retry_until_available(
            lambda: self._broker.sessions.end(sid, reason, ticket=ticket), "end a session"
        )

    async def _withdraw(self, sid: str, recording: str) -> None:
        row = await retry_until_available(
            lambda: self._broker.sessions.get(sid), "look a session up"
        )
        if row is not None and row.recording == recording:
            await self._end(sid, row.ticket, EndReason.CLIENT_GONE)
