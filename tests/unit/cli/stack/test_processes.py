"""Supervision of real child processes."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import uvloop

from antiphon.cli.stack.processes import (
    Service,
    ServiceFailed,
    ServiceMisconfigured,
    ServiceSpec,
    huge_pages,
)
from support.processes import all_end

STOPS_ON_SIGTERM = "import time; print('up', flush=True); time.sleep(60)"
IGNORES_SIGTERM = (
    "import signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
    "print('up', child.pid, flush=True); time.sleep(60)"
)


class Log:
    def __init__(self) -> None:
        self.lines: asyncio.Queue[str] = asyncio.Queue()

    def __call__(self, _service: str, line: str) -> None:
        self.lines.put_nowait(line)

    async def until(self, part: str) -> str:
        async with asyncio.timeout(90):
            while part not in (line := await self.lines.get()):
                pass
        return line


def service(code: str, log: Log, grace_s: float = 5.0, **env: str) -> Service:
    return Service(ServiceSpec("thing", (sys.executable, "-c", code), grace_s), env, log)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.cli.stack.processes.RESTART_PAUSES_S", (0.01, 0.01))


async def test_output_and_environment_of_a_service() -> None:
    log = Log()
    thing = service(
        "import os; print(os.environ['X']); print('\\xe9'); import time; time.sleep(60)", log, X="7"
    )
    running = asyncio.create_task(thing.run())
    assert await log.until("7") == "7"
    assert thing.pid is not None
    await thing.stop()
    await running
    assert thing.pid is None


# The heap has several mappings: glibc 2.43 does not advise the start, which fills no huge page.
HUGE_PAGES = r"""
import re, time
from pathlib import Path

kept = [bytes(1000) for _ in range(10_000)]
flags = re.findall(r"\[heap\]\n(?s:.*?)VmFlags:(.*)", Path("/proc/self/smaps").read_text())
print("advised" if any("hg" in part.split() for part in flags) else "not advised", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("switch", ["GLIBC_TUNABLES", "PYTHONMALLOC"])
async def test_memory_of_a_service_is_in_huge_pages_unless_a_variable_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, switch: str
) -> None:
    for name in ("GLIBC_TUNABLES", "PYTHONMALLOC"):
        monkeypatch.delenv(name, raising=False)
    found = []
    for _ in range(2):
        log = Log()
        thing = service(HUGE_PAGES, log)
        running = asyncio.create_task(thing.run())
        found.append(await log.until("advised"))
        await thing.stop()
        await running
        monkeypatch.setenv(switch, "")
    mode = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    works = mode.exists() and "[madvise]" in mode.read_text()
    assert found == ["advised" if works else "not advised", "not advised"]


def test_huge_pages_need_glibc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    monkeypatch.delenv("PYTHONMALLOC", raising=False)
    assert huge_pages()
    monkeypatch.setattr("platform.libc_ver", lambda: ("", ""))
    assert not huge_pages()


async def test_output_of_any_length_is_passed_on_in_bounded_lines() -> None:
    """A line of several MiB, one without an end, and bytes that are not UTF-8."""
    log = Log()
    code = (
        "import sys; out = sys.stdout.buffer;"
        "out.write(b'a' * 3_000_000 + b'\\nshort\\r\\n\\xff\\xfe\\n' + b'b' * 2_000_000);"
        "out.flush()"
    )
    thing = service(code, log)
    running = asyncio.create_task(thing.run())
    first = await log.until("aaa")
    assert len(first) < 64 * 1024
    assert "2967" in first  # thousands of bytes that were dropped
    assert await log.lines.get() == "short"
    assert await log.lines.get() == "\ufffd\ufffd"
    assert (await log.lines.get()).startswith("bbb")
    await log.until("ended with exit status 0; starting it again")
    await thing.stop()
    await running


async def test_a_service_that_exits_is_reported_and_restarted() -> None:
    log = Log()
    thing = service(STOPS_ON_SIGTERM, log)
    running = asyncio.create_task(thing.run())
    await log.until("up")
    first = thing.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    assert "killed by SIGKILL; starting it again" in await log.until("starting")
    await log.until("up")
    assert thing.pid not in (None, first)
    await thing.stop()
    await running


LEAVES_A_CHILD = (
    "import subprocess, sys;"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
    "print('left', child.pid, flush=True); raise SystemExit(1)"
)


@pytest.mark.parametrize("loop", [asyncio.run, uvloop.run])
def test_a_service_that_leaves_a_child_is_restarted(
    loop: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child has the output of the service open. An engine of another package may start processes."""
    monkeypatch.setattr("antiphon.cli.stack.processes.RESTART_PAUSES_S", (60.0,))

    async def fail_once() -> None:
        log = Log()
        thing = service(LEAVES_A_CHILD, log)
        running = asyncio.create_task(thing.run())
        child = psutil.Process(int((await log.until("left")).split()[1]))
        await log.until("ended with exit status 1; starting it again")
        assert await asyncio.to_thread(all_end, [child])
        await thing.stop()
        await running

    loop(fail_once())


async def test_a_service_that_keeps_failing_is_abandoned() -> None:
    log = Log()
    thing = service("raise SystemExit(3)", log)
    with pytest.raises(ServiceFailed, match=r"thing keeps failing \(ended with exit status 3"):
        await thing.run()
    lines = [log.lines.get_nowait() for _ in range(log.lines.qsize())]
    assert [line.rpartition("(")[2] for line in lines] == ["1 of 2)", "2 of 2)"]


async def test_a_service_with_bad_settings_is_not_started_again() -> None:
    log = Log()
    line = '{"level": "critical", "event": "thing_cannot_start", "error": "port: no"}'
    thing = service(f"print({line!r}); raise SystemExit(78)", log)
    with pytest.raises(ServiceMisconfigured, match="thing cannot start: port: no"):
        await thing.run()
    assert log.lines.qsize() == 1


async def test_processes_that_ignore_sigterm_are_killed_with_their_children() -> None:
    log = Log()
    thing = service(IGNORES_SIGTERM, log, grace_s=0.2)
    running = asyncio.create_task(thing.run())
    grandchild = psutil.Process(int((await log.until("up")).split()[1]))
    await thing.stop()
    await running
    await log.until("did not end within")
    assert await asyncio.to_thread(all_end, [grandchild])


async def test_stop_during_a_restart_pause_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.cli.stack.processes.RESTART_PAUSES_S", (60.0,))
    log = Log()
    thing = service("raise SystemExit(1)", log)
    running = asyncio.create_task(thing.run())
    await log.until("starting it again")
    await thing.stop()
    async with asyncio.timeout(90):
        await running


async def test_children_end_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    program = f"""
import asyncio, sys
from antiphon.cli.stack.processes import Service, ServiceSpec
spec = ServiceSpec("thing", (sys.executable, "-c", {STOPS_ON_SIGTERM!r}))
asyncio.run(Service(spec, {{}}, lambda _, line: print(line, flush=True)).run())
"""
    supervisor = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE
    )
    assert supervisor.stdout is not None
    await supervisor.stdout.readline()
    [child] = psutil.Process(supervisor.pid).children()
    supervisor.kill()
    await supervisor.wait()
    assert await asyncio.to_thread(all_end, [child])
