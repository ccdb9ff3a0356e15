"""Lets connections that have much to do at once do it one after another."""

import asyncio
from collections import deque
from collections.abc import Callable

from uvicorn.protocols.http.flow_control import FlowControl

PER_ITERATION = 4
"""Callbacks in one iteration of the event loop: about 1 ms each."""

BULK_BYTES = 128 * 1024
"""A connection that has received this much at once lets others go first."""


class FairQueue:
    """Calls at most PER_ITERATION callbacks in one iteration of the event loop.

    It has two lanes, each in its order, and takes from both in turn. HTTP requests have their own:
    they do not wait for all connections that begin, end or send much.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._others: deque[Callable[[], None]] = deque()
        self._requests: deque[Callable[[], None]] = deque()
        self._requests_next = True

    def add(self, callback: Callable[[], None], *, request: bool = False) -> None:
        if not (self._others or self._requests):
            self._loop.call_soon(self._run)
        (self._requests if request else self._others).append(callback)

    async def wait(self, *, request: bool = False) -> None:
        """Wait like a callback that is added now."""
        called = asyncio.Event()
        self.add(called.set, request=request)
        await called.wait()

    def _run(self) -> None:
        """A callback may add another one, and an error in one ends only that one."""
        waiting = len(self._others) + len(self._requests)
        if waiting > PER_ITERATION:
            self._loop.call_soon(self._run)
        for _ in range(min(PER_ITERATION, waiting)):
            self._loop.call_soon(self._next())

    def _next(self) -> Callable[[], None]:
        lanes = (self._requests, self._others)
        first, second = lanes if self._requests_next else reversed(lanes)
        self._requests_next = not self._requests_next
        return (first or second).popleft()


class QueuedFlowControl(FlowControl):
    """Resumes reading through the queue of all connections: it calls `take_turn`."""

    def __init__(
        self,
        transport: asyncio.Transport,
        fair_queue: FairQueue,
        take_turn: Callable[[], None],
    ) -> None:
        super().__init__(transport)
        self._fair_queue = fair_queue
        self._take_turn = take_turn

    def resume_reading(self) -> None:
        if self.read_paused:
            self.read_paused = False
            self._fair_queue.add(self._resume)

    def let_others_go_first(self) -> None:
        if not self.read_paused:
            self.pause_reading()
            self.resume_reading()

    def release(self) -> None:
        """Break the reference cycle: the connection takes no further turn."""
        self._take_turn = _nothing

    def _resume(self) -> None:
        if not (self.read_paused or self._transport.is_closing()):
            self._take_turn()


def _nothing() -> None:
    pass
