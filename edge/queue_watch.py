"""One watcher per edge: transitions and queue places, fanned out to the connections they concern."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog

from antiphon.broker.client import Broker
from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.lifecycle import follow
from antiphon.broker.retry import persist
from antiphon.edge.seats import Place, Seat
from antiphon.shared_schemas.lifecycle import SessionEvent
from antiphon.shared_schemas.registry import QueueSnapshot
from antiphon.shared_schemas.states import EndReason, SessionState

log = structlog.get_logger()

_REFRESH_S = 3.0
"""Estimates shrink with time even when nothing happens."""

_COALESCE_S = 0.2
"""At most five snapshots a second, however much happens."""

_UNEXPECTED_WAIT_S = 1.0
"""A client that was promised a free slot is told of the queue when it still waits after this."""

_MOVES_QUEUE = frozenset(
    {
        SessionState.QUEUED,
        SessionState.ASSIGNED,
        SessionState.RECOVERING,
        SessionState.ENDED,
    }
)


class QueueWatch:
    """The seats of every connection that this edge serves."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._seats: dict[str, list[Seat]] = {}
        self._listeners: list[Callable[[list[SessionEvent]], None]] = []
        self._stale = asyncio.Event()
        self._vacant = asyncio.Event()
        self._vacant.set()

    @contextmanager
    def seat(self, sid: str) -> Iterator[Seat]:
        """A seat for one connection; taken before the session is queued, so that nothing is missed."""
        seat = Seat(sid)
        self._seats.setdefault(sid, []).append(seat)
        self._vacant.clear()
        try:
            yield seat
        finally:
            self._seats[sid].remove(seat)
            if not self._seats[sid]:
                del self._seats[sid]
            if not self._seats:
                self._vacant.set()

    @contextmanager
    def listening(self, listener: Callable[[list[SessionEvent]], None]) -> Iterator[None]:
        """Have every transition of the whole system told to `listener`, as it happens."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    def wait_begins(self, *, expected: bool) -> None:
        """Someone waits from now on: show places at once, or soon if no wait was expected."""
        if expected:
            self._stale.set()
        else:
            asyncio.get_running_loop().call_later(_UNEXPECTED_WAIT_S, self._stale.set)

    def serving(self) -> list[tuple[str, int]]:
        """(sid, ticket) of every session with a connection here."""
        return [(seat.sid, seat.ticket) for seat in self._all() if seat.ticket is not None]

    def resumable(self) -> list[tuple[str, int, int]]:
        """(sid, ticket, connection) of every connection here whose client may come back."""
        return [
            (seat.sid, seat.ticket, seat.connection)
            for seat in self._all()
            if seat.ticket is not None and seat.connection
        ]

    def replaced(self, sid: str, connection: int) -> None:
        """A session has this connection now: earlier ones here are to close."""
        for seat in self._seats.get(sid, ()):
            if 0 < seat.connection < connection:
                seat.supersede()

    def lost(self, sid: str, ticket: int, reason: EndReason | None) -> None:
        """A heartbeat found the session over."""
        for seat in self._seats.get(sid, ()):
            if seat.ticket == ticket:
                seat.end(reason)

    def close(self) -> None:
        """Tell every connection that this edge shuts down."""
        for seat in self._all():
            seat.close()

    async def vacated(self) -> None:
        """Return once no connection is left."""
        await self._vacant.wait()

    async def run(self) -> None:
        """Watch for ever."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_events(), name="queue-watch-events")
            tasks.create_task(self._show_places(), name="queue-watch-places")

    def _all(self) -> list[Seat]:
        return [seat for seats in self._seats.values() for seat in seats]

    def _waiting(self) -> dict[str, Seat]:
        return {seat.sid: seat for seat in self._all() if seat.waiting}

    async def _follow_events(self) -> None:
        watch = await persist(self._broker.watch_events, "watch events")
        try:
            async for events in follow(watch):
                self._route(events)
        finally:
            await watch.close()

    def _route(self, events: list[SessionEvent]) -> None:
        for event in events:
            for seat in self._seats.get(event.sid, ()):
                seat.moved(event)
        for listener in self._listeners:
            listener(events)
        if any(event.state in _MOVES_QUEUE for event in events):
            self._stale.set()

    async def _show_places(self) -> None:
        while True:
            try:
                async with asyncio.timeout(_REFRESH_S):
                    await self._stale.wait()
            except TimeoutError:
                pass  # nothing happened: refresh the estimates
            self._stale.clear()
            if waiting := self._waiting():
                await self._show(waiting)
                await asyncio.sleep(_COALESCE_S)

    async def _show(self, waiting: dict[str, Seat]) -> None:
        """`waiting` was collected before the snapshot, so each of them is in it or is past it."""
        try:
            snapshot = await self._broker.queue.snapshot()
        except BrokerUnavailable as error:
            log.warning("queue_snapshot_failed", error=str(error))
            return
        show_places(snapshot, waiting)


def show_places(snapshot: QueueSnapshot, waiting: dict[str, Seat]) -> None:
    """Hand out the places of one snapshot; whoever runs already is granted, even if no event said so."""
    length = len(snapshot.waiting)
    for row in snapshot.waiting:
        if seat := waiting.get(row.sid):
            seat.show(Place(row.position, length, round(row.eta_s, 1)))
    for job in snapshot.running:
        if seat := waiting.get(job.sid):
            seat.grant()
