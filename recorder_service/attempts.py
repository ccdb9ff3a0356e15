"""Counts in a recording's folder how often a recorder has failed on it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

from antiphon.broker.errors import BrokerUnavailable
from antiphon.recorder_service.atomic_files import write_atomic

ATTEMPTS_FILE = ".attempts"


class MergeStopped(Exception):
    """The recorder stops; the recorder that takes the session over starts the merge again."""


class TooManyAttempts(Exception):
    """Recorders have failed on this recording too often."""


class Attempts:
    """At most `most` attempts on a recording, over all recorders and their restarts.

    The count is written before the work and removed after it, so that it also counts recorders that
    were killed, for example because they had no memory left. A recording that has failed before is
    worked on while no other such recording is, so that its neighbours are not counted.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._alone = asyncio.Lock()

    @asynccontextmanager
    async def attempt(self, folder: Path, *, clears_failures: bool = True) -> AsyncIterator[None]:
        """Count the work of the block. A failing disk, an outage or a stop of the recorder is no failure.

        Success removes earlier failures from the count if `clears_failures`.
        Raises TooManyAttempts, and OSError when the count cannot be written.
        """
        failed = await asyncio.to_thread(read_attempts, folder)
        if failed >= self._most:
            raise TooManyAttempts(f"{failed} attempts have failed")
        async with self._alone if failed else nullcontext():
            # Not in a thread, which would still write after the attempt has been cancelled.
            _write_attempts(folder, failed + 1)
            try:
                yield
            except (OSError, BrokerUnavailable, MergeStopped, asyncio.CancelledError):
                _write_attempts(folder, failed)
                raise
            await asyncio.to_thread(_write_attempts, folder, 0 if clears_failures else failed)


def read_attempts(folder: Path) -> int:
    try:
        return int((folder / ATTEMPTS_FILE).read_text())
    except (FileNotFoundError, ValueError):
        return 0


def _write_attempts(folder: Path, count: int) -> None:
    """Nothing is counted before the folder exists. Raises OSError."""
    file = folder / ATTEMPTS_FILE
    if count == 0:
        file.unlink(missing_ok=True)
    elif folder.is_dir():
        write_atomic(file, str(count).encode())
