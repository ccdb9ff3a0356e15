"""What a recording leaves out: diagnostics above their limit, and entries of a full journal."""

from pathlib import Path

import orjson
import pytest
from msgspec.structs import replace

from antiphon.recorder_service.folder import RecordingFolder
from antiphon.recorder_service.journal import state
from antiphon.recorder_service.journal.state import MAX_DIAGNOSTIC_BYTES, SessionEnding
from antiphon.shared_schemas.entries import DiagnosticIn, Entry, PlaybackIn, StreamPosition
from antiphon.shared_schemas.recording import RecordingState
from support.recorder_conversations import chunk, record_in_order, record_undisturbed, result
from support.timed_conversations import T0, TICKET, Recorded, TimedTalk

LARGE = DiagnosticIn(metrics={"text": "x" * 60_000})
ENDING = SessionEnding(at=round(T0 + 9_000_000))


def flood(seconds: int, per_second: int, entry: Entry) -> TimedTalk:
    talk = TimedTalk.prepared()
    for second in range(1, seconds + 1):
        n = talk.into(second, chunk(second))
        talk.out(second + 0.1, result(n))
        for place in range(per_second):
            talk.into(second + 0.2 + place / 1000, entry)
    return talk


def recorded(root: Path, talk: TimedTalk) -> Recorded:
    record_in_order(root, talk.job, talk.script, ENDING)
    return Recorded(root / talk.job.recording)


def test_diagnostics_are_limited_per_second_and_per_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 250_000
    monkeypatch.setattr(state, "MAX_DIAGNOSTIC_BYTES", limit)
    found = recorded(tmp_path, flood(60, 1, LARGE))
    kept = len(found.recording.diagnostics)  # type: ignore[union-attr]
    assert limit * 0.9 < kept * 60_000 <= limit
    assert found.recording.diagnostics_left_out == 60 - kept  # type: ignore[union-attr]
    assert (found.meta.state, found.meta.missing) == (RecordingState.COMPLETE, [])
    early = recorded(tmp_path / "early", flood(2, 50, LARGE))
    assert len(early.recording.diagnostics) == 2  # type: ignore[union-attr]


def test_usual_diagnostics_are_all_kept(tmp_path: Path) -> None:
    found = recorded(tmp_path, flood(50, 1, DiagnosticIn(metrics={"rtt_ms": 20, "lag": 0.5})))
    assert len(found.recording.diagnostics) == 50  # type: ignore[union-attr]
    assert found.recording.diagnostics_left_out is None  # type: ignore[union-attr]


def test_a_recorder_that_takes_over_leaves_out_the_same(tmp_path: Path) -> None:
    talk = flood(10, 10, LARGE)
    expected = record_undisturbed(tmp_path / "quiet", talk.job, talk.script, ENDING)
    for killed_after in (1, 60, 119):
        root = tmp_path / f"{killed_after}"
        first = RecordingFolder(root, talk.job)
        for side, position, entry in talk.script[:killed_after]:
            first.add(side, position, entry)
        first.close()
        assert record_in_order(root, talk.job, talk.script, ENDING) == expected


def test_the_journal_names_a_run_of_entries_in_one_line(tmp_path: Path) -> None:
    talk = flood(3, 40, LARGE)
    folder = RecordingFolder(tmp_path, talk.job)
    for side, position, entry in talk.script:
        folder.add(side, position, entry)
    assert folder.position("in") == StreamPosition(TICKET, 1, 1 + 3 * 41)
    lines = (folder.path / "timeline.jsonl").read_bytes().splitlines()
    folder.close()
    notes = [line for line in map(orjson.loads, lines) if line["stream"] == "note"]
    assert [(note["first"], note["why"]) for note in notes] == [
        (5, "diagnostics"),
        (44, "diagnostics"),
    ]


def test_events_are_limited_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "MAX_EVENTS", 30)
    talk = flood(10, 10, PlaybackIn(played_ms=20.0))
    found = recorded(tmp_path, talk)
    assert len([event for event in found.recording.events if event.type == "playback"]) == 30
    assert found.recording.events_left_out == 70
    assert len(found.recording.chunks) == 10  # type: ignore[union-attr]
    assert (found.meta.state, found.meta.missing) == (RecordingState.COMPLETE, [])
    expected = record_undisturbed(tmp_path / "quiet", talk.job, talk.script, ENDING)
    assert record_in_order(tmp_path / "again", talk.job, talk.script, ENDING) == expected


def test_a_full_journal_ends_the_recording_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "MAX_JOURNAL_BYTES", 13_500)
    talk = flood(20, 20, PlaybackIn(played_ms=20.0))
    found = recorded(tmp_path, talk)
    assert found.meta.state is RecordingState.INTERRUPTED
    (gap,) = found.meta.missing
    assert gap.stream == "in"
    assert gap.last == max(position.n for side, position, _ in talk.script if side == "in")
    assert "MiB of entries" in gap.why
    assert 0 < len(found.recording.chunks) < 20  # type: ignore[union-attr]


def test_a_jump_of_the_clock_does_not_raise_the_limit_of_a_session(tmp_path: Path) -> None:
    talk = flood(5, 8, LARGE)
    talk.script = [
        (side, position, replace(entry, at=entry.at + 600_000 * (position.n > 3)))
        for side, position, entry in talk.script
    ]
    found = recorded(tmp_path, talk)
    kept = len(found.recording.diagnostics)  # type: ignore[union-attr]
    assert kept * 60_000 <= MAX_DIAGNOSTIC_BYTES
