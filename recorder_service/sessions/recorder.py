"""Records one session: follows its two streams while it runs, then finishes the recording."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from antiphon.broker.client import Broker
from antiphon.broker.clock import RedisClock
from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.keys import StreamKey
from antiphon.broker.retry import retry_until_available
from antiphon.broker.service.disk import DiskReserve
from antiphon.broker.service.process import first_of
from antiphon.recorder_service.attempts import Attempts, TooManyAttempts
from antiphon.recorder_service.disk_writer import DiskWriter
from antiphon.recorder_service.folder import RecordingFolder, set_aside
from antiphon.recorder_service.journal.journal import SIDES, HeldFrom, OutageStart, Side
from antiphon.recorder_service.journal.state import RecordingJob, SessionEnding
from antiphon.recorder_service.metrics import RecorderMetrics
from antiphon.recorder_service.replay.merge import MergeQueue
from antiphon.recorder_service.sessions.status import (
    may_discard,
    may_record,
    reconnect_time_left_s,
    session_status,
)
from antiphon.recorder_service.settings import RecorderSettings
from antiphon.shared_schemas.entries import Entry, StoppedOut, StreamPosition, TimeoutOut
from antiphon.shared_schemas.recording import META_FILE, TIMELINE_FILE, RecordingState
from antiphon.shared_schemas.registry import SessionEvent
from antiphon.shared_schemas.states import SessionState

log = structlog.get_logger()

LONGEST_RETRY_S = 30.0
_UNREAD_LIMIT = 64
"""Entries held in memory per stream; further entries are read from Redis again."""

_LAST_ENTRIES = (StoppedOut, TimeoutOut)
"""A worker publishes nothing after them."""


@dataclass(frozen=True, slots=True)
class SharedWork:
    """What all recordings of a process share. `saving` is held while progress is stored or deleted."""

    merges: MergeQueue
    attempts: Attempts
    metrics: RecorderMetrics
    writer: DiskWriter
    saving: asyncio.Lock
    reserve: DiskReserve


class SessionRecorder:
    """One session's recording. `run` returns when the recording is finished and merged."""

    def __init__(
        self,
        broker: Broker,
        settings: RecorderSettings,
        shared: SharedWork,
        job: RecordingJob,
    ) -> None:
        self.job = job
        self._broker = broker
        self._settings = settings
        self._shared = shared
        self._metrics = shared.metrics
        self._keys: dict[Side, StreamKey[Entry]] = {
            "in": broker.keys.inbound(job.sid),
            "out": broker.keys.outbound(job.sid),
        }
        self._root = settings.sessions_dir
        self._worker = ""
        self._allowed = False
        self._assigned = asyncio.Event()
        self._last_saved = asyncio.Event()
        self._ended: asyncio.Future[SessionEnding] = asyncio.get_running_loop().create_future()
        self._folder: RecordingFolder | None = None
        self._retry = DiskRetry(
            job.recording, broker.clock, settings.recorder_retry_s, shared.metrics
        )

    @property
    def ended(self) -> bool:
        """True when the session is over and only its recording is unfinished."""
        return self._ended.done()

    def apply(self, event: SessionEvent) -> None:
        """Apply one of this session's transitions; a repeated one changes nothing."""
        if event.worker:
            self._assign(event.worker)
        if event.state is SessionState.ENDED:
            self._end(SessionEnding(at=event.at, reason=event.reason, worker=event.worker))

    async def check_status(self) -> None:
        """Ask Redis for the session's status, in case a transition was missed."""
        if self.ended:
            return
        status = await session_status(self._broker, self.job)
        if status.assigned:
            self._assign(status.worker)
        if status.ending is not None:
            self._end(status.ending)

    def progress(self) -> dict[str, Any] | None:
        """What is on disk: the last entry of each stream, and the time. None if there is nothing."""
        folder = self._folder
        if folder is None or not (folder.begun or folder.complete):
            return None
        progress: dict[str, Any] = {side: folder.position(side).id() for side in SIDES}
        return progress | {"at": round(self._broker.clock.now_ms())}

    async def run(self) -> None:
        """Record the session to its end. A session without a worker leaves no files."""
        await retry_until_available(self.check_status, "look a session up")
        await first_of(self._assigned.wait(), asyncio.shield(self._ended))
        if self._assigned.is_set():
            try:
                await self._run_assigned()
            finally:
                self._retry.disk_recovered()
        else:  # inputs that its client sent while it waited
            await retry_until_available(self._discard_streams, "discard a session without a worker")

    async def _run_assigned(self) -> None:
        await self._retry.run(self._ask_consent)
        try:
            if self._allowed:
                await self._retry.run(self._record)
            else:
                self._metrics.declined.inc()
                await self._settled()
            await self._merge_and_discard()
        except TooManyAttempts as error:
            await self._set_aside(str(error))
        await retry_until_available(self._clear_progress, "forget a recorded session")

    async def _merge_and_discard(self) -> None:
        """Merge at once. The streams stay for a client that reconnects to read the last messages."""
        discard = retry_until_available(self._discard_streams, "discard a recorded session")
        discarding = asyncio.create_task(discard, name=f"discard-{self.job.sid}")
        try:
            await self._retry.run(self._merge)
            await discarding
        finally:
            discarding.cancel()
            await asyncio.gather(discarding, return_exceptions=True)

    async def _ask_consent(self) -> None:
        """A recording that has begun had the client's consent."""
        folder = self._root / self.job.recording
        names = [folder / name for name in (META_FILE, TIMELINE_FILE)]
        begun = await asyncio.to_thread(lambda: any(path.exists() for path in names))
        self._allowed = begun or await may_record(self._broker, self.job, self._settled)

    def _assign(self, worker: str) -> None:
        self._worker = worker or self._worker
        self._assigned.set()

    def _end(self, ending: SessionEnding) -> None:
        if not self._ended.done():
            self._ended.set_result(ending)

    async def _record(self) -> None:
        path = self._root / self.job.recording
        held_from = await self._held_from(path / TIMELINE_FILE)
        async with self._shared.attempts.attempt(path, clears_failures=False):
            self._folder = folder = await self._open(held_from)
        try:
            if not folder.complete:
                await first_of(*(self._follow(folder, side) for side in SIDES), self._settled())
                await self._broker.streams.seal_output(self.job.sid, self.job.ticket)
                for side in SIDES:
                    await self._drain(folder, side)
                async with self._shared.attempts.attempt(path):
                    await self._finish(folder)
        finally:
            await asyncio.to_thread(folder.close)

    async def _follow(self, folder: RecordingFolder, side: Side) -> None:
        subscribe = self._broker.reader.subscribe
        while True:  # the subscription ends when the disk falls behind: continue from there
            after = folder.position(side)
            async with subscribe(self._keys[side], after, limit=_UNREAD_LIMIT) as entries:
                await self._save(folder, side, entries)

    async def _drain(self, folder: RecordingFolder, side: Side) -> None:
        after = folder.position(side)
        history = self._broker.streams.history(self._keys[side], self.job.ticket, after)
        await self._save(folder, side, history)

    async def _save(
        self,
        folder: RecordingFolder,
        side: Side,
        entries: AsyncIterator[tuple[StreamPosition, Entry]],
    ) -> None:
        async for position, entry in entries:
            await self._shared.writer.add(folder, side, position, entry)
            self._retry.recorded(entry.at)
            if isinstance(entry, _LAST_ENTRIES):
                self._last_saved.set()

    async def _held_from(self, journal: Path) -> dict[Side, float]:
        """What the streams hold. A recording without a journal does not depend on it."""
        held_from: dict[Side, float] = dict.fromkeys(SIDES, math.inf)
        if await asyncio.to_thread(journal.exists):
            for side in SIDES:
                past = self._broker.streams.history(self._keys[side], self.job.ticket)
                async with aclosing(past):
                    async for position, _ in past:
                        held_from[side] = position.n
                        break
        return held_from

    async def _open(self, held_from: HeldFrom) -> RecordingFolder:
        args = (self._root, self.job, self._worker, self._retry.outages)
        calls = (self._broker.clock.now_ms, self._shared.reserve.check)
        opening = asyncio.create_task(asyncio.to_thread(RecordingFolder, *args, *calls, held_from))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:  # a thread cannot be cancelled: close what it opens
            (outcome,) = await asyncio.gather(opening, return_exceptions=True)
            if isinstance(outcome, RecordingFolder):
                outcome.close()
            raise

    async def _settled(self) -> None:
        """Wait for the end, and for the last entry: a worker may be publishing its last unit.

        Not every session has a last entry, so this waits `recorder_settle_s` for it.
        """
        ending = await asyncio.shield(self._ended)
        if ending.at is not None:
            settle_s = self._settings.recorder_settle_s
            since_s = (self._broker.clock.now_ms() - ending.at) / 1000
            left_s = min(settle_s, max(0.0, settle_s - since_s))
            await first_of(asyncio.sleep(left_s), self._last_saved.wait())

    async def _finish(self, folder: RecordingFolder) -> None:
        state = await asyncio.to_thread(folder.finish, self._ended.result())
        if state is None:
            log.info("nothing_recorded")
            return
        if state is RecordingState.COMPLETE:
            self._metrics.complete.inc()
        else:
            self._metrics.interrupted.inc()
        log.info("recording_finished", recording=self.job.recording, state=state.value)

    async def _discard_streams(self) -> None:
        """Delete the session's streams once its client can no longer reconnect."""
        if await may_discard(self._broker, self.job):
            grace_s = self._settings.resume_grace_s
            await asyncio.sleep(await reconnect_time_left_s(self._broker, self.job, grace_s))
            await self._broker.streams.discard(self.job.sid, self.job.ticket)

    async def _merge(self) -> None:
        if self._folder is not None and (self._folder.begun or self._folder.complete):
            await self._shared.merges.merge(self._folder.path)

    async def _set_aside(self, why: str) -> None:
        """Leave a recording that cannot be finished as it is, and report it."""
        recording = self.job.recording
        log.error("recording_set_aside", recording=recording, error=why)
        self._metrics.set_aside.inc()

        async def mark() -> None:
            await asyncio.to_thread(set_aside, self._root, self.job, why)

        await self._retry.run(mark)
        await self._settled()
        await retry_until_available(self._discard_streams, "discard a session set aside")

    async def _clear_progress(self) -> None:
        async with self._shared.saving:
            self._folder = None
            await self._broker.recorder_progress.clear(self.job.ticket)


class DiskRetry:
    """Repeats work with growing pauses. `outages`: the disk's outages so far."""

    def __init__(
        self, recording: str, clock: RedisClock, retry_s: float, metrics: RecorderMetrics
    ) -> None:
        self.outages: list[OutageStart] = []
        self._recording = recording
        self._clock = clock
        self._retry_s = retry_s
        self._metrics = metrics
        self._degraded = False

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Repeat `work`, which continues from what is on disk, until it succeeds."""
        loop = asyncio.get_running_loop()
        delay = self._retry_s
        while True:
            began = loop.time()
            try:
                await work()
            except OSError as error:
                if _is_cancelled():
                    raise
                self._disk_failed(error, delay)
            except BrokerUnavailable as error:
                log.warning("recording_waits_for_redis", error=str(error))
            else:
                return self.disk_recovered()
            if loop.time() - began > LONGEST_RETRY_S:  # it worked for a while: a new outage
                delay = self._retry_s
            await asyncio.sleep(delay)
            delay = min(delay * 2, LONGEST_RETRY_S)

    def recorded(self, at_ms: float) -> None:
        """Count an entry that was appended at `at_ms` (Redis clock) and is now on disk."""
        self._metrics.entries.inc()
        self._metrics.lag.observe(max(0.0, self._clock.now_ms() - at_ms) / 1000)
        self.disk_recovered()

    def disk_recovered(self) -> None:
        """The disk accepts writes again, or the session has nothing left to write."""
        if self._degraded:
            self._degraded = False
            self._metrics.degraded -= 1
            log.info("recording_resumed", recording=self._recording)

    def _disk_failed(self, error: OSError, delay: float) -> None:
        reason = error.strerror or str(error)
        log.error("recording_degraded", recording=self._recording, error=reason, retry_s=delay)
        self._metrics.disk_errors.inc()
        if not self._degraded or self.outages[-1].error != reason:
            self.outages.append(OutageStart(round(self._clock.now_ms(), 3), reason))
        if not self._degraded:
            self._degraded = True
            self._metrics.degraded += 1


def _is_cancelled() -> bool:
    """True while this task is being cancelled: the OSError is then a consequence."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
