"""Where one connection hears what becomes of its session."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from antiphon.shared_schemas.lifecycle import Ask, SessionEvent
from antiphon.shared_schemas.states import EndReason, SessionState


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the queue. `position` is 1-based; `eta_s` seconds until a slot should be free."""

    position: int
    queue_length: int
    eta_s: float


@dataclass(frozen=True, slots=True)
class Granted:
    """A worker holds the session."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The session is over; `reason` is None when its record is lost."""

    reason: EndReason | None


@dataclass(frozen=True, slots=True)
class Closing:
    """This edge shuts down now."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Someone beside the client asks for something."""

    ask: Ask


@dataclass(frozen=True, slots=True)
class Superseded:
    """The client has another connection to its session by now."""


News = Place | Granted | Ended | Closing | Asked | Superseded


class Seat:
    """News of one session, in order; of places only the newest. Knows its own session by the ticket.

    `connection` numbers those of a session that may be resumed; 0 for others.
    """

    def __init__(self, sid: str) -> None:
        self.sid = sid
        self.ticket: int | None = None
        self.connection = 0
        self.waiting = False
        self._early: list[SessionEvent] = []
        self._news: deque[News] = deque()
        self._place: Place | None = None
        self._wake = asyncio.Event()

    def take(self, ticket: int, connection: int = 0) -> None:
        """The session stands in the queue under this number; what happened meanwhile counts."""
        self.ticket = ticket
        self.connection = connection
        self.waiting = True
        early, self._early = self._early, []
        for event in early:
            self.moved(event)

    def moved(self, event: SessionEvent) -> None:
        """A transition of a session with this id, perhaps of an earlier one."""
        if self.ticket is None:
            self._early.append(event)
        elif event.ticket == self.ticket and event.ask is not None:
            self._tell(Asked(event.ask))
        elif event.ticket == self.ticket and event.state is SessionState.ASSIGNED:
            self.grant()
        elif event.ticket == self.ticket and event.state is SessionState.ENDED:
            self.end(event.reason)

    def grant(self) -> None:
        """A worker holds it; only the first one is news."""
        if self.waiting:
            self.waiting = False
            self._place = None
            self._tell(Granted())

    def end(self, reason: EndReason | None) -> None:
        """It is over."""
        self.waiting = False
        self._tell(Ended(reason))

    def supersede(self) -> None:
        """Another connection has the session."""
        self._tell(Superseded())

    def close(self) -> None:
        """The edge shuts down."""
        self._tell(Closing())

    def show(self, place: Place) -> None:
        """A new place in the queue, in place of one not heard of yet."""
        if self.waiting:
            self._place = place
            self._wake.set()

    async def news(self) -> News:
        """Wait for the next piece of news."""
        while not self._news and self._place is None:
            self._wake.clear()
            await self._wake.wait()
        if self._news:
            return self._news.popleft()
        place, self._place = self._place, None
        assert place is not None
        return place

    def _tell(self, news: News) -> None:
        self._news.append(news)
        self._wake.set()
