"""The calls by WebRTC of one edge. Each runs in its own task, because its HTTP request is over."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from importlib.util import find_spec

import structlog

from antiphon.edge.access.limits import ConnectionLimiter
from antiphon.edge.errors import Draining

log = structlog.get_logger()

HAS_WEBRTC = find_spec("aiortc") is not None
"""The extra `webrtc` is installed."""

_MOST_CONNECTING = 16
"""Calls of one address that are not connected yet. Each has a UDP port, which needs no client that answers."""


class NoFreePort(Exception):
    """Every UDP port of the range is in use."""


class Calls:
    """Ends those that have no session yet when the edge shuts down; the others end with their sessions."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._connecting: dict[str, asyncio.Task[None]] = {}
        self._closing = False
        self.connecting = ConnectionLimiter(_MOST_CONNECTING, 0)

    def check_open(self) -> None:
        """Raises Draining."""
        if self._closing:
            raise Draining

    def start(
        self,
        name: str,
        connect: Callable[[], Awaitable[bool]],
        serve: Callable[[], Awaitable[None]],
        close: Callable[[], Awaitable[None]],
    ) -> None:
        """Serve once the client is connected, and close in any case."""
        task = asyncio.create_task(self._run(name, connect, serve, close), name=f"call:{name}")
        self._tasks.add(task)
        self._connecting[name] = task
        task.add_done_callback(self._tasks.discard)

    def hang_up(self, name: str) -> bool:
        """End one that is not connected yet; False if there is none."""
        task = self._connecting.get(name)
        if task is not None:
            _stop(task)
        return task is not None

    async def close(self) -> None:
        """End the calls that are not connected. No new one begins."""
        self._closing = True
        await _cancel([*self._connecting.values()])

    async def end(self) -> None:
        """End all calls."""
        self._closing = True
        await _cancel([*self._tasks])

    async def _run(
        self,
        name: str,
        connect: Callable[[], Awaitable[bool]],
        serve: Callable[[], Awaitable[None]],
        close: Callable[[], Awaitable[None]],
    ) -> None:
        try:
            connected = await connect()
            self._connecting.pop(name, None)
            if connected:
                await serve()
        except Exception:
            log.exception("connection_crashed")
        finally:
            self._connecting.pop(name, None)
            await close()


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        _stop(task)
    if tasks:
        await asyncio.wait(tasks)


def _stop(task: asyncio.Task[None]) -> None:
    """Cancel the task after its first step. A task that is cancelled before it would never close its call."""
    if not task.cancelling():  # a second time would interrupt its end
        asyncio.get_running_loop().call_soon(task.cancel)
