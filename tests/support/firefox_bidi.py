"""Starts Firefox for Playwright: takes the same arguments, and answers a command that Firefox ESR lacks.

Playwright controls Firefox over WebDriver BiDi. It sets the colour scheme of each new context, which
Firefox ESR 153 refuses as an unknown command. This program forwards everything else.
"""

import asyncio
import json
import re
import sys

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve

_UNKNOWN_COMMAND = "emulation.setMediaFeaturesOverride"
_LISTENING = "WebDriver BiDi listening on "
"""Playwright reads this line to learn the address."""


async def main(arguments: list[str]) -> int:
    """Exit status of Firefox."""
    firefox = await asyncio.create_subprocess_exec(
        "firefox-esr", *arguments, stderr=asyncio.subprocess.PIPE
    )
    assert firefox.stderr is not None
    async for line in firefox.stderr:
        address = re.match(f"{_LISTENING}(.*)", line.decode())
        if address is None:
            sys.stderr.buffer.write(line)
            continue
        await _forward(f"{address[1]}/session", firefox.stderr)
    return await firefox.wait()


async def _forward(url: str, log: asyncio.StreamReader) -> None:
    """Until Firefox ends."""

    async def control(playwright: ServerConnection) -> None:
        async with (
            connect(url, max_size=None, ping_interval=None) as firefox,
            asyncio.TaskGroup() as both,
        ):
            both.create_task(_answers(firefox, playwright))
            both.create_task(_commands(playwright, firefox))

    async with serve(control, "127.0.0.1", 0, max_size=None, ping_interval=None) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        sys.stderr.write(f"{_LISTENING}ws://127.0.0.1:{port}\n")
        sys.stderr.flush()
        async for line in log:
            sys.stderr.buffer.write(line)
            sys.stderr.flush()


async def _commands(playwright: ServerConnection, firefox: ClientConnection) -> None:
    async for message in playwright:
        command = json.loads(message)
        if command["method"] == _UNKNOWN_COMMAND:
            done = {"type": "success", "id": command["id"], "result": {}}
            await playwright.send(json.dumps(done))
        else:
            await firefox.send(message)
    await firefox.close()


async def _answers(firefox: ClientConnection, playwright: ServerConnection) -> None:
    async for message in firefox:
        await playwright.send(message)
    await playwright.close()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
