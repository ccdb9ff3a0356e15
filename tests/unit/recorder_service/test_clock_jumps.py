"""Jumps of Redis' clock change neither the durations nor the replay of a recording."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from typing import TypeGuard

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from antiphon.recorder_service.journal.clock_jumps import without_clock_jumps
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
from antiphon.recorder_service.journal.state import JournalState, RecordingJob, SessionEnding
from antiphon.recorder_service.manifest.plan import plan_replay
from antiphon.recorder_service.manifest.recording import build_manifest
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.entries import (
    ChunkIn,
    Entry,
    PauseIn,
    PreparedOut,
    PrepareIn,
    ResultOut,
    ResumeIn,
    StoppedOut,
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
        answer = structs.replace(answer, received_at=T0 + at, read_at=T0 + at + 3)
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
    SessionKind.TURNS: turns(SessionKind.TURNS),
    SessionKind.CHAT: turns(SessionKind.CHAT),
}


def stopped(talk: Timed) -> tuple[Timed, float]:
    """With a last entry of the worker, and its time."""
    last_ms = max(at for _, at, _ in talk) + 500
    return [*talk, ("out", last_ms, StoppedOut())], last_ms


@dataclass(frozen=True)
class Clocks:
    """What the writers of a stream notice of Redis' clock.

    `steps`: at which entry the writer's clock steps, and by how much. `writers`: at which entry
    another writer follows, and how far its clock is ahead of the one before. `host`: how far the clock
    of the writers' host is ahead.
    """

    steps: Sequence[tuple[int, float]] = ()
    writers: Sequence[tuple[int, float]] = ()
    host: float = 0.0

    def at(self, number: int) -> tuple[int, float]:
        """The epoch, and the error of its writer's clock."""
        started = [(place, ahead) for place, ahead in self.writers if place <= number]
        steps = [(place, step) for place, step in self.steps if place <= number]
        error = sum(step for _, step in steps) + sum(ahead for _, ahead in started)
        return 1 + len(started), error


STEADY = Clocks()


def journal_of(talk: Timed, inputs: Clocks = STEADY, outputs: Clocks = STEADY) -> JournalContents:
    items: dict[Side, list[JournalEntry[StreamEntry]]] = {"in": [], "out": []}
    clocks = {"in": inputs, "out": outputs}
    errors: dict[int, float] = {}
    for side, at, entry in talk:
        number = len(items[side])
        epoch, error = clocks[side].at(number)
        if side == "in":
            errors[number + 1] = error
        position = StreamPosition(TICKET, epoch, number + 1)
        timed = structs.replace(entry, at=T0 + at + error, host_at=T0 + at + clocks[side].host)
        if isinstance(timed, ResultOut):
            sent, read = errors.get(timed.input_n, 0.0), timed.read_at + error
            timed = structs.replace(timed, received_at=timed.received_at + sent, read_at=read)
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
    contents = journal_of(TALKS[kind])
    assert without_clock_jumps(contents) is contents


JUMPS_MS = [-7 * HOUR_MS, -HOUR_MS, -100_000.0, -8_000.0, 8_000.0, 100_000.0, 599_000.0, HOUR_MS]
JUMPS = st.lists(st.tuples(st.integers(1, 40), st.sampled_from(JUMPS_MS)), max_size=4)


@given(st.sampled_from(list(SessionKind)), JUMPS, JUMPS, st.sampled_from([0.0, *JUMPS_MS]))
def test_f27_clock_jumps_change_neither_duration_nor_replay(
    kind: SessionKind,
    inputs: list[tuple[int, float]],
    outputs: list[tuple[int, float]],
    end: float,
) -> None:
    """Each writer's clock jumps anywhere after its first entry, and so does the clock of the end."""
    talk, last_ms = stopped(TALKS[kind])
    _, quiet, quiet_s = finish(kind, journal_of(talk), last_ms)
    jumped = journal_of(talk, Clocks(inputs), Clocks(outputs))
    recording, meta, seconds = finish(kind, jumped, last_ms + end)
    assert meta.duration_s is not None
    assert meta.duration_s == quiet.duration_s
    assert seconds == pytest.approx(quiet_s)
    assert meta.ended_at == meta.created_at + timedelta(seconds=meta.duration_s)
    times = [event.ts_ms for event in recording.events]
    assert all(0 <= at <= meta.duration_s * 1000 for at in times)


@pytest.mark.parametrize("kind", list(SessionKind))
@pytest.mark.parametrize("jump", [*JUMPS_MS, 3_000.0])
def test_f27_a_jump_after_the_last_entry_of_a_session_whose_client_left(
    kind: SessionKind, jump: float
) -> None:
    """No message of the worker says that it is over: the recording lasts until its last entry."""
    contents = journal_of(TALKS[kind])
    last_ms = max(at for _, at, _ in TALKS[kind])
    _, meta, _ = finish(kind, contents, last_ms + jump)
    assert meta.duration_s == last_ms / 1000
    assert meta.ended_at == meta.created_at + timedelta(seconds=meta.duration_s)


@given(
    st.sampled_from([kind for kind in SessionKind if kind is not SessionKind.CHAT]),
    *(st.sampled_from(JUMPS_MS), st.sampled_from([0.0, *JUMPS_MS]), st.integers(2, 4)),
)
def test_f27_a_jump_that_a_later_writer_notices_first(
    kind: SessionKind, edge: float, worker: float, place: int
) -> None:
    """The session gets another edge whose clock is set already; later, another worker."""
    talk, last_ms = stopped(TALKS[kind])
    _, quiet, quiet_s = finish(kind, journal_of(talk), last_ms)
    workers = [(place + 8, worker)] if kind.is_duplex else []
    jumped = journal_of(talk, Clocks(writers=[(place, edge)]), Clocks(writers=workers))
    _, meta, seconds = finish(kind, jumped, last_ms)
    assert meta.duration_s is not None
    assert quiet.duration_s is not None
    assert abs(meta.duration_s - quiet.duration_s) <= 5
    assert abs(seconds - quiet_s) <= 5


@pytest.mark.parametrize("kind", [SessionKind.AUDIO_DUPLEX, SessionKind.HALF_DUPLEX])
@pytest.mark.parametrize("ahead", JUMPS_MS)
def test_f27_the_worker_knows_the_jump_before_the_edge(kind: SessionKind, ahead: float) -> None:
    """Its clock is ahead during the whole session."""
    talk = TALKS[kind]
    quiet = journal_of(talk)
    steady = without_clock_jumps(journal_of(talk, outputs=Clocks(writers=[(0, ahead)])))
    for before, after in zip(quiet.outputs, steady.outputs, strict=True):
        assert abs(after.entry.at - before.entry.at) <= 1000


@pytest.mark.parametrize("kind", list(SessionKind))
@pytest.mark.parametrize("ahead", [-HOUR_MS, -1_500.0, 1_500.0, HOUR_MS])
def test_the_clocks_of_two_hosts_differ_and_that_of_redis_counts(
    kind: SessionKind, ahead: float
) -> None:
    contents = journal_of(TALKS[kind], outputs=Clocks(host=ahead))
    assert without_clock_jumps(contents) is contents


@given(JUMPS, JUMPS, st.sampled_from([-1_500.0, 1_500.0]))
def test_f27_jumps_while_the_clocks_of_two_hosts_differ(
    inputs: list[tuple[int, float]], outputs: list[tuple[int, float]], host: float
) -> None:
    talk, last_ms = stopped(TALKS[SessionKind.AUDIO_DUPLEX])
    jumped = journal_of(talk, Clocks(inputs), Clocks(outputs, host=host))
    _, meta, _ = finish(SessionKind.AUDIO_DUPLEX, jumped, last_ms)
    assert meta.duration_s == last_ms / 1000


def test_f27_the_engine_is_slower_than_any_jump() -> None:
    """The wait for results is the engine's work, so no clock is wrong."""
    talk = [(side, at + 50_000 if _is_result(entry) else at, entry) for side, at, entry in duplex()]
    slow = [
        (s, at, structs.replace(e, cost_all_ms=50_050) if _is_result(e) else e) for s, at, e in talk
    ]
    contents = journal_of(slow)
    assert without_clock_jumps(contents) is contents


def _is_result(entry: Entry) -> TypeGuard[ResultOut]:
    return isinstance(entry, ResultOut)


@pytest.mark.parametrize("jump", JUMPS_MS)
def test_f27_a_chat_whose_edge_and_worker_have_other_clocks(jump: float) -> None:
    """An answer takes up to a minute, so a jump of less than that is taken for the wait."""
    contents = journal_of(TALKS[SessionKind.CHAT], outputs=Clocks(writers=[(0, jump)]))
    steady = without_clock_jumps(contents)
    assert 0 <= steady.outputs[0].entry.at - T0 <= 60_000


@given(JUMPS, JUMPS)
def test_f27_entries_keep_their_order_and_answers_follow_their_inputs(
    inputs: list[tuple[int, float]], outputs: list[tuple[int, float]]
) -> None:
    steady = without_clock_jumps(journal_of(duplex(), Clocks(inputs), Clocks(outputs)))
    for items in (steady.inputs, steady.outputs):
        assert all(b >= a for a, b in pairwise(item.entry.at for item in items))
    sent = {item.position.n: item.entry.at for item in steady.inputs}
    for item in steady.outputs:
        if isinstance(item.entry, ResultOut):
            assert item.entry.at - sent[item.entry.input_n] == pytest.approx(100, abs=0.01)


def test_f27_a_jump_does_not_count_as_time_to_the_worker() -> None:
    contents = journal_of(duplex(), Clocks([(5, HOUR_MS)]), Clocks([(8, HOUR_MS)]))
    recording, _, _ = finish(SessionKind.AUDIO_DUPLEX, contents, 21_000 + HOUR_MS)
    assert isinstance(recording, DuplexRecording)
    waits = [chunk.result.timing.edge_to_worker_ms for chunk in recording.chunks if chunk.result]
    assert len(waits) == 20
    assert max(abs(wait - 3) for wait in waits) < 0.2


def test_f27_lost_entries_explain_a_long_gap() -> None:
    """The gap between two edges holds 1000 lost entries, and is longer than any silence."""
    contents = journal_of(duplex(2), Clocks(writers=[(1, 0.0)]))
    first, *rest = contents.inputs
    later = [_later(item, 900_000.0, 1000) for item in rest]
    lost = replace(contents, inputs=[first, *later], outputs=())
    assert without_clock_jumps(lost) is lost


def _later(item: JournalEntry[StreamEntry], ms: float, entries: int) -> JournalEntry[StreamEntry]:
    position = item.position._replace(n=item.position.n + entries)
    return replace(
        item,
        position=position,
        entry=structs.replace(item.entry, at=item.entry.at + ms, host_at=item.entry.host_at + ms),
    )


def test_f27_an_outage_of_the_disk_never_ends_before_it_begins() -> None:
    start: JournalEntries = journal_of(duplex(2)).inputs
    after: dict[Side, StreamPosition] = dict.fromkeys(("in", "out"), start[0].position)
    outage = OutageEntry(OutageStart(T0 + 500.0, "No space"), T0 + 900.0 - HOUR_MS, after)
    contents = replace(journal_of(duplex(2)), outages=[outage])
    _, meta, _ = finish(SessionKind.AUDIO_DUPLEX, contents, 3000.0)
    (written,) = meta.degraded
    assert written.resumed_at == written.at
