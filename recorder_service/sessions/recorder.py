"""Records one session: follows its two streams while it lives, then makes the recording whole."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from antiphon.broker.client import Broker
from antiphon.broker.keys import StreamKey
from antiphon.broker.retry import retry_until_available
from antiphon.recorder_service.folder import SessionFolder
from antiphon.recorder_service.journal.job import RecordingJob, SessionEnding
from antiphon.recorder_service.journal.journal import SIDES, Side
from antiphon.recorder_service.metrics import RecorderCounters
from antiphon.recorder_service.replay.merge import MergeQueue
from antiphon.recorder_service.sessions.disk_retry import DiskRetry
from antiphon.recorder_service.sessions.status import (
    client_may_return_s,
    may_discard,
    may_record,
    session_status,
)
from antiphon.recorder_service.settings import RecorderSettings
from antiphon.shared_schemas.entries import Entry
from antiphon.shared_schemas.events import SessionEvent
from antiphon.shared_schemas.recording import META_FILE, TIMELINE_FILE, RecordingState
from antiphon.shared_schemas.states import SessionState

log = structlog.get_logger()


class SessionRecorder:
    """One session's recording. `run` ends when nothing is left to be done for it."""

    def __init__(
        self,
        broker: Broker,
        settings: RecorderSettings,
        room: MergeQueue,
        counters: RecorderCounters,
        job: RecordingJob,
    ) -> None:
        self.job = job
        self._broker = broker
        self._settings = settings
        self._room = room
        self._counters = counters
        self._root = settings.data_dir / "sessions"
        self._worker = ""
        self._allowed = False
        self._assigned = asyncio.Event()
        self._ended: asyncio.Future[SessionEnding] = asyncio.get_running_loop().create_future()
        self._folder: SessionFolder | None = None
        self._confirming = asyncio.Lock()
        retry_s = settings.recorder_retry_s
        self._endurance = DiskRetry(job.recording, broker.clock, retry_s, counters)

    @property
    def ended(self) -> bool:
        """True when the session is over and only its recording remains to be finished."""
        return self._ended.done()

    def notice(self, event: SessionEvent) -> None:
        """Take one of this session's transitions into account; repeats do no harm."""
        if event.worker:
            self._take_up(event.worker)
        if event.state is SessionState.ENDED:
            self._end(SessionEnding(at=event.at, reason=event.reason, worker=event.worker))

    async def look(self) -> None:
        """Ask Redis how the session stands, for transitions that went unnoticed."""
        if self.ended:
            return
        standing = await session_status(self._broker, self.job)
        if standing.assigned:
            self._take_up(standing.worker)
        if standing.ending is not None:
            self._end(standing.ending)

    async def confirm(self) -> None:
        """Tell Redis how far the recording has come."""
        async with self._confirming:
            folder = self._folder
            if folder is not None and (folder.begun or folder.complete):
                progress: dict[str, Any] = {side: folder.position(side).id() for side in SIDES}
                progress["at"] = round(self._broker.clock.now_ms())
                await self._broker.recorder_progress.save(self.job.ticket, progress)

    async def run(self) -> None:
        """Record the session to its end. A session that no worker took up leaves nothing behind."""
        await retry_until_available(self.look, "look a session up")
        assigned: asyncio.Future[Any] = asyncio.ensure_future(self._assigned.wait())
        outcomes: list[asyncio.Future[Any]] = [assigned, self._ended]
        try:
            await asyncio.wait(outcomes, return_when=asyncio.FIRST_COMPLETED)
        finally:
            assigned.cancel()
        if self._assigned.is_set():
            try:
                await self._serve()
            finally:
                self._endurance.caught_up()

    async def _serve(self) -> None:
        await self._endurance.endure(self._ask)
        if self._allowed:
            await self._endurance.endure(self._record)
        else:
            self._counters.declined += 1
            await self._settled()
        await retry_until_available(self._let_go, "discard a recorded session")
        await self._endurance.endure(self._merge)
        await retry_until_available(self._forget, "forget a recorded session")

    async def _ask(self) -> None:
        """May the session be recorded? Where its recording has begun, that was asked before."""
        folder = self._root / self.job.recording
        names = [folder / name for name in (META_FILE, TIMELINE_FILE)]
        begun = await asyncio.to_thread(lambda: any(path.exists() for path in names))
        self._allowed = begun or await may_record(self._broker, self.job, self._settled())

    def _take_up(self, worker: str) -> None:
        self._worker = worker or self._worker
        self._assigned.set()

    def _end(self, ending: SessionEnding) -> None:
        if not self._ended.done():
            self._ended.set_result(ending)

    async def _record(self) -> None:
        self._folder = folder = await self._open()
        try:
            if not folder.complete:
                intake = StreamFollower(self._broker, self.job, self._endurance.recorded)
                await intake.run(folder, self._settled())
                await self._finish(folder)
        finally:
            await asyncio.to_thread(folder.close)

    async def _open(self) -> SessionFolder:
        args = (self._root, self.job, self._worker, self._endurance.troubles)
        opening = asyncio.create_task(
            asyncio.to_thread(SessionFolder.open, *args, self._broker.clock.now_ms)
        )
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:  # a thread cannot be cancelled: what it opens is closed
            (outcome,) = await asyncio.gather(opening, return_exceptions=True)
            if isinstance(outcome, SessionFolder):
                outcome.close()
            raise

    async def _settled(self) -> None:
        """Wait for the end, and a while longer: a worker may just be publishing its last unit."""
        ending = await asyncio.shield(self._ended)
        if ending.at is not None:
            settles_at = ending.at + self._settings.recorder_settle_s * 1000
            await asyncio.sleep(max(0.0, settles_at - self._broker.clock.now_ms()) / 1000)

    async def _finish(self, folder: SessionFolder) -> None:
        state = await asyncio.to_thread(folder.finish, self._ended.result())
        if state is None:
            log.info("nothing_recorded")
            return
        self._counters.complete += state is RecordingState.COMPLETE
        self._counters.interrupted += state is RecordingState.INTERRUPTED
        log.info("recording_finished", recording=self.job.recording, state=state.value)

    async def _let_go(self) -> None:
        """What the streams hold of a session is not needed once no client can come back for it."""
        if await may_discard(self._broker, self.job):
            grace_s = self._settings.resume_grace_s
            await asyncio.sleep(await client_may_return_s(self._broker, self.job, grace_s))
            await self._broker.streams.discard(self.job.sid, self.job.ticket)

    async def _merge(self) -> None:
        if self._folder is not None and (self._folder.begun or self._folder.complete):
            await self._room.merge(self._folder.path)

    async def _forget(self) -> None:
        async with self._confirming:
            self._folder = None
            await self._broker.recorder_progress.clear(self.job.ticket)


_UNREAD_LIMIT = 64
"""Entries held in memory per stream; beyond that they are read from Redis again."""


class StreamFollower:
    """`on_recorded` is told of each entry that is on disk, by the time it was said (Redis-clock ms)."""

    def __init__(
        self, broker: Broker, job: RecordingJob, on_recorded: Callable[[float], None]
    ) -> None:
        self._broker = broker
        self._job = job
        self._on_recorded = on_recorded
        keys = broker.keys
        self._keys: dict[Side, StreamKey[Entry]] = {
            "in": keys.inbound(job.sid),
            "out": keys.outbound(job.sid),
        }

    async def run(self, folder: SessionFolder, settled: Awaitable[None]) -> None:
        """Until the session is over and has settled. Raises OSError and BrokerUnavailable."""
        tasks = [asyncio.create_task(self._follow(folder, side)) for side in SIDES]
        over = asyncio.ensure_future(settled)
        try:
            done, _ = await asyncio.wait([*tasks, over], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (*tasks, over):
                task.cancel()
            await asyncio.gather(*tasks, over, return_exceptions=True)
        for side in SIDES:
            await self._drain(folder, side)

    async def _follow(self, folder: SessionFolder, side: Side) -> None:
        subscribe = self._broker.reader.subscribe
        while True:  # a disk that fell behind: go on from where it stands
            after = folder.position(side)
            async with subscribe(self._keys[side], after, limit=_UNREAD_LIMIT) as entries:
                async for position, entry in entries:
                    await asyncio.to_thread(folder.add, side, position, entry)
                    self._on_recorded(entry.at)

    async def _drain(self, folder: SessionFolder, side: Side) -> None:
        after = folder.position(side)
        history = self._broker.streams.history(self._keys[side], self._job.ticket, after)
        async for position, entry in history:
            await asyncio.to_thread(folder.add, side, position, entry)
            self._on_recorded(entry.at)
