"""One service as a child process: started, listened to, started again when it dies, stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from antiphon.broker.embedded import tether

RESTART_PAUSES_S = (0.5, 1.0, 2.0)
"""Waits before each restart; a service that fails once more is given up."""

SETTLED_S = 30.0
"""A service that ran this long starts a new count of failures."""

_LINE_LIMIT = 1024 * 1024

LineSink = Callable[[str, str], None]
"""Told (service, line) for every line a service writes, and for what happens to it."""


class ServiceFailed(Exception):
    """A service keeps dying; the message says which and how."""


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """What to run. `grace_s`: how long it may take to end after SIGTERM."""

    name: str
    command: Sequence[str]
    grace_s: float = 5.0


class Service:
    """A supervised child. It ends with this process, however this process ends."""

    def __init__(self, spec: ServiceSpec, env: Mapping[str, str], sink: LineSink) -> None:
        self.spec = spec
        self._env = dict(os.environ) | {"PYTHONUNBUFFERED": "1"} | dict(env)
        self._sink = sink
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = asyncio.Event()

    @property
    def name(self) -> str:
        """What the service is called in logs."""
        return self.spec.name

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def run(self) -> None:
        """Keep it running until `stop`. Raises ServiceFailed when it dies too often."""
        failures = 0
        while not self._stopping.is_set():
            began = time.monotonic()
            status = await self._run_once()
            if self._stopping.is_set():
                return
            failures = 1 if time.monotonic() - began > SETTLED_S else failures + 1
            if failures > len(RESTART_PAUSES_S):
                raise ServiceFailed(f"{self.name} keeps failing ({_told(status)})")
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
        """End it at once, with whatever it started."""
        self._stopping.set()
        if self._process is not None:
            _signal_group(self._process.pid, signal.SIGKILL)

    async def _run_once(self) -> int:
        self._process = await asyncio.create_subprocess_exec(
            *self.spec.command,
            env=self._env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            limit=_LINE_LIMIT,
            start_new_session=True,  # Ctrl-C in a terminal must not reach it before its turn
            preexec_fn=tether(signal.SIGKILL),
        )
        if self._stopping.is_set():  # told to stop while it was being started
            self.kill()
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            self._sink(self.name, line.decode(errors="replace").rstrip())
        return await self._process.wait()

    async def _pause(self, failures: int, status: int) -> None:
        pause_s = RESTART_PAUSES_S[failures - 1]
        tries = f"{failures} of {len(RESTART_PAUSES_S)}"
        self._sink(self.name, f"{_told(status)}; starting it again in {pause_s} s ({tries})")
        try:
            async with asyncio.timeout(pause_s):
                await self._stopping.wait()
        except TimeoutError:
            return


def _signal_group(pid: int, number: signal.Signals) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return


def _told(status: int) -> str:
    if status < 0:
        return f"killed by {signal.Signals(-status).name}"
    return f"ended with exit status {status}"
