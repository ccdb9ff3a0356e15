"""Sweeps over real directories: deletion, dry run, the lock, and files that vanish during a sweep."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from antiphon.broker.service.disk import GIB, TRASH, discard
from antiphon.cleanup_job import service as cleanup_service
from antiphon.cleanup_job import sweep as cleanup_sweep
from antiphon.cleanup_job.report import Rule, SweepReport, SweepStatus
from antiphon.cleanup_job.service import run_loop
from antiphon.cleanup_job.settings import CleanupSettings
from antiphon.cleanup_job.sweep import (
    DAY_S,
    LOCK_FILE,
    UPLOADS,
    examine,
    sweep,
    sweep_lock,
    trashed_folders,
)
from antiphon.shared_schemas.ids import is_recording_id
from antiphon.shared_schemas.recording import (
    USED_FILE,
    Meta,
    RecordingState,
    ReplayState,
    encode_meta,
)
from antiphon.shared_schemas.states import SessionKind
from support.fork_server import fork_server, run_antiphon
from support.redis_server import wait_until
from support.stack import until

NO_REDIS = "redis://127.0.0.1:1/0"


def environment(data: Path) -> dict[str, str]:
    own = {"DATA_DIR": str(data), "REDIS_URL": NO_REDIS, "CLEANUP_HEALTH_PORT": "0"}
    return {**os.environ, **{f"ANTIPHON_{name}": value for name, value in own.items()}}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "sessions").mkdir()
    return tmp_path


def recording_id(name: str) -> str:
    """The id of the recording that a test calls by this name."""
    return name.encode().hex().ljust(32, "0")


def name_of(folder: str) -> str:
    """The name of a recording in its test; that of any other folder is unchanged."""
    return bytes.fromhex(folder).decode().rstrip("\0") if is_recording_id(folder) else folder


def make(
    data: Path,
    name: str,
    *,
    age_days: float = 0,
    unused_days: float | None = None,
    size: int = 1000,
    state: RecordingState = RecordingState.COMPLETE,
    replay: ReplayState | None = None,
) -> Path:
    """A session directory of about `size` bytes whose files are `unused_days` old."""
    folder = data / "sessions" / recording_id(name)
    (folder / "user_audio").mkdir(parents=True)
    (folder / "user_audio" / "000.wav").write_bytes(b"x" * size)
    meta = Meta(
        session_id="adx_1",
        recording_id=folder.name,
        ticket=1,
        app_type=SessionKind.AUDIO_DUPLEX,
        state=state,
        replay=replay,
        created_at=datetime.fromtimestamp(time.time() - age_days * DAY_S, UTC),
        config={},
    )
    (folder / "meta.json").write_bytes(encode_meta(meta))
    (folder / "recording.json").write_text("{}")
    unused = age_days if unused_days is None else unused_days
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (time.time() - unused * DAY_S,) * 2)
    return folder


def left(data: Path) -> list[str]:
    return sorted(name_of(p.name) for p in (data / "sessions").iterdir() if p.name != TRASH)


def settings(data: Path, **more: float) -> CleanupSettings:
    return CleanupSettings(data_dir=data, redis_url=NO_REDIS, **more)


def swept(settings: CleanupSettings) -> SweepReport:
    return sweep(settings, threading.Event())


def removed(report: SweepReport) -> list[tuple[str, Rule]]:
    return [(name_of(removal.session), removal.rule) for removal in report.removed]


def test_old_recordings_are_deleted_and_the_report_has_the_reason(data: Path) -> None:
    make(data, "old", age_days=31)
    make(data, "young", age_days=29)
    report = swept(settings(data))
    assert left(data) == ["young"]
    assert removed(report) == [("old", Rule.AGE)]
    assert (report.status, report.scanned, report.remaining) == (SweepStatus.DONE, 2, 1)
    assert report.freed_bytes > 1000
    assert report.failed == []
    assert list((data / "sessions" / TRASH).iterdir()) == []
    assert json.loads(report.model_dump_json())["removed"][0]["rule"] == "age"


def test_above_the_limit_the_least_recently_used_are_deleted(data: Path) -> None:
    for name, unused in (("a", 3), ("b", 5), ("c", 1), ("d", 4)):
        make(data, name, unused_days=unused, size=100_000)
    report = swept(settings(data, max_storage_gb=250_000 / GIB))
    assert removed(report) == [("b", Rule.SIZE), ("d", Rule.SIZE)]
    assert left(data) == ["a", "c"]
    assert report.remaining_bytes < 250_000


def test_reading_counts_as_use(data: Path) -> None:
    make(data, "a", unused_days=3, size=100_000)
    make(data, "b", unused_days=5, size=100_000)
    (data / "sessions" / recording_id("b") / USED_FILE).touch()
    assert removed(swept(settings(data, max_storage_gb=150_000 / GIB))) == [("a", Rule.SIZE)]


def test_a_dry_run_deletes_nothing(data: Path) -> None:
    make(data, "old", age_days=31)
    (data / "sessions" / TRASH / "x").mkdir(parents=True)
    report = swept(settings(data, dry_run=True))
    assert removed(report) == [("old", Rule.AGE)]
    assert report.dry_run
    assert left(data) == ["old"]
    assert (data / "sessions" / TRASH / "x").exists()


def test_a_live_session_is_kept_until_it_is_abandoned(data: Path) -> None:
    make(data, "live", age_days=40, unused_days=0.5, state=RecordingState.RECORDING)
    make(data, "given-up", age_days=40, unused_days=2, state=RecordingState.RECORDING)
    report = swept(settings(data, max_storage_gb=0))
    assert left(data) == ["live"]
    assert report.live == 1


@pytest.mark.parametrize("replay", [ReplayState.MERGING, ReplayState.READY, ReplayState.FAILED])
def test_a_recording_that_is_being_merged_is_kept(data: Path, replay: ReplayState) -> None:
    make(data, "one", age_days=40, unused_days=0.5, replay=replay)
    report = swept(settings(data, max_storage_gb=0))
    assert left(data) == (["one"] if replay is ReplayState.MERGING else [])
    assert report.live == (replay is ReplayState.MERGING)


def test_a_running_session_is_kept_even_if_it_is_silent(data: Path) -> None:
    for name in ("silent", "other"):
        make(data, name, age_days=40, unused_days=3, state=RecordingState.RECORDING)
    report = sweep(settings(data, max_storage_gb=0), threading.Event(), {recording_id("silent")})
    assert left(data) == ["silent"]
    assert (report.live, removed(report)) == (1, [("other", Rule.AGE)])


def test_reading_does_not_keep_an_abandoned_recording(data: Path) -> None:
    folder = make(data, "given-up", age_days=40, unused_days=2, state=RecordingState.RECORDING)
    written = folder.stat().st_mtime
    (folder / USED_FILE).touch()
    os.utime(folder, (written, written))
    assert removed(swept(settings(data))) == [("given-up", Rule.AGE)]


def test_leftovers_of_an_upload_are_removed(data: Path) -> None:
    uploads = data / "sessions" / UPLOADS
    uploads.mkdir()
    for name, age in (("old.part", 25), ("new.part", 1)):
        (uploads / name).write_bytes(b"x")
        os.utime(uploads / name, (time.time() - age * 3600,) * 2)
    assert swept(settings(data, dry_run=True)).leftovers == 0
    assert swept(settings(data)).leftovers == 1
    assert [path.name for path in uploads.iterdir()] == ["new.part"]


def test_a_chunk_just_written_keeps_a_session_alive(data: Path) -> None:
    folder = make(data, "live", age_days=40, unused_days=2, state=RecordingState.RECORDING)
    (folder / "user_audio" / "001.wav").write_bytes(b"new")
    assert removed(swept(settings(data))) == []


def test_a_recording_without_meta_counts_as_live(data: Path) -> None:
    (make(data, "making", unused_days=0.1) / "meta.json").unlink()
    broken = make(data, "broken", unused_days=40)
    (broken / "meta.json").write_text("{")
    for path in (broken / "meta.json", broken):
        os.utime(path, (time.time() - 40 * DAY_S,) * 2)
    report = swept(settings(data, max_storage_gb=-1))
    assert left(data) == ["making"]
    assert removed(report) == [("broken", Rule.AGE)]


def test_other_files_in_the_folder_are_kept(data: Path) -> None:
    old = make(data, "old", age_days=31)
    elsewhere = data / "elsewhere"
    old.rename(elsewhere)
    (data / "sessions" / "link").symlink_to(elsewhere)
    (data / "sessions" / "note.txt").write_text("hello")
    report = swept(settings(data, max_storage_gb=0))
    assert report.scanned == 0
    assert left(data) == ["link", "note.txt"]
    assert (elsewhere / "meta.json").exists()


@pytest.mark.parametrize("name", ["keep", "lost+found", "notes of 2025", "{recording}.bak"])
def test_a_folder_that_is_no_recording_is_kept(data: Path, name: str) -> None:
    """It may hold recordings that the operator protects from the rules."""
    recording = make(data, "old", age_days=400)
    folder = data / "sessions" / name.format(recording=recording.name)
    folder.mkdir()
    recording.rename(folder / recording.name)
    os.utime(folder, (0, 0))
    report = swept(settings(data, max_storage_gb=0))
    assert (report.scanned, left(data)) == (0, [folder.name])
    assert (folder / recording.name / "meta.json").exists()


def test_a_link_inside_a_session_is_not_followed(data: Path) -> None:
    external = data / "precious"
    external.mkdir()
    (external / "file").write_bytes(b"y" * 50_000)
    (make(data, "old", age_days=31) / "user_audio" / "out").symlink_to(external)
    report = swept(settings(data))
    assert report.freed_bytes < 50_000
    assert (external / "file").exists()


def test_both_rules_off_does_nothing(data: Path) -> None:
    make(data, "old", age_days=1000)
    report = swept(settings(data, retention_days=-1, max_storage_gb=-1))
    assert report.status is SweepStatus.DISABLED
    assert left(data) == ["old"]


def test_a_missing_data_directory_is_no_error(tmp_path: Path) -> None:
    report = swept(settings(tmp_path / "new"))
    assert (report.status, report.scanned) == (SweepStatus.DONE, 0)


def test_two_sweeps_never_run_at_once(data: Path) -> None:
    make(data, "old", age_days=31)
    with sweep_lock(data) as mine:
        assert mine
        assert swept(settings(data)).status is SweepStatus.BUSY
        assert left(data) == ["old"]
    assert swept(settings(data)).status is SweepStatus.DONE
    assert left(data) == []


def test_the_lock_of_a_killed_sweep_is_free(data: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from cleanup_job.sweep import sweep_lock\n"
        "with sweep_lock(Path(sys.argv[1])) as mine: print(mine, flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, data], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"True\n"
    assert swept(settings(data)).status is SweepStatus.BUSY
    child.kill()
    child.communicate()
    assert (data / LOCK_FILE).exists()
    assert swept(settings(data)).status is SweepStatus.DONE


def test_leftovers_of_an_interrupted_sweep_are_removed(data: Path) -> None:
    make(data, "old", age_days=31).rename(data / "sessions" / "x")
    (data / "sessions" / TRASH).mkdir()
    (data / "sessions" / "x").rename(data / "sessions" / TRASH / "x.1234")
    report = swept(settings(data))
    assert report.leftovers == 1
    assert report.scanned == 0
    assert trashed_folders(data / "sessions") == []


@pytest.mark.parametrize("dry_run", [False, True])
def test_the_space_of_leftovers_is_not_freed_twice(
    data: Path, monkeypatch: pytest.MonkeyPatch, dry_run: bool
) -> None:
    sessions = data / "sessions"
    for name, unused in (("rarely", 2), ("often", 1)):
        make(data, name, unused_days=unused, size=60_000)
    (sessions / TRASH).mkdir()
    make(data, "trashed", size=50_000).rename(sessions / TRASH / "trashed.1234")
    (sessions / UPLOADS).mkdir()
    (sessions / UPLOADS / "old.part").write_bytes(b"x" * 20_000)
    os.utime(sessions / UPLOADS / "old.part", (0, 0))

    def used() -> int:
        return sum(path.stat().st_size for path in sessions.rglob("*") if path.is_file())

    disk = used() + 1.25 * GIB - 60_000
    monkeypatch.setattr(cleanup_sweep, "free_bytes", lambda _folder: int(disk - used()))
    report = swept(settings(data, min_free_disk_gb=1.0, dry_run=dry_run))
    assert removed(report) == []


def test_what_cannot_be_deleted_keeps_no_other_leftovers(data: Path) -> None:
    trash, uploads = data / "sessions" / TRASH, data / "sessions" / UPLOADS
    for name in "bdf":
        (trash / name).mkdir(parents=True)
        (uploads / f"{name}.part").mkdir(parents=True)
        os.utime(uploads / f"{name}.part", (0, 0))
    for name in "aceg":
        (trash / name).write_bytes(b"")
        (uploads / f"{name}.part").write_bytes(b"")
        os.utime(uploads / f"{name}.part", (0, 0))
    report = swept(settings(data))
    assert sorted(failure.session for failure in report.failed) == [
        *(f"{TRASH}/{name}" for name in "aceg"),
        *(f"{UPLOADS}/{name}.part" for name in "bdf"),
    ]
    assert report.leftovers == 7
    assert sorted(path.name for path in trash.iterdir()) == list("aceg")
    assert [path.name for path in uploads.iterdir() if path.is_file()] == []


def test_a_session_that_vanished_is_no_failure(data: Path) -> None:
    folder = make(data, "gone")
    assert discard(folder)
    assert not discard(folder)
    assert examine(folder) is None


def test_files_vanish_during_the_sweep(data: Path) -> None:
    """Another process deletes the same directories while two sweeps run over them."""
    for i in range(60):
        make(data, f"s{i:02d}", age_days=31, size=10)
    stop = threading.Event()

    def deleter() -> None:
        while not stop.is_set():
            with contextlib.suppress(FileNotFoundError):  # the sweep is faster
                for path in (data / "sessions").rglob("*.wav"):
                    path.unlink(missing_ok=True)

    thread = threading.Thread(target=deleter)
    thread.start()
    try:
        report = swept(settings(data))
    finally:
        stop.set()
        thread.join()
    assert report.failed == []
    assert len(report.removed) == 60
    assert left(data) == []


def test_a_failed_deletion_does_not_stop_the_others(data: Path) -> None:
    make(data, "a", age_days=33)
    make(data, "b", age_days=32)
    (data / "sessions" / TRASH).write_bytes(b"")  # a file where the trash must be
    report = swept(settings(data))
    assert [name_of(failure.session) for failure in report.failed] == [TRASH, "a", "b"]
    assert report.removed == []
    assert report.remaining == 2


def test_a_stopped_sweep_deletes_no_more(data: Path) -> None:
    make(data, "old", age_days=31)
    halt = threading.Event()
    halt.set()
    report = sweep(settings(data), halt)
    assert report.status is SweepStatus.STOPPED
    assert left(data) == ["old"]


async def test_the_loop_repeats_the_sweep_and_stops_on_request(data: Path) -> None:
    stop = asyncio.Event()
    loop = asyncio.create_task(run_loop(settings(data, interval_s=0.02), stop))
    for i in range(3):
        make(data, f"old{i}", age_days=31)
        await until(lambda: not left(data))
    stop.set()
    async with asyncio.timeout(60):
        await loop


async def test_the_loop_sweeps_when_the_disk_loses_space(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rule of size then frees the reserve and a quarter of it, before the interval is over."""
    free = 10.0 * GIB
    for module in (cleanup_service, cleanup_sweep):
        monkeypatch.setattr(module, "free_bytes", lambda _folder: int(free))
    make(data, "rarely", unused_days=2, size=60_000)
    make(data, "often", unused_days=1, size=60_000)
    stop = asyncio.Event()
    chosen = settings(data, min_free_disk_gb=1.0, disk_check_s=0.02)
    loop = asyncio.create_task(run_loop(chosen, stop))
    await asyncio.sleep(0.1)
    assert left(data) == ["often", "rarely"]
    free = 1.25 * GIB - 50_000
    await until(lambda: left(data) == ["often"])
    free = 1.25 * GIB
    await asyncio.sleep(0.1)
    stop.set()
    async with asyncio.timeout(60):
        await loop
    assert left(data) == ["often"]


def test_space_is_not_freed_by_size_if_that_rule_is_off(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup_sweep, "free_bytes", lambda _folder: 0)
    make(data, "kept", unused_days=2)
    swept(settings(data, max_storage_gb=-1))
    assert left(data) == ["kept"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_process_ends_promptly_on_a_signal(data: Path, number: signal.Signals) -> None:
    make(data, "old", age_days=31)
    log = data / "log"
    child = fork_server().start(
        "antiphon.cleanup_job.__main__", folder=data, environment=environment(data), output=log
    )

    def waits_for_a_day() -> bool:
        assert child.poll() is None
        return log.exists() and '"cleanup_swept"' in log.read_text()

    wait_until(waits_for_a_day, within_s=60)
    child.send_signal(number)
    assert child.wait(timeout=60) == 0
    assert left(data) == []


def test_one_shot_and_dry_run_from_the_command_line(data: Path) -> None:
    make(data, "old", age_days=31)
    env = environment(data)
    for flag, rest in (("--dry-run", ["old"]), ("--once", [])):
        done = run_antiphon("cleanup", flag, folder=data, environment=env)
        assert done.returncode == 0, done.stderr
        report = SweepReport.model_validate_json(done.stdout)
        assert removed(report) == [("old", Rule.AGE)]
        assert left(data) == rest


def test_settings_come_from_the_environment_and_flags_override_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTIPHON_RETENTION_DAYS", "7")
    monkeypatch.setenv("ANTIPHON_MAX_STORAGE_GB", "-1")
    assert CleanupSettings().retention_days == 7
    assert CleanupSettings(retention_days=3).retention_days == 3
    assert CleanupSettings().max_storage_gb == -1
    with pytest.raises(ValueError, match="--retention-days: must be at least -1"):
        CleanupSettings(retention_days=-2)
