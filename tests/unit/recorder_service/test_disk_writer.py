"""Entries of several sessions on the writer's threads."""

import asyncio
import threading
from typing import Any, cast

import pytest

from antiphon.recorder_service.disk_writer import DiskWriter
from antiphon.recorder_service.folder import RecordingFolder
from antiphon.shared_schemas.entries import ChunkIn, StreamPosition

ENTRY = ChunkIn(audio=b"")


class Folder:
    """Records the numbers of its entries; `opened` holds it up while it is clear."""

    def __init__(self) -> None:
        self.written: list[int] = []
        self.opened = threading.Event()
        self.opened.set()

    def add(self, _side: str, position: StreamPosition, _entry: Any) -> None:
        self.opened.wait(90)
        if position.n < 0:
            raise OSError("the disk is full")
        self.written.append(position.n)


def _add(writer: DiskWriter, folder: Folder, n: int) -> asyncio.Task[None]:
    adding = writer.add(cast("RecordingFolder", folder), "in", StreamPosition(1, 1, n), ENTRY)
    return asyncio.create_task(adding)


async def test_every_entry_is_written_once() -> None:
    writer, folders = DiskWriter(), [Folder() for _ in range(20)]
    await asyncio.gather(*(_add(writer, each, n) for n in range(50) for each in folders))
    assert all(sorted(each.written) == list(range(50)) for each in folders)


async def test_an_error_reaches_its_session_only() -> None:
    writer, full, good = DiskWriter(), Folder(), Folder()
    failing, working = _add(writer, full, -1), _add(writer, good, 1)
    with pytest.raises(OSError, match="the disk is full"):
        await failing
    await working
    assert good.written == [1]


async def test_a_folder_that_is_stuck_delays_no_other() -> None:
    writer, stuck, good = DiskWriter(), Folder(), Folder()
    stuck.opened.clear()
    before = _add(writer, good, 1)
    waiting = _add(writer, stuck, 1)
    after = _add(writer, good, 2)
    async with asyncio.timeout(90):
        await asyncio.gather(before, after)
        await _add(writer, good, 3)
    assert not waiting.done()
    stuck.opened.set()
    await waiting
    assert (stuck.written, good.written) == ([1], [1, 2, 3])


async def test_an_entry_whose_recorder_was_cancelled_is_not_written() -> None:
    writer, folder = DiskWriter(), Folder()
    folder.opened.clear()
    first, second = _add(writer, folder, 1), _add(writer, folder, 2)
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    folder.opened.set()
    await first
    await _add(writer, folder, 3)
    assert folder.written == [1, 3]
