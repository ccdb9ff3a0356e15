"""Records one session: follows its two streams while it lives, then makes the recording whole."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import structlog

from broker.client import Broker
from broker.errors import BrokerUnavailable
from broker.retry import persist
from recorder_service.job import Ending, Job
from recorder_service.session_folder import SessionFolder
from recorder_service.settings import RecorderSettings
from recorder_service.standing import look_up, may_discard
from recorder_service.timeline import SIDES, Line, Side, trouble_line
from shared_schemas.lifecycle import SessionEvent
from shared_schemas.states import SessionState

log = structlog.get_logger()

_UNREAD_LIMIT = 64
"""Entries held in memory per stream; beyond that they are read from Redis again."""

_LONGEST_RETRY_S = 30.0


class Tail:
    """One session's recording. `run` ends when nothing is left to be done for it."""

    def __init__(self, broker: Broker, settings: RecorderSettings, root: Path, job: Job) -> None:
        self.job = job
        self._broker = broker
        self._settings = settings
        self._root = root
        self._keys: dict[Side, str] = {
            "in": broker.keys.inbound(job.sid),
            "out": broker.keys.outbound(job.sid),
        }
        self._worker = ""
        self._assigned = asyncio.Event()
        self._ended: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._folder: SessionFolder | None = None
        self._confirming = asyncio.Lock()
        self._troubles: list[Line] = []

    @property
    def ended(self) -> bool:
        """True when the session is over and only its recording remains to be finished."""
        return self._ended.done()

    def notice(self, event: SessionEvent) -> None:
        """Take one of this session's transitions into account; repeats do no harm."""
        if event.worker:
            self._take_up(event.worker)
        if event.state is SessionState.ENDED:
            self._end(Ending(at=event.at, reason=event.reason, worker=event.worker))

    async def look(self) -> None:
        """Ask Redis how the session stands, for transitions that went unnoticed."""
        if self.ended:
            return
        standing = await look_up(self._broker, self.job)
        if standing.assigned:
            self._take_up(standing.worker)
        if standing.ending is not None:
            self._end(standing.ending)

    async def confirm(self) -> None:
        """Tell Redis how far the recording has come."""
        async with self._confirming:
            folder = self._folder
            if folder is not None and folder.begun:
                progress: dict[str, Any] = {side: folder.position(side).id() for side in SIDES}
                progress["at"] = round(self._broker.clock.now_ms())
                await self._broker.progress.save(self.job.ticket, progress)

    async def run(self) -> None:
        """Record the session to its end. A session that no worker took up leaves nothing behind."""
        await persist(self.look, "look a session up")
        assigned: asyncio.Future[Any] = asyncio.ensure_future(self._assigned.wait())
        outcomes: list[asyncio.Future[Any]] = [assigned, self._ended]
        try:
            await asyncio.wait(outcomes, return_when=asyncio.FIRST_COMPLETED)
        finally:
            assigned.cancel()
        if self._assigned.is_set():
            await self._record_at_last()
            await persist(self._forget, "discard a recorded session")

    def _take_up(self, worker: str) -> None:
        self._worker = worker or self._worker
        self._assigned.set()

    def _end(self, ending: Ending) -> None:
        if not self._ended.done():
            self._ended.set_result(ending)

    async def _record_at_last(self) -> None:
        """Start again from what is on disk for as often as the disk or Redis fails."""
        loop = asyncio.get_running_loop()
        delay = self._settings.recorder_retry_s
        while True:
            began = loop.time()
            try:
                await self._record()
            except OSError as error:
                if _is_cancelled():
                    raise
                self._report_trouble(error, delay)
            except BrokerUnavailable as error:
                log.warning("recording_interrupted", sid=self.job.sid, error=str(error))
            else:
                return
            await asyncio.sleep(delay)
            lasted = loop.time() - began - delay
            fresh = lasted > _LONGEST_RETRY_S
            delay = self._settings.recorder_retry_s if fresh else min(delay * 2, _LONGEST_RETRY_S)

    def _report_trouble(self, error: OSError, delay: float) -> None:
        log.error(
            "recording_degraded", recording=self.job.recording, error=str(error), retry_s=delay
        )
        reason = error.strerror or str(error)
        if not self._troubles or self._troubles[-1]["error"] != reason:
            self._troubles.append(trouble_line(self._broker.clock.now_ms(), reason))

    async def _record(self) -> None:
        self._folder = folder = await self._open()
        try:
            if not folder.complete:
                await self._follow_to_the_end(folder)
                await self._finish(folder)
        finally:
            await asyncio.to_thread(folder.close)

    async def _open(self) -> SessionFolder:
        args = (self._root, self.job, self._worker, self._troubles)
        opening = asyncio.create_task(asyncio.to_thread(SessionFolder.open, *args))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:  # a thread cannot be cancelled: what it opens is closed
            (outcome,) = await asyncio.gather(opening, return_exceptions=True)
            if isinstance(outcome, SessionFolder):
                outcome.close()
            raise

    async def _follow_to_the_end(self, folder: SessionFolder) -> None:
        """Both streams live until the session is over and has settled; then what they still hold."""
        tasks = [asyncio.create_task(self._follow(folder, side)) for side in SIDES]
        settled = asyncio.create_task(self._settled())
        try:
            done, _ = await asyncio.wait([*tasks, settled], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (*tasks, settled):
                task.cancel()
            await asyncio.gather(*tasks, settled, return_exceptions=True)
        for side in SIDES:
            await self._drain(folder, side)

    async def _follow(self, folder: SessionFolder, side: Side) -> None:
        subscribe = self._broker.reader.subscribe
        while True:  # a disk that fell behind: go on from where it stands
            after = folder.position(side)
            async with subscribe(self._keys[side], after, limit=_UNREAD_LIMIT) as entries:
                async for position, entry in entries:
                    await asyncio.to_thread(folder.add, side, position, entry)

    async def _drain(self, folder: SessionFolder, side: Side) -> None:
        after = folder.position(side)
        history = self._broker.streams.history(self._keys[side], self.job.ticket, after)
        async for position, entry in history:
            await asyncio.to_thread(folder.add, side, position, entry)

    async def _settled(self) -> None:
        """Wait for the end, and a while longer: a worker may just be publishing its last unit."""
        ending = await asyncio.shield(self._ended)
        if ending.at is not None:
            settles_at = ending.at + self._settings.recorder_settle_s * 1000
            await asyncio.sleep(max(0.0, settles_at - self._broker.clock.now_ms()) / 1000)

    async def _finish(self, folder: SessionFolder) -> None:
        state = await asyncio.to_thread(folder.finish, self._ended.result())
        if state is None:
            log.info("nothing_recorded", sid=self.job.sid)
        else:
            log.info("recording_finished", recording=self.job.recording, state=state.value)

    async def _forget(self) -> None:
        """What Redis holds of a session is not needed any more."""
        if await may_discard(self._broker, self.job):
            await self._broker.streams.discard(self.job.sid, self.job.ticket)
        async with self._confirming:
            self._folder = None
            await self._broker.progress.clear(self.job.ticket)


def _is_cancelled() -> bool:
    """True when this task is being ended, whatever else went wrong on the way."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
