"""Starts many recorder processes quickly: one program imports everything and forks each recorder.

For each line on stdin the program forks a recorder, prints its process id, waits for its end and
prints an empty line. Settings are environment variables.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

LONGEST_LIFE_S = 600
"""A recorder whose test has died ends after this time."""


class Forks:
    """Sends commands to the forking program."""

    def __init__(self, child: asyncio.subprocess.Process) -> None:
        self._child = child

    async def start(self) -> int:
        assert self._child.stdin is not None
        self._child.stdin.write(b"go\n")
        return int(await self._line())

    async def kill(self, pid: int) -> None:
        """`kill -9`, and wait for the end of the process."""
        os.kill(pid, signal.SIGKILL)
        await self._line()

    async def _line(self) -> bytes:
        assert self._child.stdout is not None
        line = await self._child.stdout.readline()
        assert line, "the program has ended"
        return line


@asynccontextmanager
async def forks(environment: dict[str, str]) -> AsyncIterator[Forks]:
    """Runs the program; kills every recorder at the end of the block."""
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, __file__),
        env={**os.environ, **environment},
        stdin=pipe,
        stdout=pipe,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield Forks(child)
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()


def main() -> None:
    from antiphon.recorder_service.service import run
    from antiphon.recorder_service.settings import RecorderSettings

    settings = RecorderSettings()
    gc.freeze()  # a garbage collection in a recorder would copy every page of these modules
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
            signal.alarm(LONGEST_LIFE_S)
            asyncio.run(run(settings))
            os._exit(0)
        print(pid, flush=True)  # noqa: T201 - its protocol
        os.waitpid(pid, 0)
        print(flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
