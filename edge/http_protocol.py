"""uvicorn's HTTP protocol, with an end for clients that never finish saying what they want."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from antiphon.edge.doorstep import Doorstep

SLOWEST = 16 * 1024
"""Bytes per second: a body that comes slower is not waited for once its answer is given."""

STALLS = 6
"""Looks in a row that find an answer where it was: the kernel takes it in large steps."""


class EdgeHttpProtocol(H11Protocol):
    """Cuts a connection off whose request's head is late, or whose body goes on behind the answer.

    The time for a body that a route still reads is the application's (edge/body_limit.py).
    """

    doorstep: ClassVar[Doorstep]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._who: str | None = None
        self._overdue: asyncio.TimerHandle | None = None
        self._unsent = 0
        self._came = 0
        self._stalls = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """As uvicorn does; one connection too many of its address is dropped at once."""
        super().connection_made(transport)
        try:
            self._who = self.doorstep.knock(self.client[0] if self.client else "")
        except OverflowError:
            transport.abort()
            return
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """As uvicorn does."""
        self._step_in()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """As uvicorn does."""
        self._came += len(data)
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """As uvicorn does."""
        super().on_response_complete()
        self._look()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """As uvicorn does; this object hears of the connection no more."""
        self._step_in()
        super().handle_websocket_upgrade(event)

    def _look(self) -> None:
        """Whether it is the client's turn, and since when, once that changes."""
        if self.transport.is_closing():
            return
        if not self._owes():
            self._step_in()
        elif self._overdue is None:
            self._overdue = self.loop.call_later(self.doorstep.patience_s, self._cut_off)

    def _owes(self) -> bool:
        theirs = self.conn.their_state
        return theirs is h11.IDLE or (theirs is h11.SEND_BODY and self.conn.our_state is h11.DONE)

    def _step_in(self) -> None:
        self.doorstep.enter(self._who)
        self._who = None
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None

    def _cut_off(self) -> None:
        self._overdue = None
        if self._flows():
            self._look()
            return
        self.doorstep.too_slow()
        self.transport.abort()

    def _flows(self) -> bool:
        """Whether an answer is still taken, or the body behind it still comes, if slowly.

        Aborted, a client would lose the rest of the one, or never read that it was refused.
        """
        unsent, came = self.transport.get_write_buffer_size(), self._came
        self._stalls = self._stalls + 1 if unsent == self._unsent else 0
        self._unsent, self._came = unsent, 0
        if unsent:
            return self._stalls < STALLS
        enough = came >= SLOWEST * self.doorstep.patience_s
        return enough and self.conn.their_state is h11.SEND_BODY
