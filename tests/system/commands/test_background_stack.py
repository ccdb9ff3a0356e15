"""`antiphon up -d`, `status`, `logs` and `down`."""

import asyncio
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
import psutil
import pytest

from antiphon.cli.stack.stack_file import StackFile
from support.document_commands import check_antiphon
from support.fork_server import ForkedProcess, fork_server, run_antiphon
from support.ports import free_port
from support.processes import all_end, without_settings
from support.raw_client import open_wire
from support.redis_server import redis_binary
from support.stack import until

pytestmark = pytest.mark.extended

ROOT = Path(__file__).parents[3]
SERVICES = ["redis", "edge", "worker", "recorder", "cleanup"]


def environment() -> dict[str, str]:
    kept = without_settings()
    return kept | {"PYTHONPATH": str(ROOT), "NO_COLOR": "1", "COLUMNS": "200"}


def antiphon(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return run_antiphon(*args, folder=folder, environment=environment())


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A working directory; ends a stack that a failed test has left there."""
    yield tmp_path
    if (stack := StackFile.read(tmp_path / "data")) is not None:
        family = psutil.Process(stack.pid).children(recursive=True)
        for process in (psutil.Process(stack.pid), *family):
            process.send_signal(signal.SIGKILL)


def test_a_stack_in_the_background_is_shown_and_stopped(folder: Path) -> None:
    flags = ("--engine", "simulated", "--health-port", "0")
    started = antiphon(folder, "up", "-d", *flags, "-p", "0")
    assert started.returncode == 0, started
    stack = StackFile.read(folder / "data")
    assert stack is not None
    assert stack.ready
    port = int(stack.edge_url.rpartition(":")[2])
    assert port
    for words in (
        f"Open in a browser:   http://127.0.0.1:{port}\n",
        f"antiphon talk --url ws://127.0.0.1:{port}\n",
        "antiphon status\n",
        "antiphon logs -f\n",
        "antiphon down\n",
        "worker: ready after",
    ):
        assert words in started.stdout, started

    second = antiphon(folder, "up", "-d", *flags, "-p", str(port))
    assert (second.returncode, second.stdout, second.stderr.count("\n")) == (1, "", 1)
    assert f"runs in this folder already, at http://127.0.0.1:{port} (process" in second.stderr
    assert "antiphon down" in second.stderr

    shown = antiphon(folder, "status")
    assert f"address   http://127.0.0.1:{port}\n" in shown.stdout, shown
    assert "engine    simulated (simulated), idle\n" in shown.stdout
    assert "sessions  0 of 4 slots, 0 waiting\n" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 80
    document = orjson.loads(antiphon(folder, "status", "--json").stdout)
    assert [row["service"] for row in document["services"]] == SERVICES
    assert {row["state"] for row in document["services"]} == {"runs"}
    engine = {"engine": "simulated", "model": "simulated", "state": "idle", "slots": 4, "used": 0}
    assert document["workers"] == [engine]
    assert (document["running"], document["waiting"]) == (0, 0)
    family = [psutil.Process(row["process"]) for row in document["services"]]
    family.append(psutil.Process(document["process"]))

    edge = antiphon(folder, "logs", "edge")
    assert "edge_ready" in edge.stdout
    assert all(line.startswith("edge     │ ") for line in edge.stdout.splitlines())
    assert len(antiphon(folder, "logs", "-n", "3").stdout.splitlines()) == 3
    unknown = antiphon(folder, "logs", "edgy")
    assert (unknown.returncode, "choose one of: edge, worker" in unknown.stderr) == (2, True)

    with subprocess.Popen(
        [sys.executable, "-m", "antiphon", "logs", "-f"],
        cwd=folder,
        env=environment() | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    ) as follower:
        assert follower.stdout is not None
        followed = [next(line for line in follower.stdout if "edge_ready" in line)]
        stopped = antiphon(folder, "down")
        assert (stopped.returncode, "everything has stopped" in stopped.stdout) == (0, True)
        followed += follower.stdout
        assert follower.wait(60) == 0
    assert "edge_stopped" in "".join(followed)
    assert "everything has stopped" in followed[-1]
    assert all_end(family)
    with socket.create_server(("127.0.0.1", port)):
        pass
    for command in ("down", "status"):
        nothing = antiphon(folder, command)
        assert (nothing.returncode, nothing.stderr.count("\n")) == (1, 1)
        assert "no `antiphon up` runs in data; `" in nothing.stderr
        assert "antiphon up -d` starts one" in nothing.stderr
    assert "edge_stopped" in antiphon(folder, "logs", "edge").stdout


async def test_a_stack_whose_redis_loads_is_shown_and_stopped(folder: Path) -> None:
    """A Redis with much data loads for half a minute; this one does not end loading."""
    server = redis_binary()
    (folder / "bin").mkdir()
    slow = folder / "bin" / "redis-server"
    slow.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exec {server} "$@"\nexec sleep 60\n')
    slow.chmod(0o755)
    path = os.pathsep.join([str(slow.parent), environment()["PATH"]])
    flags = ("--engine", "simulated", "--health-port", "0", "-p", str(free_port()))
    up = fork_server().start(
        *("antiphon.cli.main", "up", *flags),
        folder=folder,
        environment=environment() | {"PATH": path},
        output=folder / "output",
        imports=("antiphon.cli.commands.up",),
    )
    await until(lambda: StackFile.read(folder / "data") is not None, within_s=60)

    shown = await asyncio.to_thread(antiphon, folder, "status")
    assert shown.returncode == 0, shown
    assert "state     starting\n" in shown.stdout
    assert "engine    waits for Redis, which loads its data\n" in shown.stdout
    second = await asyncio.to_thread(antiphon, folder, "up", *flags)
    assert (second.returncode, "runs in this folder already" in second.stderr) == (1, True)
    for words in (("queue",), ("queue", "--data-dir", "data"), ("events",)):
        refused = await asyncio.to_thread(antiphon, folder, *words)
        assert (refused.returncode, refused.stderr.count("\n")) == (1, 1), refused
        assert "its Redis loads its data; try again soon" in refused.stderr
    stopped = await asyncio.to_thread(antiphon, folder, "down")
    assert (stopped.returncode, "everything has stopped" in stopped.stdout) == (0, True)
    assert up.wait(60) == -signal.SIGTERM


async def test_a_second_down_waits_too_and_only_down_now_ends_everything(folder: Path) -> None:
    def start(*args: str, output: str) -> ForkedProcess:
        return fork_server().start(
            *("antiphon.cli.main", *args),
            folder=folder,
            environment=environment(),
            output=folder / output,
            imports=("antiphon.cli.commands.background",),
        )

    def said(words: str, output: str) -> bool:
        return (folder / output).exists() and words in (folder / output).read_text()

    drain = {"ANTIPHON_DRAIN_S": "600"}
    up = ("up", "-d", "--engine", "simulated", "--health-port", "0", "-p", "0")
    started = await asyncio.to_thread(
        run_antiphon, *up, folder=folder, environment=environment() | drain
    )
    assert started.returncode == 0, started
    stack = StackFile.read(folder / "data")
    assert stack is not None
    family = psutil.Process(stack.pid).children(recursive=True)
    async with open_wire(stack.edge_url, "adx_1") as wire:
        await wire.begin()
        first = start("down", output="first")
        await until(lambda: said("stopping in order", "data/logs/up.log"), within_s=60)
        second = start("down", output="second")
        await until(lambda: said("stopping http://", "second"), within_s=60)
        shown = await asyncio.to_thread(antiphon, folder, "status", "--json")
        states = {row["service"]: row["state"] for row in orjson.loads(shown.stdout)["services"]}
        assert states == dict.fromkeys(SERVICES, "runs")
        assert (first.poll(), second.poll()) == (None, None)
        now = await asyncio.to_thread(antiphon, folder, "down", "--now")
    assert (now.returncode, "everything has stopped" in now.stdout) == (0, True)
    assert [await asyncio.to_thread(one.wait, 60) for one in (first, second)] == [0, 0]
    assert all_end(family)


def suggested(text: str) -> list[list[str]]:
    """The commands that a message has, at the end of a line or in backticks, as a shell reads them."""
    found = re.findall(
        r"`([^`]*antiphon [^`]+)`|(?: {2}|: )([^\s`]*antiphon [a-z].*)$", text, re.MULTILINE
    )
    return [shlex.split(quoted or bare) for quoted, bare in found]


def test_each_command_that_a_stack_in_another_folder_suggests_works(tmp_path: Path) -> None:
    data = tmp_path / "the data of anna"
    flags = ("-e", "simulated", "--health-port", "0", "-p", "0", "--data-dir", str(data))
    started = antiphon(tmp_path, "up", "-d", *flags)
    try:
        second = antiphon(tmp_path, "up", *flags)
        cancelled = antiphon(tmp_path, "queue", "--data-dir", str(data), "cancel", "adx_1")
        doctor = antiphon(tmp_path, "doctor", "-e", "simulated", "--data-dir", str(data), "--json")
        commands = [*map(suggested, (started.stdout, second.stderr, cancelled.stderr))]
        names = [
            "talk",
            "status",
            "logs",
            "queue",
            "sessions",
            "workers",
            "edges",
            "events",
            "down",
        ]
        assert [[words[1] for words in each] for each in commands] == [
            names,
            ["up", "talk", "down"],
            ["queue"],
        ]
        for words in {tuple(words) for each in commands for words in each}:
            check_antiphon(["antiphon", *words[1:]])
            assert words[1] in ("talk", "up") or words[-2:] == ("--data-dir", str(data)), words
            assert words[1] != "talk" or words[2] == "--url"
            if words[1] not in ("talk", "up", "down"):
                ended = antiphon(tmp_path, *(word for word in words[1:] if word != "-f"))
                assert ended.returncode == 0, (words, ended)
        assert "simulated" in antiphon(tmp_path, "workers", "--data-dir", str(data)).stdout
        ports = [one for one in orjson.loads(doctor.stdout) if one["about"].startswith("port of")]
        assert {one["verdict"] for one in ports} == {"ok"}
        edge = StackFile.read(data)
        assert edge is not None
        assert edge.edge_url.removeprefix("ws://") in ports[0]["found"]
        stopping = next(words for words in commands[0] if words[1] == "down")
    finally:
        stopped = antiphon(tmp_path, "down", "--data-dir", str(data))
    assert stopped.returncode == 0
    ended = antiphon(tmp_path, *stopping[1:])
    *_, start = suggested(ended.stderr)
    assert start[1:] == ["up", "-d", "--data-dir", str(data)]
    nothing = antiphon(tmp_path, "queue", "--data-dir", str(data))
    assert (nothing.returncode, nothing.stderr.count("\n")) == (1, 1)
    assert f"no `antiphon up` runs in {data}; `" in nothing.stderr


def test_a_start_in_the_background_that_fails_says_why(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        failed = antiphon(folder, "up", "-d", "-e", "simulated", "-p", port)
    assert (failed.returncode, failed.stdout, failed.stderr.count("\n")) == (1, "", 1)
    assert f"port {port} is in use" in failed.stderr
    assert f"port {port} is in use" in antiphon(folder, "logs").stdout


def test_commands_without_a_stack_name_the_remedy(folder: Path) -> None:
    nothing = antiphon(folder, "logs")
    assert (nothing.returncode, nothing.stderr.count("\n")) == (1, 1)
    assert "there are no logs in data/logs; --data-dir names another folder" in nothing.stderr
