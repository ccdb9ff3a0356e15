"""The newest audio wins, and nothing but audio is ever dropped."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from antiphon.inference_worker.sessions.mailbox import InputBacklog, QueuedInput
from antiphon.shared_schemas.entries import (
    ChunkIn,
    DiagnosticIn,
    InEntry,
    PauseIn,
    ResumeIn,
)


def chunk(**fields: object) -> ChunkIn:
    return ChunkIn(audio=b"\0\0\0\0", **fields)  # type: ignore[arg-type]


def fill(backlog: InputBacklog, entries: list[InEntry]) -> list[QueuedInput]:
    for n, entry in enumerate(entries, start=1):
        backlog.push(QueuedInput(n, entry, read_at=0.0))
    return [backlog.pop() for _ in range(len(backlog))]


def test_keeps_the_newest_chunks_and_tells_which_were_skipped() -> None:
    items = fill(InputBacklog(3), [chunk() for _ in range(6)])
    assert [item.n for item in items] == [4, 5, 6]
    assert items[0].skipped == (1, 2, 3)
    assert items[1].skipped == items[2].skipped == ()


def test_control_entries_keep_their_place() -> None:
    entries: list[InEntry] = [chunk(), chunk(), PauseIn(timeout_s=1), ResumeIn(), chunk(), chunk()]
    items = fill(InputBacklog(2), entries)
    assert [item.n for item in items] == [3, 4, 5, 6]
    assert items[2].skipped == (1, 2)


def test_a_wish_to_interrupt_survives_its_audio() -> None:
    items = fill(InputBacklog(1), [chunk(force_listen=True), chunk(), chunk()])
    assert len(items) == 1
    assert isinstance(items[0].entry, ChunkIn)
    assert items[0].entry.force_listen


def test_diagnostics_are_let_go() -> None:
    assert fill(InputBacklog(3), [DiagnosticIn(metrics={})]) == []


KINDS = st.sampled_from(["chunk", "pause", "resume"])


@given(st.lists(KINDS, max_size=40), st.integers(1, 5))
def test_every_chunk_is_served_or_told_as_skipped(kinds: list[str], limit: int) -> None:
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
