"""The newest audio is kept, and only audio is dropped."""

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.broker.stream_reader import Subscription
from antiphon.inference_worker.sessions.mailbox import (
    InterruptWatcher,
    QueuedInput,
    SessionMailbox,
)
from antiphon.shared_schemas.audio import INPUT_RATE
from antiphon.shared_schemas.entries import (
    ChunkIn,
    DiagnosticIn,
    InEntry,
    PauseIn,
    ResumeIn,
    StreamPosition,
)
from support.scripted_engine import ScriptedHalfDuplexView, two_pieces


def chunk(**fields: object) -> ChunkIn:
    return ChunkIn(audio=bytes(4 * INPUT_RATE), **fields)  # type: ignore[arg-type]


async def read(limit: int, entries: list[InEntry]) -> list[QueuedInput]:
    """What is left of entries that arrive at once."""

    async def arrive() -> AsyncIterator[tuple[StreamPosition, InEntry]]:
        for n, entry in enumerate(entries, start=1):
            yield StreamPosition(1, 1, n), entry
        await asyncio.Event().wait()

    mailbox = SessionMailbox(limit)
    filling = asyncio.create_task(mailbox.fill(cast("Subscription[InEntry]", arrive())))
    await asyncio.sleep(0)
    items: list[QueuedInput] = []
    while item := await mailbox.next(0):
        items.append(item)
    filling.cancel()
    await asyncio.wait([filling])
    return items


async def test_the_newest_chunks_are_kept_and_the_others_are_listed() -> None:
    items = await read(3, [chunk() for _ in range(6)])
    assert [item.position.n for item in items] == [4, 5, 6]
    assert items[0].skipped == (1, 2, 3)
    assert items[1].skipped == items[2].skipped == ()


async def test_short_chunks_may_wait_as_long_as_whole_seconds() -> None:
    short = ChunkIn(audio=bytes(4 * INPUT_RATE // 50))
    assert len(await read(3, [short] * 90)) == 90
    items = await read(3, [short] * 200)
    assert items[-1].position.n == 200
    assert 90 <= len(items) < 100
    assert len(items) + len(items[0].skipped) == 200


async def test_empty_chunks_do_not_wait_without_limit() -> None:
    assert len(await read(1, [ChunkIn(audio=b"")] * 1000)) == 64


async def test_control_entries_keep_their_place() -> None:
    entries: list[InEntry] = [chunk(), chunk(), PauseIn(timeout_s=1), ResumeIn(), chunk(), chunk()]
    items = await read(2, entries)
    assert [item.position.n for item in items] == [3, 4, 5, 6]
    assert items[2].skipped == (1, 2)


async def test_force_listen_is_kept_if_its_chunk_is_dropped() -> None:
    items = await read(1, [chunk(force_listen=True), chunk(), chunk()])
    assert len(items) == 1
    assert isinstance(items[0].entry, ChunkIn)
    assert items[0].entry.force_listen


async def test_diagnostics_are_ignored() -> None:
    async def entries() -> AsyncIterator[tuple[StreamPosition, InEntry]]:
        for n, entry in enumerate([DiagnosticIn(metrics={}), ResumeIn()], start=1):
            yield StreamPosition(1, 0, n), entry
        await asyncio.Event().wait()

    mailbox = SessionMailbox(3)
    filling = asyncio.create_task(mailbox.fill(cast("Subscription[InEntry]", entries())))
    item = await mailbox.next(10)
    assert item is not None
    assert item.position.n == 2
    filling.cancel()
    await asyncio.wait([filling])


async def test_an_answer_leaves_a_failure_of_the_mailbox_to_its_next_reader() -> None:
    async def fails() -> AsyncIterator[tuple[StreamPosition, InEntry]]:
        raise OSError("gone")
        yield

    mailbox = SessionMailbox(3)
    await mailbox.fill(cast("Subscription[InEntry]", fails()))
    view = ScriptedHalfDuplexView(two_pieces, resumes=True)
    interrupts = InterruptWatcher(StreamPosition(1, 1, 1), view.set_break, view)
    async with interrupts.watch(mailbox):
        await asyncio.sleep(0)
    assert not interrupts.interrupted
    with pytest.raises(OSError, match="gone"):
        await mailbox.next(0)


KINDS = st.sampled_from(["chunk", "pause", "resume"])


@given(st.lists(KINDS, max_size=40), st.integers(1, 5))
def test_every_chunk_is_served_or_listed_as_skipped(kinds: list[str], limit: int) -> None:
    make: dict[str, InEntry] = {
        "chunk": chunk(),
        "pause": PauseIn(timeout_s=1),
        "resume": ResumeIn(),
    }
    items = asyncio.run(read(limit, [make[kind] for kind in kinds]))
    served = [item.position.n for item in items]
    skipped = [n for item in items for n in item.skipped]
    assert sorted(served + skipped) == list(range(1, len(kinds) + 1))
    assert served == sorted(served)
    assert skipped == sorted(skipped)
    assert sum(isinstance(item.entry, ChunkIn) for item in items) == min(
        limit, kinds.count("chunk")
    )
