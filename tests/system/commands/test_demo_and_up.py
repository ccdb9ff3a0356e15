"""The commands that a new user runs: `antiphon demo`, `antiphon up` and `antiphon talk`."""

import asyncio
import os
import queue
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import orjson
import psutil
import pytest
import soundfile

from support.fault_stack import Talker
from support.fork_server import run_antiphon
from support.ports import free_port
from support.processes import all_end, without_settings
from support.raw_client import open_wire

QUESTION = Path(__file__).parents[3] / "antiphon" / "cli" / "assets" / "question.wav"
STOPPED_IN_ORDER = ("edge_stopped", "worker_stopped", "recorder_stopped", "everything has stopped")


def environment() -> dict[str, str]:
    kept = without_settings()
    return kept | {"NO_COLOR": "1", "COLUMNS": "200", "PYTHONUNBUFFERED": "1"}


def antiphon(*args: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs the command in a new interpreter; its output includes errors."""
    return subprocess.run(
        [sys.executable, "-m", "antiphon", *args],
        cwd=cwd,
        env=environment() | {"PYTHONPATH": str(QUESTION.parents[3])} | env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=400,
    )


def quick(*args: str, cwd: Path, **env: str) -> str:
    """Output and errors of a command that starts no services."""
    done = run_antiphon(*args, folder=cwd, environment=environment() | env)
    return f"{done.stdout}{done.stderr}exit status {done.returncode}"


class Up:
    """A running `antiphon up` in a separate process group, as a terminal makes one."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.output: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with suppress(ValueError):  # the test has ended and closed the file
            for line in self.process.stdout:
                self._lines.put(line)
        self._lines.put(None)

    def until(self, part: str) -> str:
        """The next line that contains `part`."""
        while (line := self._lines.get(timeout=60)) is not None:
            self.output.append(line)
            if part in line:
                return line
        raise AssertionError(f"{part!r} never came; output:\n{''.join(self.output)}")

    def rest(self) -> str:
        while (line := self._lines.get(timeout=60)) is not None:
            self.output.append(line)
        return "".join(self.output)

    def family(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def child(self, name: str) -> psutil.Process:
        [found] = [one for one in self.family() if name in " ".join(one.cmdline())]
        return found


@contextmanager
def running_up(folder: Path, port: int, **env: str) -> Iterator[Up]:
    """Runs in a folder with files that have the names of modules."""
    for module in ("broker", "edge", "client", "orjson", "redis"):
        (folder.parent / f"{module}.py").write_text("raise SystemExit('the wrong module')\n")
    command = [sys.executable, "-P", "-m", "antiphon", "up", "--engine", "simulated"]
    with subprocess.Popen(
        [*command, "--port", str(port), "--health-port", "0", "--data-dir", str(folder)],
        cwd=folder.parent,
        env=environment() | {"PYTHONPATH": str(QUESTION.parents[3])} | env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        up = Up(process)
        try:
            up.until("Ctrl-C")
            yield up
        finally:
            if process.poll() is None:
                process.kill()


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.extended
@pytest.mark.speech
def test_demo_asks_two_questions_and_shows_the_answers(tmp_path: Path) -> None:
    shown = antiphon("demo", "--data-dir", "d", cwd=tmp_path)
    assert shown.returncode == 0, shown.stdout
    units = re.findall(
        r"^ +(\d+\.\d) s  (listening|speaking) +(\d+) ms(.*)$", shown.stdout, re.MULTILINE
    )
    steps = np.diff([0.0, *(float(second) for second, *_ in units)])
    assert all(0.1 < step < 1.1 for step in steps), "a second or less on a line"
    doing = [what for _, what, *_ in units]
    assert doing[:2] == ["listening", "listening"]
    assert doing[-1] == "speaking"
    assert units[-1][3].endswith("(end of turn)")
    said = re.search(r"reply  “(.+)” \(([\d.]+) s of speech", shown.stdout)
    assert said is not None
    assert "Rome" in said[1]
    assert re.search(r"It is \d+:\d\d [AP]M", said[1])
    assert len(re.findall("spoken in real time", shown.stdout)) == 2
    spoken = " ".join(text.removesuffix("(end of turn)").strip() for *_, text in units)
    assert " ".join(spoken.split()) == " ".join(said[1].split())

    reply, rate = soundfile.read(tmp_path / "d" / "reply.wav", dtype="float32")
    assert rate == 24000
    assert len(reply) / rate == pytest.approx(float(said[2]), abs=0.1)
    assert np.abs(reply).max() > 0.05

    for hop in ("edge in → worker", "worker → client out", "engine"):
        assert re.search(rf"p50 [\d.]+ ms, p99 [\d.]+ ms .*{hop}", shown.stdout)
    folder = Path(re.search(r"^(/.*/sessions/\w+)/$", shown.stdout, re.MULTILINE)[1])  # type: ignore[index]
    assert orjson.loads((folder / "meta.json").read_bytes())["state"] == "complete"
    assert len(list((folder / "user_audio").iterdir())) >= len(units)
    assert "├── user_audio/" in shown.stdout
    assert "every process has stopped" in shown.stdout
    assert "antiphon up` starts all services" in shown.stdout


def test_demo_refuses_an_unreadable_question_before_starting(tmp_path: Path) -> None:
    shown = quick("demo", "--data-dir", "d", "--question", "absent.wav", cwd=tmp_path)
    assert shown.endswith("exit status 1")
    assert "there is no file absent.wav" in shown
    assert "Starting" not in shown


def test_demo_reports_why_a_service_does_not_start(tmp_path: Path) -> None:
    missing = str(tmp_path / "absent.gguf")
    shown = antiphon("demo", "--data-dir", "d", cwd=tmp_path, ANTIPHON_MODEL_PATH=missing)
    assert shown.returncode == 78
    assert "The demo failed: worker cannot start: there is no model file" in shown.stdout
    assert "absent.gguf" in shown.stdout
    assert "absent.gguf" in (tmp_path / "d" / "logs" / "worker.log").read_text()


@pytest.mark.extended
def test_up_restarts_dead_services_and_ctrl_c_stops_everything_in_order(tmp_path: Path) -> None:
    """Only its user can read the recordings, Redis' data and its socket."""
    data, port = tmp_path / "data", free_port()
    with running_up(data, port, ANTIPHON_ENGINE_OPTIONS='{"cycle_units": 4}') as up:
        assert len(up.family()) == 5
        up.child("recorder_service").kill()
        up.until("killed by SIGKILL; starting it again")
        up.until("recorder_ready")
        up.child("redis-server").kill()
        up.until("starting it again with its data")
        family = up.family()

        url = f"ws://127.0.0.1:{port}"
        assert f"Open in a browser:   http://127.0.0.1:{port}\n" in up.output
        talk = quick("talk", "--url", url, "--out", "r.wav", cwd=tmp_path)
        assert talk.endswith("exit status 0"), talk
        assert "(simulated)" in talk
        assert (tmp_path / "r.wav").exists()
        ids = re.search(r"session (adx_\w+)\n(?s:.*)\n +recording  ([0-9a-f]{32})\n", talk)
        assert ids is not None, talk
        for name in ids.groups():
            shown = quick("recordings", "show", name, "--data-dir", "data", cwd=tmp_path)
            assert f"recording  {ids[2]}" in shown, shown
        found = run_antiphon(
            *("workers", "--json"),
            folder=data,
            environment=environment() | {"ANTIPHON_DATA_DIR": str(data)},
        )
        [worker] = orjson.loads(found.stdout)
        assert worker["engine"] == "simulated"
        assert any(path.is_file() for path in (data / "sessions").rglob("*"))
        is_private(data, up, tmp_path)

        os.killpg(up.process.pid, signal.SIGINT)
        stops_in_order(up, family)
    assert is_free(port)
    assert not (data / "stack.json").exists()


def test_f1_up_requeues_the_sessions_of_a_killed_worker_at_once(tmp_path: Path) -> None:
    """The leases are longer than the test. No service survives an `up` that is killed at the end."""
    port = free_port()

    async def talk_on() -> None:
        async with open_wire(f"ws://127.0.0.1:{port}", "adx_1") as wire:
            await wire.begin()
            talker = Talker(wire)
            await talker.talk(2)
            up.child("inference_worker").kill()
            await talker.talk(2)
            talker.check()

    with running_up(tmp_path, port, ANTIPHON_LEASE_S="600") as up:
        asyncio.run(talk_on())
        family = up.family()
        up.process.kill()
        up.process.wait(60)
    assert len(family) == 5
    assert all_end(family)


@pytest.mark.extended
def test_up_continues_without_the_socket_of_redis_and_ends_without_its_folder(
    tmp_path: Path,
) -> None:
    data, port = tmp_path / "data", free_port()

    async def talk_on() -> None:
        async with open_wire(f"ws://127.0.0.1:{port}", "adx_1") as wire:
            await wire.begin()
            talker = Talker(wire)
            await talker.talk(2)
            (data / "redis" / "redis.sock").unlink()
            await asyncio.to_thread(up.until, "its socket was deleted")
            await asyncio.to_thread(up.until, "starting it again with its data")
            await talker.talk(2)
            talker.check()

    with running_up(data, port) as up:
        asyncio.run(talk_on())
        family = up.family()
        shutil.rmtree(data / "redis")
        assert "the folder of Redis' data was deleted while it was in use" in up.rest()
        assert up.process.wait(60) == 1
    assert all_end(family)
    assert is_free(port)


def is_private(data: Path, up: Up, cwd: Path) -> None:
    """Redis has only a socket, which the commands of its user find."""
    assert not up.child("redis-server").net_connections("inet")
    url = next(line for line in up.output if "unix://" in line).split()[-1]
    for command in (("queue",), ("queue", "--redis-url", url)):
        assert quick(*command, cwd=cwd).endswith("exit status 0")
    assert "redis version" in quick("doctor", "--engine", "simulated", cwd=cwd)
    assert data.stat().st_mode & 0o777 == 0o700
    for path in data.rglob("*"):
        with suppress(FileNotFoundError):  # a file that was replaced
            assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.extended
def test_sigterm_to_up_alone_stops_everything_in_order(tmp_path: Path) -> None:
    port = free_port()
    with running_up(tmp_path, port) as up:
        family = up.family()
        assert len(family) == 5
        up.process.terminate()
        stops_in_order(up, family)
    assert is_free(port)
    assert not (tmp_path / "stack.json").exists()


def stops_in_order(up: Up, family: list[psutil.Process]) -> None:
    """`up` ends with exit status 0 after all its processes have stopped in order."""
    assert up.process.wait(60) == 0
    output = up.rest()
    assert all_end(family)
    places = [output.rindex(mark) for mark in STOPPED_IN_ORDER]
    assert places == sorted(places)
    assert "Traceback" not in output


def test_up_refuses_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        shown = quick("up", "--port", port, "--data-dir", "d", cwd=tmp_path)
    assert shown.endswith("exit status 1")
    assert (
        f"the edge (--host, --port) cannot listen: port {port} is in use; choose another" in shown
    )
