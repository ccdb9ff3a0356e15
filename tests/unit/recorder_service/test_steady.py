"""Jumps of Redis' clock change neither the durations nor the replay of a recording."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.recorder_service.journal.job import RecordingJob, SessionEnding
from antiphon.recorder_service.journal.journal import (
    JournalContents,
    JournalEntries,
    JournalEntry,
    OutageEntry,
    OutageStart,
    SavedFile,
    SavedMedia,
    Side,
    to_journal,
)
from antiphon.recorder_service.journal.state import JournalState
from antiphon.recorder_service.journal.steady import without_clock_jumps
from antiphon.recorder_service.manifest.duplex import build_manifest
from antiphon.recorder_service.manifest.plan import plan_replay
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.entries import (
    ChunkIn,
    Entry,
    PauseIn,
    PreparedOut,
    PrepareIn,
    ResultOut,
    ResumeIn,
    StreamEntry,
    StreamPosition,
)
from antiphon.shared_schemas.recording import DuplexRecording, Meta, TurnRecording
from antiphon.shared_schemas.states import EndReason, SessionKind
from support.recorder_conversations import result
from support.turn_conversations import chat_talk, half_duplex_talk

T0 = 1_700_000_000_000.0
HOUR_MS = 3_600_000.0
TICKET = 7
TICK_MS = 500.0

Timed = list[tuple[Side, float, Entry]]


def duplex(units: int = 20, pause_ms: float = 0.0) -> Timed:
    """A chunk per second, each answered 100 ms later; a pause in the middle if `pause_ms`."""
    talk: Timed = [
        ("in", 0.0, PrepareIn(system_prompt="p", config=DuplexConfig())),
        ("out", 50.0, PreparedOut(input_n=1, prompt_length=3)),
    ]
    at, n = 0.0, 1
    for unit in range(units):
        if pause_ms and unit == units // 2:
            talk += [
                ("in", at, PauseIn(timeout_s=pause_ms / 1000)),
                ("in", at + pause_ms, ResumeIn()),
            ]
            at, n = at + pause_ms, n + 2
        at, n = at + 1000.0, n + 1
        answer = result(n, speak=unit % 3 == 0, end_of_turn=unit % 3 == 0)
        answer = replace(answer, received_at=T0 + at, read_at=T0 + at + 3)
        talk += [("in", at, ChunkIn(audio=b"")), ("out", at + 100.0, answer)]
    return talk


def turns(kind: SessionKind) -> Timed:
    talk = chat_talk() if kind is SessionKind.CHAT else half_duplex_talk()
    return [
        ("in" if side == "in" else "out", TICK_MS * place, entry)
        for place, (side, entry) in enumerate(talk)
    ]


PAUSE_MS = 700_000.0
"""Longer than any silence."""

TALKS = {
    SessionKind.AUDIO_DUPLEX: duplex(),
    SessionKind.OMNI_DUPLEX: duplex(pause_ms=PAUSE_MS),
    SessionKind.HALF_DUPLEX: turns(SessionKind.HALF_DUPLEX),
    SessionKind.CHAT: turns(SessionKind.CHAT),
}

PAUSES_S = {SessionKind.OMNI_DUPLEX: PAUSE_MS / 1000}
"""The pause of a kind's talk: a jump during it hides its length."""


def journal_of(talk: Timed, jumps: dict[Side, list[tuple[int, float]]]) -> JournalContents:
    """`jumps`: at which entry of each stream its writer's clock steps, and by how much."""
    items: dict[Side, list[JournalEntry[StreamEntry]]] = {"in": [], "out": []}
    for side, at, entry in talk:
        number = len(items[side])
        shift = sum(step for place, step in jumps.get(side, []) if place <= number)
        position = StreamPosition(TICKET, 1, number + 1)
        timed = replace(entry, at=T0 + at + shift)
        items[side].append(to_journal(side, position, timed, _media(entry, number)))
    return JournalContents(items["in"], items["out"])


def _media(entry: Entry, number: int) -> SavedMedia:
    if isinstance(entry, ChunkIn):
        audio = SavedFile(file=f"in_{number}", samples=16_000)
        return SavedMedia(audio=audio, chunk_index=number)
    if getattr(entry, "audio", b""):
        return SavedMedia(audio=SavedFile(file=f"out_{number}", samples=24_000))
    parts = tuple(SavedFile(file=f"part_{n}") for n, _ in enumerate(getattr(entry, "blobs", ())))
    return SavedMedia(parts=parts)


def finish(
    kind: SessionKind, contents: JournalContents, ended_ms: float
) -> tuple[DuplexRecording | TurnRecording, Meta, float]:
    """Both JSON files, and the seconds of the replay."""
    job = RecordingJob(sid="talk_1", ticket=TICKET, kind=kind, recording="ab" * 16)
    ending = SessionEnding(at=round(T0 + ended_ms), reason=EndReason.STOPPED, worker="w1")
    recording, meta = build_manifest(job, ending, contents)
    steady = without_clock_jumps(contents)
    plan = plan_replay(kind, JournalState.of(TICKET, steady), steady)
    return recording, meta, plan.seconds


@pytest.mark.parametrize("kind", list(SessionKind))
def test_f27_times_without_a_jump_are_kept(kind: SessionKind) -> None:
    contents = journal_of(TALKS[kind], {})
    assert without_clock_jumps(contents) is contents


STEPS = st.lists(
    st.tuples(st.integers(1, 40), st.sampled_from([-HOUR_MS, HOUR_MS, 7 * HOUR_MS])), max_size=4
)


@given(st.sampled_from(list(SessionKind)), STEPS, STEPS, st.sampled_from([0, 1, -1, 5]))
def test_f27_clock_jumps_change_neither_duration_nor_replay(
    kind: SessionKind, inputs: list[tuple[int, float]], outputs: list[tuple[int, float]], end: int
) -> None:
    """Each writer's clock jumps anywhere after its first entry, and so does the clock of the end."""
    talk = TALKS[kind]
    last_ms = max(at for _, at, _ in talk)
    _, quiet, quiet_s = finish(kind, journal_of(talk, {}), last_ms + 500)
    jumps: dict[Side, list[tuple[int, float]]] = {"in": inputs, "out": outputs}
    recording, meta, seconds = finish(kind, journal_of(talk, jumps), last_ms + 500 + end * HOUR_MS)
    steps = len(inputs) + len(outputs) + 1
    assert meta.duration_s is not None
    assert quiet.duration_s is not None
    shortest_s = 2 * steps + PAUSES_S.get(kind, 0.0)
    assert -shortest_s <= meta.duration_s - quiet.duration_s <= 2 * steps
    assert -shortest_s <= seconds - quiet_s <= 2 * steps
    assert meta.ended_at == meta.created_at + timedelta(seconds=meta.duration_s)
    times = [event.ts_ms for event in recording.events]
    assert all(0 <= at <= meta.duration_s * 1000 for at in times)


@given(STEPS, STEPS)
def test_f27_entries_keep_their_order_and_answers_follow_their_inputs(
    inputs: list[tuple[int, float]], outputs: list[tuple[int, float]]
) -> None:
    steady = without_clock_jumps(journal_of(duplex(), {"in": inputs, "out": outputs}))
    for items in (steady.inputs, steady.outputs):
        assert all(b - a > -2000 for a, b in pairwise(item.entry.at for item in items))
    sent = {item.position.n: item.entry.at for item in steady.inputs}
    for item in steady.outputs:
        if isinstance(item.entry, ResultOut):
            assert 0 <= item.entry.at - sent[item.entry.input_n] < 10_000


def test_f27_a_jump_does_not_count_as_time_to_the_worker() -> None:
    jumps: dict[Side, list[tuple[int, float]]] = {"in": [(5, HOUR_MS)], "out": [(8, HOUR_MS)]}
    contents = journal_of(duplex(), jumps)
    moved = [_stamped(item, jumps) for item in contents.outputs]
    contents = replace(contents, outputs=moved)
    recording, _, _ = finish(SessionKind.AUDIO_DUPLEX, contents, 21_000 + HOUR_MS)
    assert isinstance(recording, DuplexRecording)
    waits = [chunk.result.timing.edge_to_worker_ms for chunk in recording.chunks if chunk.result]
    assert len(waits) == 20
    assert max(abs(wait) for wait in waits) < 5


def _stamped(
    item: JournalEntry[StreamEntry], jumps: dict[Side, list[tuple[int, float]]]
) -> JournalEntry[StreamEntry]:
    """A result with the stamps of the edge and the worker."""
    if not isinstance(item.entry, ResultOut):
        return item

    def shift(side: Side, n: int) -> float:
        return sum(step for place, step in jumps[side] if place < n)

    entry = replace(
        item.entry,
        received_at=item.entry.received_at + shift("in", item.entry.input_n),
        read_at=item.entry.read_at + shift("out", item.position.n),
    )
    return replace(item, entry=entry)


def test_f27_lost_entries_explain_a_long_gap() -> None:
    """The gap holds 1000 lost entries, and is longer than any silence."""
    contents = journal_of(duplex(2), {})
    first, *rest = contents.inputs
    later = [_later(item, 900_000.0, 1000) for item in rest]
    lost = replace(contents, inputs=[first, *later], outputs=())
    assert without_clock_jumps(lost) is lost


def _later(item: JournalEntry[StreamEntry], ms: float, entries: int) -> JournalEntry[StreamEntry]:
    position = item.position._replace(n=item.position.n + entries)
    return replace(item, position=position, entry=replace(item.entry, at=item.entry.at + ms))


def test_f27_an_outage_of_the_disk_never_ends_before_it_begins() -> None:
    start: JournalEntries = journal_of(duplex(2), {}).inputs
    after: dict[Side, StreamPosition] = dict.fromkeys(("in", "out"), start[0].position)
    outage = OutageEntry(OutageStart(T0 + 500.0, "No space"), T0 + 900.0 - HOUR_MS, after)
    contents = replace(journal_of(duplex(2), {}), outages=[outage])
    _, meta, _ = finish(SessionKind.AUDIO_DUPLEX, contents, 3000.0)
    (written,) = meta.degraded
    assert written.resumed_at == written.at
