"""A recorder process: start, run, stop. It learns of sessions from a consumer group's transitions."""

import asyncio
import ctypes
import gc
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import structlog
from structlog.contextvars import bind_contextvars

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.events import EventGroup, EventWatch
from antiphon.broker.retry import retry_until_available
from antiphon.broker.service.metrics import BrokerMetrics, new_registry
from antiphon.broker.service.process import freeze_heap, stop_on_signals, with_remedy
from antiphon.broker.service.status_port import status_port
from antiphon.broker.settings import PRIVATE_FOLDER
from antiphon.recorder_service.journal.state import RecordingJob
from antiphon.recorder_service.metrics import RecorderMetrics
from antiphon.recorder_service.sessions.active import ActiveRecordings
from antiphon.recorder_service.sessions.recorder import LONGEST_RETRY_S
from antiphon.recorder_service.sessions.status import has_no_recorder, unfinished_recordings
from antiphon.recorder_service.settings import RecorderSettings
from antiphon.shared_schemas.ids import new_process_id
from antiphon.shared_schemas.registry import SessionEvent
from antiphon.shared_schemas.states import SessionState

log = structlog.get_logger()

GROUP = "recorder"
_START_RETRY_S = 1.0
_READ_PAUSE_S = 0.4
"""No client waits for a recorder, so it reads the entries of many streams at once."""

_RETURN_MEMORY_EVERY_S = 30.0
_JUMP_MS = 1000.0
"""A smaller jump of Redis' clock makes no recorder seem silent."""


async def serve(settings: RecorderSettings) -> None:
    """Record until SIGTERM or SIGINT, with a status port.

    Raises what `run` raises, and OSError when its status port is taken.
    """
    freeze_heap()
    instance = new_process_id("recorder")
    bind_contextvars(instance=instance)
    registry = new_registry("recorder", instance)
    metrics = RecorderMetrics(registry)
    host, port = settings.health_host, settings.recorder_health_port
    page = status_port(
        host, port, lambda: health(metrics), registry, setting="ANTIPHON_RECORDER_HEALTH_PORT"
    )
    async with page as address:
        log.info("recorder_serving", status=address)
        await run(settings, metrics=metrics, broker_metrics=BrokerMetrics(registry))


def health(metrics: RecorderMetrics) -> tuple[bool, dict[str, Any]]:
    """Healthy even while the disk fails: a restart would not help, and nothing is lost yet."""
    failing = metrics.degraded or metrics.disk_error
    found: dict[str, Any] = {"sessions": metrics.sessions, "degraded": metrics.degraded}
    if metrics.disk_error:
        found["disk_error"] = metrics.disk_error
    return True, {"status": "degraded" if failing else "healthy", **found}


async def run(
    settings: RecorderSettings,
    stop: asyncio.Event | None = None,
    metrics: RecorderMetrics | None = None,
    broker_metrics: BrokerMetrics | None = None,
) -> None:
    """Record until `stop` is set (by default by SIGTERM and SIGINT). Waits until Redis is up.

    A disk that refuses the folder of the recordings delays them only. Raises IncompatibleRedis.
    """
    stop = stop or stop_on_signals()
    metrics = metrics or RecorderMetrics()
    recording = _run(settings, metrics, broker_metrics)
    running = asyncio.create_task(recording, name="recorder")
    stopping = asyncio.create_task(stop.wait(), name="stop")
    preparing = asyncio.create_task(_prepare_disk(settings, metrics), name="disk")
    try:
        await asyncio.wait([running, stopping], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (running, stopping, preparing):
            task.cancel()
        outcome, *_ = await asyncio.gather(running, stopping, preparing, return_exceptions=True)
    if isinstance(outcome, Exception):
        raise outcome


async def _prepare_disk(settings: RecorderSettings, metrics: RecorderMetrics) -> None:
    """Create the folder of the recordings, and retry until the disk accepts files in it."""
    root, delay = settings.sessions_dir, settings.recorder_retry_s
    while True:
        try:
            await asyncio.to_thread(_check_writable, root)
            break
        except OSError as error:
            metrics.disk_error = error.strerror or str(error)
        metrics.disk_errors.inc()
        log.error("recorder_degraded", folder=str(root), error=metrics.disk_error, retry_s=delay)
        await asyncio.sleep(delay)
        delay = min(delay * 2, LONGEST_RETRY_S)
    if metrics.disk_error:
        metrics.disk_error = ""
        log.info("recorder_disk_writable", folder=str(root))


def _check_writable(root: Path) -> None:
    """Raises OSError when a recording cannot be created in `root`."""
    root.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".writable-", dir=root):
        pass


async def _run(
    settings: RecorderSettings, metrics: RecorderMetrics, broker_metrics: BrokerMetrics | None
) -> None:
    while True:
        try:
            async with open_broker(settings, broker_metrics, read_pause_s=_READ_PAUSE_S) as broker:
                await Recorder(broker, settings, metrics).serve()
        except BrokerUnavailable as error:
            log.warning("recorder_waits_for_redis", error=with_remedy(error))
            await asyncio.sleep(_START_RETRY_S)


class Recorder:
    """One replica. It owns a session by holding the session's `queued` transition unacknowledged.

    That transition exists once per session and goes to one replica, which acknowledges it when the
    recording is whole on disk. All other transitions are acknowledged at once, because each replica
    sees every transition of its sessions through its own watch.
    """

    def __init__(
        self, broker: Broker, settings: RecorderSettings, metrics: RecorderMetrics
    ) -> None:
        self.id = new_process_id("recorder")
        self._broker = broker
        self._settings = settings
        self._active = ActiveRecordings(broker, settings, metrics, self._acknowledge)
        self._group: EventGroup | None = None
        self._watch: EventWatch | None = None
        self._finished = 0
        self._clock_offset_ms: float | None = None

    async def serve(self) -> None:
        """Start, run until cancelled, and always stop in order."""
        try:
            await self.start()
            await self.run()
        finally:
            await self.stop()

    async def start(self) -> None:
        """Join the group. The watch starts first, so that no transition is lost in between."""
        self._watch = await self._broker.events.watch()
        self._group = await self._broker.events.join_group(GROUP, self.id)
        log.info("recorder_ready", recorder=self.id, data=str(self._settings.data_dir))

    async def run(self) -> None:
        settings = self._settings
        periodic: tuple[tuple[float, Callable[[], Awaitable[None]]], ...] = (
            (settings.recorder_upkeep_s, self._keep_ownership),
            (settings.recorder_look_s, self._check_statuses),
            (settings.recorder_look_s, self._broker.clock.sync),
            (settings.recorder_silence_s / 4, self._reclaim),
            (settings.recorder_adopt_s / 4, self._adopt_orphans),
            (_RETURN_MEMORY_EVERY_S, self._return_memory),
        )
        async with asyncio.TaskGroup() as group:
            for loop in (self._read_transitions, self._watch_transitions):
                group.create_task(loop(), name=loop.__name__)
            for pause_s, step in periodic:
                group.create_task(_every(pause_s, step), name=step.__name__)

    async def stop(self) -> None:
        """Finish the ended sessions and release the others to the other replicas."""
        try:
            await self._check_statuses()
            await self._active.drain(self._settings.recorder_drain_s)
            recorders = self._active.recorders
            await self._active.stop()
            await self._active.save_progress(recorders)
            if self._group is not None:
                await self._group.release()
        except BrokerUnavailable as error:
            log.warning("recorder_left_unannounced", error=str(error))
        finally:
            await self._active.stop()
            await self._disconnect()
        log.info("recorder_stopped", recorder=self.id)

    async def _disconnect(self) -> None:
        for connection in (self._watch, self._group):
            if connection is not None:
                await connection.close()

    @property
    def _events(self) -> EventGroup:
        assert self._group is not None, "start() comes first"
        return self._group

    async def _read_transitions(self) -> None:
        while True:
            await self._apply(await retry_until_available(self._events.read, "read transitions"))

    async def _apply(self, events: list[SessionEvent]) -> None:
        others: list[str] = []
        for event in events:
            if event.state is SessionState.QUEUED:
                self._active.start(RecordingJob.from_event(event))
            else:
                self._active.apply(event)
                others.append(event.id)
        await self._acknowledge(*others)

    async def _acknowledge(self, *event_ids: str) -> None:
        known = [event_id for event_id in event_ids if event_id]
        await retry_until_available(lambda: self._events.ack(*known), "acknowledge transitions")

    async def _watch_transitions(self) -> None:
        assert self._watch is not None, "start() comes first"
        async for events in self._watch.follow():
            for event in events:
                self._active.apply(event)

    async def _keep_ownership(self) -> None:
        self._active.abandon(await self._events.touch(self._active.event_ids))
        await self._active.save_progress(self._active.recorders)

    async def _check_statuses(self) -> None:
        for recorder in self._active.recorders:
            await recorder.check_status()

    async def _reclaim(self) -> None:
        """Take over the sessions of silent recorders.

        After a jump of Redis' clock, all recorders seem silent, or none.
        """
        clock = self._broker.clock
        await clock.notice_jump()
        if self._clock_offset_ms is None:
            await self._events.restart_timers(longest_idle_ms=0)
        elif abs(clock.offset_ms - self._clock_offset_ms) > _JUMP_MS:
            await self._events.restart_timers()
        self._clock_offset_ms = clock.offset_ms
        await self._apply(await self._events.reclaim(int(self._settings.recorder_silence_s * 1000)))

    async def _return_memory(self) -> None:
        """After sessions have ended: a burst of them leaves the memory of its threads behind."""
        finished, self._finished = self._finished, self._active.finished
        if self._finished > finished:
            await asyncio.to_thread(return_unused_memory)

    async def _adopt_orphans(self) -> None:
        """Finish recordings without a recorder whose transition Redis has lost or trimmed."""
        quiet_s = self._settings.recorder_adopt_s
        root = self._settings.sessions_dir
        for job in await asyncio.to_thread(unfinished_recordings, root, quiet_s):
            if job.recording not in self._active and await has_no_recorder(
                self._broker, job, quiet_s
            ):
                log.warning("recording_adopted", recording=job.recording)
                self._active.start(job)


async def _every(pause_s: float, step: Callable[[], Awaitable[None]]) -> None:
    """Repeat a step. After an outage of Redis or the disk the next repetition tries again."""
    while True:
        try:
            await step()
        except (BrokerUnavailable, OSError) as error:
            log.warning("recorder_step_failed", error=str(error))
        await asyncio.sleep(pause_s)


def return_unused_memory() -> None:
    """Free the cycles that finished work leaves, and what glibc keeps of the memory of threads.

    An idle process would keep both: it allocates too little to start a full collection.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
