"""`antiphon up` on a disk that fills up: conversations continue, and recordings resume later."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

from support.fork_server import run_antiphon
from support.ports import free_port
from support.processes import without_settings

pytestmark = pytest.mark.extended

ROOT = Path(__file__).parents[3]
QUESTION = ROOT / "antiphon" / "cli" / "assets" / "question.wav"
RESERVE_GB = 0.008


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 MiB. Only root can mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64m,mode=0700", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"cannot mount a disk: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def wait_for(condition: Callable[[], bool], what: str) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise TimeoutError(what)


def test_a_full_disk_stops_no_conversation(small_disk: Path, tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "up.log"
    kept = without_settings()
    settings = {
        "ANTIPHON_DATA_DIR": str(small_disk),
        "ANTIPHON_MIN_FREE_DISK_GB": str(RESERVE_GB),
        "ANTIPHON_MAX_STORAGE_GB": "-1",
        "ANTIPHON_ENGINE_OPTIONS": '{"cycle_units": 4}',  # short answers
    }
    environment = kept | settings | {"PYTHONPATH": str(ROOT), "NO_COLOR": "1", "COLUMNS": "300"}

    def talk(number: int) -> str:
        args = ("talk", str(QUESTION), "--url", f"ws://127.0.0.1:{port}", "--out", f"{number}.wav")
        done = run_antiphon(*args, folder=tmp_path, environment=environment)
        assert done.returncode == 0, f"{done.stdout}{done.stderr}{log.read_text()[-3000:]}"
        return done.stdout

    def complete() -> int:
        metas = [
            orjson.loads(file.read_bytes()) for file in small_disk.glob("sessions/[!.]*/meta.json")
        ]
        return sum(meta["state"] == "complete" for meta in metas)

    def wait_full(condition: Callable[[], bool], what: str) -> None:
        """The services remove files that they cannot finish: their bytes are taken too."""

        def condition_on_full_disk() -> bool:
            fill(ballast)
            return condition()

        wait_for(condition_on_full_disk, what)

    ballast = small_disk / "ballast"
    command = [sys.executable, "-m", "antiphon", "up", "--engine", "simulated"]
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [*command, "--port", str(port), "--health-port", "0"],
            cwd=tmp_path,
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        ) as up,
    ):
        try:
            wait_for(lambda: "Stop it:" in log.read_text(), "the stack starts")
            talk(1)
            wait_for(lambda: complete() == 1, "the first conversation is recorded")
            wait_full(lambda: "the disk is full" in log.read_text(), "Redis meets the full disk")
            talk(2)
            wait_full(lambda: "recording_degraded" in log.read_text(), "the recorder waits")
            ballast.unlink()
            wait_for(lambda: "the disk has space again" in log.read_text(), "Redis writes again")
            talk(3)
            wait_for(lambda: complete() == 3, "the second conversation is recorded late")
            assert "Traceback" not in log.read_text()
        finally:
            up.terminate()
            up.wait(60)
    assert up.returncode == 0


def fill(ballast: Path) -> None:
    """Write until the disk takes no more byte."""
    with ballast.open("ab", buffering=0) as file:
        for size in (1024 * 1024, 4096, 1):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                continue
