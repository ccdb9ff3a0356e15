"""Watches transitions and queue places for one edge and notifies the connections they concern."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum, auto

import structlog

from antiphon.broker.client import Broker
from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.resume_registry import ResumeRecord
from antiphon.edge.protocols.machine import QueuePlace
from antiphon.shared_schemas.registry import QueueSnapshot, SessionCommand, SessionEvent, Ticket
from antiphon.shared_schemas.states import EndReason, SessionState

log = structlog.get_logger()

_REFRESH_S = 3.0
"""Estimates shrink with time even when nothing happens."""

_COALESCE_S = 0.2
"""At most five snapshots per second, however many transitions there are."""

_UNEXPECTED_WAIT_S = 1.0
"""A client that was promised a free slot gets its place if it still waits after this time."""

_ETA_STEP_S = 1.0
"""A smaller change of an estimate is not sent."""

_MOVES_QUEUE = frozenset(
    {
        SessionState.QUEUED,
        SessionState.ASSIGNED,
        SessionState.RECOVERING,
        SessionState.ENDED,
    }
)

_CONTINUES = frozenset({SessionState.ASSIGNED, SessionState.RECOVERING})


@dataclass(frozen=True, slots=True)
class Ended:
    """The session is over; `reason` is None when its record is lost."""

    reason: EndReason | None


class Signal(Enum):
    """What happened to a session, or to its connection."""

    GRANTED = auto()
    """A worker holds the session, for the first time or after the loss of its worker."""
    EDGE_DRAINING = auto()
    """This edge accepts no new sessions, and closes its connections soon."""
    EDGE_CLOSING = auto()
    """This edge closes its connections now."""
    REPLACED = auto()
    """A newer connection has taken over the session."""


SessionNotice = QueuePlace | Ended | Signal | SessionCommand
"""A command came by HTTP instead of the session's connection."""


class SessionSubscription:
    """Notices of one session, in order; only the newest place. The ticket identifies the session.

    `connection` numbers the connections of a resumable session; it is 0 for other sessions.
    `waiting`: no worker holds the session, so its client gets places. `resumed`: what a failover may
    lose of a connection that has resumed the session.
    """

    def __init__(self, sid: str) -> None:
        self.sid = sid
        self.ticket: int | None = None
        self.connection = 0
        self.waiting = False
        self.resumed: ResumeRecord | None = None
        self._early: list[SessionEvent] = []
        self._notices: deque[SessionNotice] = deque()
        self._place: QueuePlace | None = None
        self._last_place: QueuePlace | None = None
        self._wake = asyncio.Event()

    def bind(
        self, ticket: int, connection: int = 0, *, granted: bool = False, recovering: bool = False
    ) -> None:
        """The session is queued under this number; apply the events that arrived before.

        `granted`: a worker has had the session. `recovering`: it has lost that worker.
        """
        self.ticket = ticket
        self.connection = connection
        self.waiting = True
        if granted:
            self.grant()
        if recovering:
            self.lose_worker()
        early, self._early = self._early, []
        for event in early:
            self.on_event(event)

    def on_event(self, event: SessionEvent) -> None:
        """A transition of a session with this id, perhaps of an earlier one."""
        if self.ticket is None:
            self._early.append(event)
        elif event.ticket != self.ticket:
            return
        elif event.ask is not None:
            self.notify(event.ask)
        elif event.state is SessionState.ASSIGNED:
            self.grant()
        elif event.state is SessionState.RECOVERING:
            self.lose_worker()
        elif event.state is SessionState.ENDED:
            self.end(event.reason)

    def grant(self) -> None:
        if self.waiting:
            self.waiting = False
            self._place = self._last_place = None
            self.notify(Signal.GRANTED)

    def lose_worker(self) -> None:
        """The session waits again. The next snapshot of the queue has its place."""
        self.waiting = True

    def end(self, reason: EndReason | None) -> None:
        self.waiting = False
        self.notify(Ended(reason))

    def update_place(self, place: QueuePlace) -> None:
        """Replaces a place that was not read yet."""
        if self.waiting:
            self._place = self._last_place = place
            self._wake.set()

    def mark_place_stale(self) -> None:
        """Redis is unavailable: repeat the last place with its mark."""
        if self._last_place is not None and not self._last_place.stale:
            self.update_place(replace(self._last_place, stale=True))

    async def next_notice(self) -> SessionNotice:
        while not self._notices and self._place is None:
            self._wake.clear()
            await self._wake.wait()
        if self._notices:
            return self._notices.popleft()
        place, self._place = self._place, None
        assert place is not None
        return place

    def notify(self, notice: SessionNotice) -> None:
        self._notices.append(notice)
        self._wake.set()


class SessionEvents:
    """The subscriptions of all connections that this edge serves."""

    def __init__(
        self, broker: Broker, edge_id: str, on_unserved: Callable[[SessionEvent], None]
    ) -> None:
        """`on_unserved`: called when a session without a connection here needs its client."""
        self._broker = broker
        self._edge_id = edge_id
        self._on_unserved = on_unserved
        self._subscriptions: dict[str, list[SessionSubscription]] = {}
        self._listeners: list[Callable[[list[SessionEvent]], None]] = []
        self._silent: set[tuple[str, int]] = set()
        self._stale = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    @contextmanager
    def subscribe(self, sid: str) -> Iterator[SessionSubscription]:
        """Subscribe one connection. Do so before the session is queued, or events are missed."""
        subscription = SessionSubscription(sid)
        self._subscriptions.setdefault(sid, []).append(subscription)
        self._empty.clear()
        try:
            yield subscription
        finally:
            self._subscriptions[sid].remove(subscription)
            if not self._subscriptions[sid]:
                del self._subscriptions[sid]
            if not self._subscriptions:
                self._empty.set()

    @contextmanager
    def listening(self, listener: Callable[[list[SessionEvent]], None]) -> Iterator[None]:
        """Call `listener` with every transition of the whole system."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    def start_waiting(self, *, expected: bool) -> None:
        """A session waits now: send places at once, or after a second if no wait was expected."""
        if expected:
            self._stale.set()
        else:
            asyncio.get_running_loop().call_later(_UNEXPECTED_WAIT_S, self._stale.set)

    def serving(self) -> list[tuple[str, int, int]]:
        """(sid, ticket, connection) of every connection here; 0 if the session is not resumable."""
        return [
            (each.sid, each.ticket, each.connection)
            for each in self._all()
            if each.ticket is not None
        ]

    def resumed(self, sids: set[str]) -> list[ResumeRecord]:
        """The resumes of these sessions by which connections here have them."""
        return [each.resumed for each in self._all() if each.resumed and each.sid in sids]

    def mark_replaced(self, sid: str, connection: int) -> None:
        """The session has this connection now: notify the earlier ones."""
        for subscription in self._subscriptions.get(sid, ()):
            if 0 < subscription.connection < connection:
                subscription.notify(Signal.REPLACED)

    def mark_ended(self, sid: str, ticket: int, reason: EndReason | None) -> None:
        """A heartbeat found the session over."""
        for subscription in self._subscriptions.get(sid, ()):
            if subscription.ticket == ticket:
                subscription.end(reason)

    def mark_silent(self, sessions: set[tuple[str, int]]) -> None:
        """A heartbeat found the workers of these (sid, ticket) silent.

        Their clients get places until the worker reports again, or another one takes over.
        """
        for subscription in self._all():
            if (subscription.sid, subscription.ticket) in sessions:
                subscription.lose_worker()
        if sessions or self._silent:
            self._stale.set()
        self._silent = sessions

    def drain(self) -> None:
        """Notify every connection that this edge shuts down soon."""
        self._notify_all(Signal.EDGE_DRAINING)

    def close(self) -> None:
        """Notify every connection that this edge shuts down."""
        self._notify_all(Signal.EDGE_CLOSING)

    def _notify_all(self, signal: Signal) -> None:
        for subscription in self._all():
            subscription.notify(signal)

    def is_empty(self) -> bool:
        """True while no connection is left."""
        return self._empty.is_set()

    async def wait_until_empty(self) -> None:
        """Return once no connection is left."""
        await self._empty.wait()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_events(), name="session-events")
            tasks.create_task(self._refresh_places(), name="queue-places")

    def _all(self) -> list[SessionSubscription]:
        return [each for several in self._subscriptions.values() for each in several]

    def _waiting(self) -> dict[str, SessionSubscription]:
        return {each.sid: each for each in self._all() if each.waiting}

    async def _follow_events(self) -> None:
        async for events in self._broker.events.follow():
            self._dispatch(events)

    def _dispatch(self, events: list[SessionEvent]) -> None:
        for event in events:
            subscriptions = self._subscriptions.get(event.sid, ())
            for subscription in subscriptions:
                subscription.on_event(event)
            if not subscriptions and event.edge == self._edge_id and event.state in _CONTINUES:
                self._on_unserved(event)
        for listener in self._listeners:
            listener(events)
        if any(event.state in _MOVES_QUEUE for event in events):
            self._stale.set()

    async def _refresh_places(self) -> None:
        while True:
            try:
                async with asyncio.timeout(_REFRESH_S):
                    await self._stale.wait()
            except TimeoutError:
                pass  # nothing happened: refresh the estimates
            self._stale.clear()
            if waiting := self._waiting():
                await self._update(waiting)
                await asyncio.sleep(_COALESCE_S)

    async def _update(self, waiting: dict[str, SessionSubscription]) -> None:
        """`waiting` was read before the snapshot, so every session in it is queued or past it."""
        try:
            snapshot = await self._broker.queue.snapshot()
        except BrokerUnavailable as error:
            log.warning("queue_snapshot_failed", error=str(error))
            for subscription in waiting.values():
                subscription.mark_place_stale()
            return
        update_places(snapshot, waiting)


def update_places(snapshot: QueueSnapshot, waiting: dict[str, SessionSubscription]) -> None:
    """Apply a snapshot. A session that runs is granted even if its event was missed."""
    places = {row.sid: row for row in snapshot.places}
    for sid, subscription in waiting.items():
        if row := places.get(sid):
            eta_s = None if row.eta_s is None else round(row.eta_s, 1)
            ticket_id = str(subscription.ticket)
            place = QueuePlace(ticket_id, row.position, len(places), eta_s, reason=row.reason)
            subscription.update_place(place)
    for job in snapshot.running:
        if job.sid in waiting and job.sid not in places:
            waiting[job.sid].grant()


class PlaceFilter:
    """Selects the places to send to a client: `queued` if it must wait, then each change.

    `known`: the client resumed and knows that it waits.
    """

    def __init__(
        self, ticket: Ticket, clock: Callable[[], float] = time.monotonic, *, known: bool = False
    ) -> None:
        self._ticket = ticket
        self._clock = clock
        self._known = known
        self._since = clock()
        self._sent: QueuePlace | None = None

    def select(self, place: QueuePlace) -> QueuePlace | None:
        """The place to send; None if it is not worth a message."""
        sent, waited_s = self._sent, self._clock() - self._since
        if sent is None:
            must_wait = self._known or self._ticket.wait or waited_s >= _UNEXPECTED_WAIT_S
            wanted = must_wait and not place.stale
        else:
            moved = replace(place, eta_s=sent.eta_s) != sent
            wanted = moved or abs((place.eta_s or 0.0) - (sent.eta_s or 0.0)) >= _ETA_STEP_S
        if not wanted:
            return None
        self._sent = place
        return replace(place, first=sent is None and not self._known)
