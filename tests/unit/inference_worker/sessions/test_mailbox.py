"""The newest audio is kept, and only audio is dropped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from antiphon.broker.stream_reader import Subscription
from antiphon.inference_worker.sessions.mailbox import InputBacklog, QueuedInput, SessionMailbox
from antiphon.shared_schemas.entries import (
    ChunkIn,
    DiagnosticIn,
    InEntry,
    PauseIn,
    ResumeIn,
    StreamPosition,
)


def chunk(**fields: object) -> ChunkIn:
    return ChunkIn(audio=b"\0\0\0\0", **fields)  # type: ignore[arg-type]


def fill(backlog: InputBacklog, entries: list[InEntry]) -> list[QueuedInput]:
    for n, entry in enumerate(entries, start=1):
        backlog.push(QueuedInput(StreamPosition(1, 1, n), entry, read_s=0.0))
    return [backlog.pop() for _ in range(len(backlog.items))]


def test_the_newest_chunks_are_kept_and_the_others_are_listed() -> None:
    items = fill(InputBacklog(3), [chunk() for _ in range(6)])
    assert [item.n for item in items] == [4, 5, 6]
    assert items[0].skipped == (1, 2, 3)
    assert items[1].skipped == items[2].skipped == ()


def test_control_entries_keep_their_place() -> None:
    entries: list[InEntry] = [chunk(), chunk(), PauseIn(timeout_s=1), ResumeIn(), chunk(), chunk()]
    items = fill(InputBacklog(2), entries)
    assert [item.n for item in items] == [3, 4, 5, 6]
    assert items[2].skipped == (1, 2)


def test_force_listen_is_kept_if_its_chunk_is_dropped() -> None:
    items = fill(InputBacklog(1), [chunk(force_listen=True), chunk(), chunk()])
    assert len(items) == 1
    assert isinstance(items[0].entry, ChunkIn)
    assert items[0].entry.force_listen


async def test_diagnostics_are_ignored() -> None:
    async def entries() -> AsyncIterator[tuple[StreamPosition, InEntry]]:
        for n, entry in enumerate([DiagnosticIn(metrics={}), ResumeIn()], start=1):
            yield StreamPosition(1, 0, n), entry
        await asyncio.Event().wait()

    mailbox = SessionMailbox(InputBacklog(3))
    filling = asyncio.create_task(mailbox.fill(cast("Subscription[InEntry]", entries())))
    item = await mailbox.next(10)
    assert item is not None
    assert item.n == 2
    filling.cancel()
    await asyncio.wait([filling])


KINDS = st.sampled_from(["chunk", "pause", "resume"])


@given(st.lists(KINDS, max_size=40), st.integers(1, 5))
def test_every_chunk_is_served_or_listed_as_skipped(kinds: list[str], limit: int) -> None:
    make: dict[str, InEntry] = {
        "chunk": chunk(),
        "pause": PauseIn(timeout_s=1),
        "resume": ResumeIn(),
    }
    items = fill(InputBacklog(limit), [make[kind] for kind in kinds])
    served = [item.n for item in items]
    skipped = [n for item in items for n in item.skipped]
    assert sorted(served + skipped) == list(range(1, len(kinds) + 1))
    assert served == sorted(served)
    assert skipped == sorted(skipped)
    assert sum(isinstance(item.entry, ChunkIn) for item in items) == min(
        limit, kinds.count("chunk")
    )
