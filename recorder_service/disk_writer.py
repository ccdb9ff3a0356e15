"""Writes the entries of all sessions on a thread that takes what has arrived."""

import asyncio
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from antiphon.recorder_service.folder import RecordingFolder
from antiphon.recorder_service.journal.journal import Side
from antiphon.shared_schemas.entries import Entry, StreamPosition

_SLOW_S = 0.1
"""When entries wait and none was written for this long, another thread writes too. More threads than
necessary only wait for each other: the interpreter runs one at a time."""

_THREADS = 8


@dataclass(frozen=True, slots=True)
class _PendingWrite:
    """An entry, its place, and the future of its session's recorder."""

    folder: RecordingFolder
    side: Side
    position: StreamPosition
    entry: Entry
    done: asyncio.Future[None]


class DiskWriter:
    """Entries share the start of a thread and the report to the event loop, which cost more CPU time
    than a small file. A folder that is slow holds one thread up; another writes to the other folders.
    """

    def __init__(self) -> None:
        self._pending: deque[_PendingWrite] = deque()
        self._finished: deque[tuple[_PendingWrite, Exception | None]] = deque()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="disk")
        self._running = 0
        self._written_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def add(
        self, folder: RecordingFolder, side: Side, position: StreamPosition, entry: Entry
    ) -> None:
        """Return when the entry is on disk. Raises OSError, and what else `folder.add` raises."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._pending.append(_PendingWrite(folder, side, position, entry, done))
        if not self._running:
            self._start()
        if self._timer is None:
            self._timer = loop.call_later(_SLOW_S, self._check_progress)
        await done

    def _start(self) -> None:
        self._running += 1
        self._written_at = time.monotonic()
        writing = asyncio.get_running_loop().run_in_executor(self._threads, self._write)
        writing.add_done_callback(self._stopped)

    def _stopped(self, writing: asyncio.Future[None]) -> None:
        writing.result()
        self._running -= 1
        self._report()
        if self._pending and not self._running:
            self._start()

    def _check_progress(self) -> None:
        """Report what a thread has written before the entry that holds it up, and start another."""
        self._timer = None
        self._report()
        if not self._running:
            return
        if time.monotonic() - self._written_at >= _SLOW_S and self._running < _THREADS:
            self._start()
        self._timer = asyncio.get_running_loop().call_later(_SLOW_S, self._check_progress)

    def _report(self) -> None:
        while self._finished:
            write, error = self._finished.popleft()
            if write.done.done():  # the recorder of the session was cancelled
                continue
            if error is None:
                write.done.set_result(None)
            else:
                write.done.set_exception(error)

    def _write(self) -> None:
        """Runs on a thread, until nothing waits."""
        while True:
            try:
                write = self._pending.popleft()
            except IndexError:
                return
            error: Exception | None = None
            try:
                if not write.done.cancelled():
                    write.folder.add(write.side, write.position, write.entry)
            except Exception as raised:  # noqa: BLE001 - the session's recorder handles it
                error = raised
            self._finished.append((write, error))
            self._written_at = time.monotonic()
