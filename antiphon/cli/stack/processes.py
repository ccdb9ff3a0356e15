"""A service as a supervised child process: it is started, logged, restarted and stopped."""

import asyncio
import os
import platform
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import IO

from antiphon.broker.redis_server.embedded import tether
from antiphon.broker.settings import CONFIG_STATUS, PRIVATE_UMASK
from antiphon.cli.stack.logs import reason_in

RESTART_PAUSES_S = (0.5, 1.0, 2.0)
"""Waits before each restart; after one more failure the supervisor gives up."""

SETTLED_S = 30.0
"""After running this long, a service starts with zero failures again."""

_READ_SIZE = 64 * 1024
_LONGEST_LINE = 32 * 1024
"""Bytes of a line of output that are passed on; the rest of a longer line is dropped."""

LineSink = Callable[[str, str], None]
"""Called with (service, line) for every line of output and for every restart."""


class ServiceFailed(Exception):
    """A service does not stay up; the message names it, the exit status and its own reason."""


class ServiceMisconfigured(ServiceFailed):
    """A service cannot start until its settings are changed, so it is not started again."""


HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "PYTHONMALLOC": "malloc"}
"""The Dockerfile sets the same."""


def huge_pages() -> dict[str, str]:
    """What a service's environment needs so that its memory is in huge pages (docs/performance.md).

    Empty if one of these variables is set, also to '', and without glibc.
    """
    if platform.libc_ver()[0] != "glibc" or HUGE_PAGES.keys() & os.environ.keys():
        return {}
    return dict(HUGE_PAGES)


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """What to run. `grace_s` is the time between SIGTERM and SIGKILL."""

    name: str
    command: Sequence[str]
    grace_s: float = 5.0


class Service:
    """A supervised child process. It is killed when this process dies."""

    def __init__(
        self,
        spec: ServiceSpec,
        env: Mapping[str, str],
        sink: LineSink,
        on_failure: Callable[[int], Awaitable[None]] | None = None,
    ) -> None:
        """`on_failure` is called with the id of a process that has ended by itself."""
        self.spec = spec
        self._on_failure = on_failure
        self._env = dict(os.environ) | huge_pages() | {"PYTHONUNBUFFERED": "1"} | dict(env)
        self._sink = sink
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = asyncio.Event()
        self._reason = "it gave no reason"

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def pid(self) -> int | None:
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def run(self) -> None:
        """Run until `stop`. Raises ServiceFailed after too many failures."""
        failures = 0
        while not self._stopping.is_set():
            began = time.monotonic()
            status = await self._run_once()
            if self._stopping.is_set():
                return
            if self._on_failure is not None and self._process is not None:
                await self._on_failure(self._process.pid)
            if status == CONFIG_STATUS:
                raise ServiceMisconfigured(f"{self.name} cannot start: {self._reason}")
            failures = 1 if time.monotonic() - began > SETTLED_S else failures + 1
            if failures > len(RESTART_PAUSES_S):
                raise ServiceFailed(
                    f"{self.name} keeps failing ({_exit_text(status)}): {self._reason}"
                )
            await self._pause(failures, status)

    async def stop(self) -> None:
        """SIGTERM, then SIGKILL to it and its children after the grace period."""
        self._stopping.set()
        process = self._process
        if process is None or process.returncode is not None:
            return
        _signal_group(process.pid, signal.SIGTERM)
        try:
            async with asyncio.timeout(self.spec.grace_s):
                await process.wait()
        except TimeoutError:
            self._sink(self.name, f"did not end within {self.spec.grace_s:.0f} s; killed")
        self.kill()
        await process.wait()

    def kill(self) -> None:
        """Kill the process and its children."""
        self._stopping.set()
        if self._process is not None:
            _signal_group(self._process.pid, signal.SIGKILL)

    async def _run_once(self) -> int:
        """The exit status. Children that the process leaves behind are killed."""
        # Not asyncio's pipe: `wait` would last until these children have closed it, too.
        read_end, write_end = os.pipe()
        output = os.fdopen(read_end, "rb", buffering=0)
        try:
            self._process = await self._start(write_end)
        except BaseException:
            output.close()
            raise
        finally:
            os.close(write_end)
        if self._stopping.is_set():  # stopped during the start
            self.kill()
        forwarding = asyncio.create_task(self._forward_lines(output))
        try:
            status = await self._process.wait()
            _signal_group(self._process.pid, signal.SIGKILL)
            await forwarding
        finally:
            forwarding.cancel()
        return status

    async def _start(self, output: int) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *self.spec.command,
            env=self._env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C in a terminal must not stop it out of order
            preexec_fn=_child_setup(),
        )

    async def _forward_lines(self, output: IO[bytes]) -> None:
        """Pass on the lines of a pipe until its end, and close it."""
        reader, loop = asyncio.StreamReader(), asyncio.get_running_loop()
        protocol = asyncio.StreamReaderProtocol(reader)
        pipe, _ = await loop.connect_read_pipe(lambda: protocol, output)
        line, dropped = bytearray(), 0
        with closing(pipe):
            while piece := await reader.read(_READ_SIZE):
                for part in piece.splitlines(keepends=True):
                    room = _LONGEST_LINE - len(line)
                    line += part[:room]
                    dropped += len(part[room:])
                    if part.endswith(b"\n"):
                        self._forward_line(line, dropped)
                        line, dropped = bytearray(), 0
            if line:
                self._forward_line(line, dropped)

    def _forward_line(self, line: bytearray, dropped: int) -> None:
        note = f" … {dropped} more bytes" if dropped else ""
        text = line.decode(errors="replace").rstrip() + note
        self._reason = reason_in(text) or self._reason
        self._sink(self.name, text)

    async def _pause(self, failures: int, status: int) -> None:
        pause_s = RESTART_PAUSES_S[failures - 1]
        tries = f"{failures} of {len(RESTART_PAUSES_S)}"
        self._sink(self.name, f"{_exit_text(status)}; starting it again in {pause_s} s ({tries})")
        try:
            async with asyncio.timeout(pause_s):
                await self._stopping.wait()
        except TimeoutError:
            return


def _child_setup() -> Callable[[], None]:
    """A `preexec_fn`: private files, and death with the parent. uvloop has no `umask` argument."""
    bind = tether(signal.SIGKILL)

    def setup() -> None:
        os.umask(PRIVATE_UMASK)
        if bind is not None:
            bind()

    return setup


def _signal_group(pid: int, number: signal.Signals) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return


def _exit_text(status: int) -> str:
    if status < 0:
        return f"killed by {signal.Signals(-status).name}"
    return f"ended with exit status {status}"
