"""One recording on disk: it survives damage, and its bytes depend on the entries alone."""

import errno
import os
import random
from pathlib import Path

import orjson
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from antiphon.recorder_service.atomic_files import write_atomic
from antiphon.recorder_service.folder import RecordingFolder
from antiphon.recorder_service.journal.journal import (
    NO_MEDIA,
    Journal,
    OutageStart,
    Side,
    read_journal,
    to_journal,
)
from antiphon.recorder_service.journal.state import RecordingJob, SessionEnding
from antiphon.recorder_service.manifest.meta import read_meta
from antiphon.recorder_service.replay.merge import merge
from antiphon.shared_schemas import wav
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.entries import (
    ChunkIn,
    DiagnosticIn,
    ErrorOut,
    PreparedOut,
    PrepareIn,
    StopIn,
    StreamPosition,
)
from antiphon.shared_schemas.recording import RecordingState, ReplayState
from antiphon.shared_schemas.states import EndReason, SessionKind
from support.recorder_conversations import (
    Script,
    assert_same,
    chunk,
    damage,
    keep_going,
    record_in_order,
    record_undisturbed,
    result,
    tree,
)
from support.turn_conversations import T0, chat_talk, half_duplex_talk, numbered

JOB = RecordingJob(sid="adx_1", ticket=7, kind=SessionKind.AUDIO_DUPLEX, recording="ab" * 16)
ENDING = SessionEnding(at=int(T0) + 60_000, reason=EndReason.STOPPED, worker="w1")


def script(units: int) -> Script:
    """A prepared conversation in stream order: input and answer in turn."""
    entries: Script = [
        ("in", StreamPosition(7, 1, 1), PrepareIn(at=T0, system_prompt="p", config=DuplexConfig())),
        ("out", StreamPosition(7, 1, 1), PreparedOut(at=T0 + 50, input_n=1, prompt_length=3)),
    ]
    for i in range(units):
        n, at = i + 2, T0 + 1000 * (i + 1)
        entries.append(("in", StreamPosition(7, 1, n), chunk(i, frames=i % 2, n=80, at=at)))
        answer = result(n, speak=i % 4 >= 2, end_of_turn=i % 4 == 3, at=at + 80.5)
        entries.append(("out", StreamPosition(7, 1 + i // 6, n), answer))
    return entries


def feed(folder: RecordingFolder, entries: Script) -> None:
    for side, position, entry in entries:
        folder.add(side, position, entry)


def finish(root: Path, entries: Script) -> dict[str, bytes]:
    return record_in_order(root, JOB, entries, ENDING)


HALF = RecordingJob(sid="hdx_1", ticket=7, kind=SessionKind.HALF_DUPLEX, recording="ab" * 16)
CHAT = RecordingJob(sid="cht_1", ticket=7, kind=SessionKind.CHAT, recording="cd" * 16)
CASES = [
    pytest.param(JOB, script(10), id="duplex"),
    pytest.param(HALF, numbered(half_duplex_talk(), 7, after=9), id="half_duplex"),
    pytest.param(CHAT, numbered(chat_talk(), 7), id="chat"),
    pytest.param(CHAT, numbered(chat_talk(streamed=False), 7), id="chat_in_one_piece"),
]


@pytest.mark.parametrize(("job", "entries"), CASES)
def test_an_interleaving_of_the_streams_changes_no_byte(
    job: RecordingJob, entries: Script, tmp_path: Path
) -> None:
    expected = record_undisturbed(tmp_path / "a", job, entries, ENDING)
    outputs_first = sorted(entries, key=lambda item: item[0], reverse=True)
    assert_same(record_in_order(tmp_path / "b", job, outputs_first, ENDING), expected)
    assert_same(record_in_order(tmp_path / "c", job, entries, ENDING), expected)
    assert not (tmp_path / "c" / job.recording / ".pieces").exists()


@pytest.fixture
def undisturbed(job: RecordingJob, entries: Script, tmp_path: Path) -> dict[str, bytes]:
    """The files of a recording without a fault."""
    return record_undisturbed(tmp_path / "undisturbed", job, entries, ENDING)


@pytest.mark.parametrize(("job", "entries"), CASES)
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_crash_at_any_byte_changes_no_byte(
    job: RecordingJob,
    entries: Script,
    undisturbed: dict[str, bytes],
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Recorders die one after the other, leave a torn journal, temporary files, missing or empty media."""
    root = tmp_path_factory.mktemp("crash")
    for _ in range(data.draw(st.integers(1, 4), "crashes")):
        folder = RecordingFolder(root / "data", job)
        feed(folder, entries[: data.draw(st.integers(0, len(entries)), "entries read")])
        folder.close()
        damage(folder.path, data)
    assert_same(record_in_order(root / "data", job, entries, ENDING), undisturbed)


@pytest.mark.parametrize(("job", "entries"), CASES)
def test_a_kill_between_the_last_steps_is_repaired(
    job: RecordingJob, entries: Script, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    """After recording.json, before the merge, before the journal is deleted, before the pieces are deleted."""
    folder = RecordingFolder(tmp_path, job)
    feed(folder, entries)
    before = tree(folder.path)
    folder.finish(ENDING)
    folder.close()
    unmerged = tree(folder.path)
    merge(folder.path, keep_going)

    lost = {name: content for name, content in before.items() if name not in tree(folder.path)}
    assert job.kind.is_duplex or any(name.startswith(".pieces/") for name in lost)
    _put_back(folder.path, {**lost, "meta.json": before["meta.json"]})
    assert_same(record_in_order(tmp_path, job, entries, ENDING), undisturbed)

    _put_back(folder.path, unmerged)
    (folder.path / ".merged_replay.wav.0a0b0c0d.tmp").write_bytes(b"half")
    assert RecordingFolder(tmp_path, job).complete
    merge(folder.path, keep_going)
    assert_same(tree(folder.path), undisturbed)

    for left in (lost, {k: v for k, v in lost.items() if k != "timeline.jsonl"}):
        _put_back(folder.path, left | {".meta.json.0a0b0c0d.tmp": b"half"})
        assert RecordingFolder(tmp_path, job).complete
        assert_same(tree(folder.path), undisturbed)


def _put_back(path: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_bytes(content)


def test_concurrent_writers_count_once(tmp_path: Path) -> None:
    """A recorder that does not know of its takeover still writes; the second to finish finds it finished."""
    entries = script(12)
    expected = record_undisturbed(tmp_path / "quiet", JOB, entries, ENDING)
    first, second = RecordingFolder(tmp_path, JOB), RecordingFolder(tmp_path, JOB)
    rng = random.Random(3)
    places = [0, 0]
    while min(places) < len(entries):
        who = rng.randrange(2)
        if places[who] < len(entries):
            (first, second)[who].add(*entries[places[who]])
            places[who] += 1
    assert first.finish(ENDING) is RecordingState.COMPLETE
    assert second.finish(ENDING) is RecordingState.COMPLETE
    for _ in range(2):
        merge(first.path, keep_going)
    with pytest.raises(FileNotFoundError):
        second.finish(ENDING)
    assert RecordingFolder(tmp_path, JOB).complete
    assert_same(tree(first.path), expected)


@pytest.mark.parametrize("failing", ["write_atomic", "truncate"])
def test_no_descriptor_is_left_after_each_try_on_a_full_disk(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An outage of hours repeats the opening every half minute."""
    folder = RecordingFolder(tmp_path, JOB)
    feed(folder, script(3))
    folder.close()
    with (folder.path / "timeline.jsonl").open("ab") as journal:
        journal.write(b"torn")

    def refuse(*_args: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    module = "os" if failing == "truncate" else "antiphon.recorder_service.folder"
    monkeypatch.setattr(f"{module}.{failing}", refuse)
    before = psutil.Process().num_fds()
    for _ in range(3):
        with pytest.raises(OSError, match="No space left"):
            RecordingFolder(tmp_path, JOB)
    assert psutil.Process().num_fds() == before


UNITS = 10


@pytest.mark.parametrize(
    ("resumed", "damaged", "held"),
    [
        (False, "deleted", {"in": 1, "out": 1}),
        (True, "cut", {"in": 1, "out": 1}),
        (True, "deleted", {"in": 9, "out": 9}),
        (True, "cut", {"in": 99, "out": 99}),
    ],
)
def test_a_lost_file_costs_its_sound_and_nothing_after_it(
    resumed: bool, damaged: str, held: dict[Side, float], tmp_path: Path
) -> None:
    """A recorder that opens the folder again restores it if the streams hold all entries since."""
    entries = script(UNITS)
    expected = record_undisturbed(tmp_path / "quiet", JOB, entries, ENDING)
    folder = RecordingFolder(tmp_path, JOB)
    feed(folder, entries)
    lost = "user_audio/003.wav"
    (folder.path / lost).unlink()
    if damaged == "cut":
        (folder.path / lost).write_bytes(b"RIFF")
    if resumed:
        folder.close()
        folder = RecordingFolder(tmp_path, JOB, held_from=held)
        still_held = [item for item in entries if item[1].n >= held[item[0]]]
        feed(folder, still_held)
    with capture_logs() as logs:
        assert folder.finish(ENDING) is RecordingState.COMPLETE
    merge(folder.path, keep_going)
    if resumed and held["in"] == 1:
        assert_same(tree(folder.path), expected)
        return
    (line,) = logs
    assert line["event"] == "recording_file_lost"
    assert (line["log_level"], line["files"], line["first"]) == ("error", 1, lost)
    recorded = orjson.loads((folder.path / "recording.json").read_bytes())
    assert len(recorded["chunks"]) == UNITS
    chunk = recorded["chunks"][3]
    assert chunk["unreadable"] == "the file was deleted or changed"
    assert "user_audio" not in chunk
    assert not recorded.get("missing")
    kept = {name: content for name, content in expected.items() if name.endswith((".wav", ".jpg"))}
    for name, content in kept.items():
        if name not in (lost, "merged_replay.wav"):
            assert (folder.path / name).read_bytes() == content


@pytest.mark.parametrize(("job", "entries"), CASES)
def test_a_recording_without_its_media_still_has_its_words(
    job: RecordingJob, entries: Script, tmp_path: Path
) -> None:
    folder = RecordingFolder(tmp_path, job)
    feed(folder, entries)
    for path in [*folder.path.glob("*/*.*"), *folder.path.glob("*.wav")]:
        path.unlink()
    assert folder.finish(ENDING) is RecordingState.COMPLETE
    merge(folder.path, keep_going)
    meta = read_meta(folder.path)
    assert meta is not None
    assert not meta.is_busy
    recorded = (folder.path / "recording.json").read_text()
    assert "the file was deleted or changed" in recorded


def test_a_journal_that_lost_lines_is_not_trusted(tmp_path: Path) -> None:
    """The recorder reads the streams again."""
    entries = script(6)
    expected = record_undisturbed(tmp_path / "quiet", JOB, entries, ENDING)
    folder = RecordingFolder(tmp_path, JOB)
    feed(folder, entries)
    journal = folder.path / "timeline.jsonl"
    os.truncate(journal, journal.stat().st_size // 2)
    with pytest.raises(OSError, match="has lost lines"):
        folder.finish(ENDING)
    folder.close()
    assert journal.exists()
    assert_same(finish(tmp_path, entries), expected)


def test_a_session_without_entries_leaves_nothing(tmp_path: Path) -> None:
    folder = RecordingFolder(tmp_path, JOB)
    assert not folder.begun
    assert folder.finish(ENDING) is None
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_closed_begins_nothing(tmp_path: Path) -> None:
    """A thread may hold an entry of a recorder that another one has replaced."""
    folder = RecordingFolder(tmp_path, JOB)
    folder.close()
    with pytest.raises(OSError, match="is closed"):
        folder.add(*script(1)[0])
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_end_is_interrupted(tmp_path: Path) -> None:
    folder = RecordingFolder(tmp_path, JOB)
    feed(folder, script(3))
    assert folder.finish(SessionEnding()) is RecordingState.INTERRUPTED
    meta = read_meta(folder.path)
    assert meta is not None
    assert meta.reason is None
    assert meta.duration_s == pytest.approx(3.080, abs=0.001)


def test_gaps_are_listed(tmp_path: Path) -> None:
    entries = [
        (side, position, entry)
        for side, position, entry in script(8)
        if not (side == "in" and position.n in (3, 4, 6))
        and not (side == "out" and position.n == 5)
    ]
    folder = RecordingFolder(tmp_path, JOB)
    feed(folder, entries)
    assert folder.finish(ENDING) is RecordingState.INTERRUPTED
    meta = read_meta(folder.path)
    assert meta is not None
    gaps = [(gap.stream, gap.first, gap.last) for gap in meta.missing]
    assert gaps == [("in", 3, 4), ("in", 6, 6), ("out", 5, 5)]


def test_unreadable_audio_is_logged_and_recording_continues(tmp_path: Path) -> None:
    entries = script(2)
    broken = ChunkIn(at=T0 + 9000, audio=b"\x00\x00\xc0\x7f")  # NaN
    entries.append(("in", StreamPosition(7, 1, 4), broken))
    entries.append(("in", StreamPosition(7, 1, 5), chunk(4, n=80, at=T0 + 9900)))
    files = finish(tmp_path, entries)
    chunks = orjson.loads(files["recording.json"])["chunks"]
    assert chunks[2]["unreadable"] == "audio holds NaN or infinite samples"
    assert "user_audio" not in chunks[2]
    assert chunks[3]["user_audio"] == "user_audio/003.wav"


def test_outages_are_noted_once_and_only_in_meta(tmp_path: Path) -> None:
    entries = script(4)
    expected = record_undisturbed(tmp_path / "quiet", JOB, entries, ENDING)
    outage = OutageStart(T0 + 1, "No space left on device")
    for end in (3, 6, 9):
        folder = RecordingFolder(tmp_path, JOB, outages=[outage])
        feed(folder, entries[:end])
        folder.close()
    assert len(read_journal(folder.path / "timeline.jsonl").outages) == 1
    files = finish(tmp_path, entries)
    meta = read_meta(folder.path)
    assert meta is not None
    assert [outage.error for outage in meta.degraded] == ["No space left on device"]
    assert meta.state is RecordingState.COMPLETE
    assert_same({**files, "meta.json": b""}, {**expected, "meta.json": b""})


def test_a_full_disk_leaves_no_partial_file(tmp_path: Path) -> None:
    """/dev/full cannot be renamed over, so a limit on file sizes simulates the full disk."""
    import resource
    import signal

    long = DiagnosticIn(metrics={"text": "y" * 200})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    journal = Journal(tmp_path / "timeline.jsonl")
    journal.append(to_journal("in", StreamPosition(7, 1, 1), StopIn(at=1.0), NO_MEDIA))
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
        with pytest.raises(OSError, match="too large") as caught:
            write_atomic(tmp_path / "a.wav", b"x" * 200)
        assert caught.value.errno == errno.EFBIG
        with pytest.raises(OSError, match="space left"):
            journal.append(to_journal("in", StreamPosition(7, 1, 2), long, NO_MEDIA))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
        journal.close()
    assert [path.name for path in tmp_path.iterdir()] == ["timeline.jsonl"]
    contents = read_journal(tmp_path / "timeline.jsonl")
    assert len(contents.inputs) == 1
    Journal.resume(tmp_path / "timeline.jsonl", contents.size).close()
    assert (tmp_path / "timeline.jsonl").stat().st_size == contents.size


def test_skipped_input_is_marked_even_if_the_next_step_failed(tmp_path: Path) -> None:
    entries = [e for e in script(6) if not (e[0] == "out" and e[1].n > 2)]
    error = ErrorOut(at=T0 + 9000, input_n=5, skipped=(3, 4), code="inference_error", message="no")
    late = result(7, skipped=(6,), at=T0 + 9500)
    entries += [("out", StreamPosition(7, 1, 3), error), ("out", StreamPosition(7, 1, 4), late)]
    chunks = orjson.loads(finish(tmp_path, entries)["recording.json"])["chunks"]
    assert [chunk.get("skipped") for chunk in chunks] == [None, True, True, None, True, None]


def test_audio_too_long_for_a_wav_is_logged_and_the_recording_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real limit is more than eleven hours; here one second is too long."""
    monkeypatch.setattr(wav, "_MAX_DATA_BYTES", 5000)
    files = finish(tmp_path, script(4))
    meta = read_meta(tmp_path / JOB.recording)
    assert meta is not None
    assert (meta.state, meta.replay) == (RecordingState.COMPLETE, ReplayState.FAILED)
    assert "more than a WAV can hold" in (meta.replay_error or "")
    assert not any(name.startswith("merged") or name == "timeline.jsonl" for name in files)
