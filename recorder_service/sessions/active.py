"""The sessions that this recorder records, one task each."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable

import structlog
from structlog.contextvars import bind_contextvars

from antiphon.broker.client import Broker
from antiphon.broker.service.disk import DiskReserve
from antiphon.recorder_service.attempts import Attempts
from antiphon.recorder_service.disk_writer import DiskWriter
from antiphon.recorder_service.journal.state import RecordingJob
from antiphon.recorder_service.metrics import RecorderMetrics
from antiphon.recorder_service.replay.merge import MergeQueue
from antiphon.recorder_service.sessions.recorder import SessionRecorder, SharedWork
from antiphon.recorder_service.settings import RecorderSettings
from antiphon.shared_schemas.registry import SessionEvent

log = structlog.get_logger()


class ActiveRecordings:
    """Session recorders by recording id. `on_done` receives the event id of each finished job.

    `finished` counts the sessions that are no longer recorded here.
    """

    def __init__(
        self,
        broker: Broker,
        settings: RecorderSettings,
        metrics: RecorderMetrics,
        on_done: Callable[[str], Awaitable[None]],
    ) -> None:
        self._broker = broker
        self._settings = settings
        self._metrics = metrics
        self._on_done = on_done
        self.finished = 0
        attempts = Attempts(settings.recorder_max_attempts)
        reserve = DiskReserve(settings.sessions_dir, settings.min_free_disk_gb)
        merges = MergeQueue(metrics, attempts, reserve.check, opus=settings.recorder_opus)
        self._shared = SharedWork(merges, attempts, metrics, DiskWriter(), asyncio.Lock(), reserve)
        self._recorders: dict[str, SessionRecorder] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def __contains__(self, recording: str) -> bool:
        return recording in self._recorders

    @property
    def event_ids(self) -> list[str]:
        return [each.job.event_id for each in self._recorders.values() if each.job.event_id]

    @property
    def recorders(self) -> list[SessionRecorder]:
        return list(self._recorders.values())

    def start(self, job: RecordingJob) -> None:
        """Record a session, unless it is being recorded here."""
        if job.recording in self._recorders:
            return
        recorder = SessionRecorder(self._broker, self._settings, self._shared, job)
        task = asyncio.create_task(self._run(recorder), name=f"record-{job.sid}")
        self._recorders[job.recording], self._tasks[job.recording] = recorder, task
        self._metrics.sessions = len(self._recorders)

    def apply(self, event: SessionEvent) -> None:
        """Pass a transition to the recorder of its session, if there is one."""
        recorder = self._recorders.get(event.recording)
        if recorder is not None:
            recorder.apply(event)

    def abandon(self, event_ids: Collection[str]) -> None:
        """Cancel the jobs that another recorder has taken over."""
        for recorder in self.recorders:
            if recorder.job.event_id in event_ids:
                log.warning("recording_taken_over", recording=recorder.job.recording)
                self._tasks[recorder.job.recording].cancel()

    async def save_progress(self, recorders: Iterable[SessionRecorder]) -> None:
        """Store what these recorders have on disk. Raises BrokerUnavailable."""
        async with self._shared.saving:
            found = {each.job.ticket: each.progress() for each in recorders}
            known = {ticket: progress for ticket, progress in found.items() if progress}
            await self._broker.recorder_progress.save(known)

    async def drain(self, patience_s: float) -> None:
        """Wait until the recordings of ended sessions are finished, but no longer than this."""
        over = [self._tasks[name] for name, each in self._recorders.items() if each.ended]
        if over:
            await asyncio.wait(over, timeout=patience_s)

    async def stop(self) -> None:
        """Cancel every task after its current write; recorded entries are on disk."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._shared.merges.close()

    async def _run(self, recorder: SessionRecorder) -> None:
        recording = recorder.job.recording
        bind_contextvars(session=recorder.job.sid, recording=recording)
        try:
            await recorder.run()
            await self._on_done(recorder.job.event_id)
        except Exception:
            # The transition stays unacknowledged, so `reclaim` delivers it again, here or elsewhere.
            log.exception("recording_failed")
        finally:
            del self._recorders[recording], self._tasks[recording]
            self.finished += 1
            self._metrics.sessions = len(self._recorders)
