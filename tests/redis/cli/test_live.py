"""`antiphon queue|sessions|workers|edges|events` over rows that a real broker wrote."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.interrupts import INTERRUPTED
from antiphon.shared_schemas.states import EndReason, SessionKind
from support.control_plane import claim, join, serve
from support.fork_server import fork_server, run_antiphon
from support.stack import until


@pytest.fixture
async def _busy(broker: Broker) -> None:
    """One worker with one slot, in use; two sessions wait for it."""
    await broker.registry.edge_beat("edge-1", [])
    await serve(broker, "worker-1", SessionKind.AUDIO_DUPLEX)
    for sid in ("adx_a", "adx_b", "adx_c"):
        await join(broker, sid)
    assert (await claim(broker, "worker-1")).sid == "adx_a"


class Watch:
    """A command that runs until Ctrl-C, and the lines of its output."""

    def __init__(self, settings: BrokerSettings, folder: Path, *args: str) -> None:
        self._output = folder / "output"
        self._read = 0
        self._process = fork_server().start(
            "antiphon.cli.main",
            *args,
            folder=folder,
            environment=environment(settings),
            output=self._output,
        )

    async def line(self) -> str:
        """The next line."""
        await until(lambda: self._output.exists() and len(self._lines()) > self._read)
        self._read += 1
        return self._lines()[self._read - 1]

    def _lines(self) -> list[str]:
        return self._output.read_text().split("\n")[:-1]

    async def interrupt(self) -> int:
        """Ctrl-C; returns the exit status."""
        self._process.send_signal(signal.SIGINT)
        return await asyncio.to_thread(self._process.wait, timeout=60)


def environment(settings: BrokerSettings) -> dict[str, str]:
    return os.environ | {
        "ANTIPHON_REDIS_URL": settings.redis_url,
        "ANTIPHON_KEY_PREFIX": settings.key_prefix,
    }


async def shown(settings: BrokerSettings, *args: str) -> str:
    env = environment(settings)
    done = await asyncio.to_thread(run_antiphon, *args, folder=Path.cwd(), environment=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def rows(settings: BrokerSettings, command: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = orjson.loads(await shown(settings, command, "--json"))
    return found


@pytest.mark.usefixtures("_busy")
async def test_queue(settings: BrokerSettings) -> None:
    waiting = await rows(settings, "queue")
    assert [(row["position"], row["session"]) for row in waiting] == [(1, "adx_b"), (2, "adx_c")]
    assert waiting[0]["kind"] == "audio_duplex"
    assert 0 < waiting[0]["eta_s"] < waiting[1]["eta_s"]
    table = (await shown(settings, "queue")).splitlines()
    assert table[0].split() == ["position", "session", "kind", "waited_s", "eta_s"]
    assert table[1].split()[:2] == ["1", "adx_b"]


async def test_the_queue_without_a_worker(settings: BrokerSettings, broker: Broker) -> None:
    await join(broker, "adx_a")
    [row] = await rows(settings, "queue")
    assert (row["eta_s"], row["reason"]) == (None, "no_worker")
    assert "no_worker" in await shown(settings, "queue")


@pytest.mark.usefixtures("_busy")
async def test_sessions(settings: BrokerSettings) -> None:
    live = await rows(settings, "sessions")
    assert [(row["session"], row["state"]) for row in live] == [
        ("adx_a", "assigned"),
        ("adx_b", "queued"),
        ("adx_c", "queued"),
    ]
    assert live[0]["worker"] == "worker-1"
    assert live[0]["recording"] == "rec-adx_a"
    assert live[1]["running_s"] is None


@pytest.mark.usefixtures("_busy")
async def test_workers(settings: BrokerSettings) -> None:
    [worker] = await rows(settings, "workers")
    assert (worker["worker"], worker["slots"], worker["used"]) == ("worker-1", 1, 1)
    assert worker["kinds"] == ["audio_duplex"]
    assert "worker-1" in await shown(settings, "workers")


@pytest.mark.usefixtures("_busy")
async def test_edges(settings: BrokerSettings) -> None:
    [edge] = await rows(settings, "edges")
    assert (edge["edge"], edge["sessions"]) == ("edge-1", 3)
    assert edge["silent_s"] < 60


@pytest.mark.usefixtures("_busy")
async def test_a_closed_stderr_is_an_empty_one(settings: BrokerSettings) -> None:
    line = f"exec {sys.executable} -m antiphon edges --json 2>&-"
    ended = await asyncio.create_subprocess_exec(
        *("sh", "-c", line), env=environment(settings), stdout=subprocess.PIPE
    )
    out, _ = await ended.communicate()
    assert (ended.returncode, [row["edge"] for row in orjson.loads(out)]) == (0, ["edge-1"])


@pytest.mark.usefixtures("_busy")
async def test_watching_shows_changes(
    settings: BrokerSettings, broker: Broker, tmp_path: Path
) -> None:
    watch = Watch(settings, tmp_path, "queue", "--watch", "--json")
    first = orjson.loads(await watch.line())
    assert [row["session"] for row in first] == ["adx_b", "adx_c"]
    await broker.sessions.end("adx_b", EndReason.CLIENT_GONE)
    while [row["session"] for row in orjson.loads(await watch.line())] != ["adx_c"]:
        pass
    assert await watch.interrupt() == INTERRUPTED


@pytest.mark.usefixtures("_busy")
async def test_a_file_gets_the_rows_every_second(settings: BrokerSettings, tmp_path: Path) -> None:
    watch = Watch(settings, tmp_path, "sessions", "--watch")
    listing = (await shown(settings, "sessions")).splitlines()
    for _ in range(2):
        assert "every 1 s, Ctrl-C ends" in await watch.line()
        assert (await watch.line()).split() == listing[0].split()
        for row in listing[1:]:
            assert (await watch.line()).split()[:2] == row.split()[:2]
    assert await watch.interrupt() == INTERRUPTED


@pytest.mark.usefixtures("_busy")
async def test_events_are_listed_in_order_and_then_followed(
    settings: BrokerSettings, broker: Broker, tmp_path: Path
) -> None:
    seen = [orjson.loads(line) for line in (await shown(settings, "events", "--json")).splitlines()]
    assert [(one["sid"], one["state"]) for one in seen] == [
        ("adx_a", "queued"),
        ("adx_b", "queued"),
        ("adx_c", "queued"),
        ("adx_a", "assigned"),
    ]
    watch = Watch(settings, tmp_path, "events", "--last", "1", "--watch", "--session", "adx_a")
    assert "assigned" in await watch.line()
    await broker.sessions.end("adx_b", EndReason.CLIENT_GONE)
    await broker.sessions.end("adx_a", EndReason.CANCELLED)
    last = (await watch.line()).split()
    assert last[1:5] == ["adx_a", "audio_duplex", "ended", "cancelled"]
    assert await watch.interrupt() == INTERRUPTED


async def test_all_events_of_a_session_are_found_behind_those_of_others(
    settings: BrokerSettings, broker: Broker
) -> None:
    await join(broker, "adx_a")
    for number in range(25):
        await join(broker, f"adx_other_{number}")
    found = (await shown(settings, "events", "--session", "adx_a")).splitlines()
    assert [line.split()[1:4] for line in found] == [["adx_a", "audio_duplex", "queued"]]
    missing = await shown(settings, "events", "--session", "adx_b")
    assert missing == "no event of session adx_b\n"


async def test_empty_tables(settings: BrokerSettings) -> None:
    assert await rows(settings, "queue") == []
    assert await shown(settings, "queue") == "no session waits\n"
    assert await shown(settings, "sessions") == "no session waits or runs\n"
    for listing, service in (("workers", "worker"), ("edges", "edge")):
        said = await shown(settings, listing)
        assert re.fullmatch(
            rf"no {service} is connected; start one with `\S*antiphon {service}`\n", said
        )
    assert await shown(settings, "events") == "no events\n"
