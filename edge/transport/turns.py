"""Shares the turns of the event loop among connections that have much to do at once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from uvicorn.protocols.http.flow_control import FlowControl

PER_TURN = 4
"""Connections that get a turn in one turn of the loop: about 1 ms each."""

BULK_BYTES = 128 * 1024
"""A connection that has received this much at once waits for its next turn."""


class TurnQueue:
    """Calls at most PER_TURN callbacks in one turn of the event loop, in their order."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Callable[[], None]] = deque()

    def add(self, callback: Callable[[], None]) -> None:
        if not self._waiting:
            self._loop.call_soon(self._run)
        self._waiting.append(callback)

    async def turn(self) -> None:
        """Returns when it is the caller's turn."""
        turn = asyncio.Event()
        self.add(turn.set)
        await turn.wait()

    def _run(self) -> None:
        """A callback may add another one, and an error in one ends only that one."""
        if len(self._waiting) > PER_TURN:
            self._loop.call_soon(self._run)
        for _ in range(min(PER_TURN, len(self._waiting))):
            self._loop.call_soon(self._waiting.popleft())


class QueuedFlowControl(FlowControl):
    """Reads on when it is the connection's turn."""

    def __init__(self, transport: asyncio.Transport, turns: TurnQueue) -> None:
        super().__init__(transport)
        self._turns = turns

    def resume_reading(self) -> None:
        if self.read_paused:
            self.read_paused = False
            self._turns.add(self._resume)

    def yield_turn(self) -> None:
        if not self.read_paused:
            self.pause_reading()
            self.resume_reading()

    def _resume(self) -> None:
        if not (self.read_paused or self._transport.is_closing()):
            self._transport.resume_reading()
