"""The sessions this recorder has in hand: a task each, found by recording id."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

import structlog
from structlog.contextvars import bind_contextvars

from antiphon.broker.client import Broker
from antiphon.recorder_service.journal.job import RecordingJob
from antiphon.recorder_service.metrics import RecorderCounters
from antiphon.recorder_service.replay.merge import MergeQueue
from antiphon.recorder_service.sessions.recorder import SessionRecorder
from antiphon.recorder_service.settings import RecorderSettings
from antiphon.shared_schemas.events import SessionEvent

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Held:
    tail: SessionRecorder
    task: asyncio.Task[None]


class ActiveRecordings:
    """Starts tails and forgets them; `on_done` is told the event id of each finished job."""

    def __init__(
        self,
        broker: Broker,
        settings: RecorderSettings,
        counters: RecorderCounters,
        on_done: Callable[[str], Awaitable[None]],
    ) -> None:
        self._broker = broker
        self._settings = settings
        self._counters = counters
        self._on_done = on_done
        self._room = MergeQueue(counters)
        self._held: dict[str, _Held] = {}

    def __contains__(self, recording: str) -> bool:
        return recording in self._held

    def __len__(self) -> int:
        return len(self._held)

    @property
    def event_ids(self) -> list[str]:
        """The transitions that stand for what this recorder owns."""
        return [held.tail.job.event_id for held in self._held.values() if held.tail.job.event_id]

    @property
    def tails(self) -> list[SessionRecorder]:
        """Every session in hand."""
        return [held.tail for held in self._held.values()]

    def start(self, job: RecordingJob) -> None:
        """Take a session on, unless it is in hand."""
        if job.recording in self._held:
            return
        tail = SessionRecorder(self._broker, self._settings, self._room, self._counters, job)
        task = asyncio.create_task(self._run(tail), name=f"record-{job.sid}")
        self._held[job.recording] = _Held(tail, task)
        self._counters.sessions = len(self._held)

    def notice(self, event: SessionEvent) -> None:
        """Tell the session that this transition is about, if it is in hand."""
        held = self._held.get(event.recording)
        if held is not None:
            held.tail.notice(event)

    def abandon(self, event_ids: Collection[str]) -> None:
        """Another recorder has these now."""
        for held in list(self._held.values()):
            if held.tail.job.event_id in event_ids:
                log.warning("recording_taken_over", recording=held.tail.job.recording)
                held.task.cancel()

    async def drain(self, patience_s: float) -> None:
        """Let the sessions that are over be finished."""
        over = [held.task for held in self._held.values() if held.tail.ended]
        if over:
            await asyncio.wait(over, timeout=patience_s)

    async def stop(self) -> None:
        """End every task after the write it is at; what they have is on disk."""
        tasks = [held.task for held in self._held.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._room.close()

    async def _run(self, tail: SessionRecorder) -> None:
        recording = tail.job.recording
        bind_contextvars(session=tail.job.sid, recording=recording)
        try:
            await tail.run()
            await self._on_done(tail.job.event_id)
        except Exception:
            # Not acknowledged, it comes back through `reclaim`, here or at another replica.
            log.exception("recording_failed")
        finally:
            del self._held[recording]
            self._counters.sessions = len(self._held)
