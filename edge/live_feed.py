"""One look a second at the whole system, shared by everyone who watches it at this edge."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import structlog

from antiphon.broker.client import Broker
from antiphon.broker.errors import BrokerUnavailable
from antiphon.edge.live_view import Row, View, event_row, view_of
from antiphon.edge.session.notifications import SessionEvents
from antiphon.shared_schemas.lifecycle import SessionEvent

log = structlog.get_logger()

_LOOK_EVERY_S = 1.0
_SILENT_S = 10.0
_EVENTS_KEPT = 300


@dataclass(frozen=True, slots=True)
class Message:
    """`snapshot`: everything, first of all. `change`: what is different. `events`: what happened."""

    name: str
    data: Row


class LiveFeed:
    """Looks while anyone watches, and not otherwise.

    Nothing is queued for a watcher: each is told how the newest view differs from the one it has, so
    that a slow one gets fewer messages, and misses none but events beyond the newest 300.
    """

    def __init__(self, broker: Broker, watch: SessionEvents) -> None:
        self._broker = broker
        self._watch = watch
        self._watchers = 0
        self._looking: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._closed = False
        self._forget()

    async def messages(self) -> AsyncGenerator[Message, None]:
        """For one watcher, until the feed is closed. To be closed where it is left early."""
        with self._watching() as looking:
            told = _Watcher()
            while not self._closed:
                news = self._news  # before looking, so that nothing falls between
                for message in told.catch_up(self._view, self._events):
                    yield message
                if not await _within(_SILENT_S, news):
                    yield Message("alive", {})
                if looking.done():
                    looking.result()

    def close(self) -> None:
        """Let every watcher go."""
        self._closed = True
        self._tell()

    @contextmanager
    def _watching(self) -> Iterator[asyncio.Task[None]]:
        self._watchers += 1
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(), name="live-feed")
        try:
            yield self._looking
        finally:
            self._watchers -= 1
            if self._watchers == 0:
                self._looking.cancel()
                self._looking = None
                self._forget()

    def _forget(self) -> None:
        self._view: View | None = None
        self._events: deque[SessionEvent] = deque(maxlen=_EVENTS_KEPT)
        self._knows_past = False

    async def _look(self) -> None:
        try:
            with self._watch.listening(self._happened):
                while True:
                    await self._refresh()
                    await asyncio.sleep(_LOOK_EVERY_S)
        finally:
            self._tell()

    async def _refresh(self) -> None:
        try:
            if not self._knows_past:
                await self._read_past()
            registry, queue = self._broker.registry, self._broker.queue
            self._view = view_of(await queue.snapshot(), await registry.edges())
        except BrokerUnavailable as error:
            log.warning("live_view_failed", error=str(error))
            self._view = replace(self._view or View(), redis=False)
        self._tell()

    async def _read_past(self) -> None:
        past = await self._broker.recent_events(_EVENTS_KEPT)
        known = {event.id for event in past}
        newer = [event for event in self._events if event.id not in known]
        self._events = deque([*past, *newer], _EVENTS_KEPT)
        self._knows_past = True

    def _happened(self, events: list[SessionEvent]) -> None:
        self._events.extend(events)
        self._tell()

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()


class _Watcher:
    """What one of them has been told."""

    def __init__(self) -> None:
        self._view: View | None = None
        self._event = ""

    def catch_up(self, view: View | None, events: deque[SessionEvent]) -> list[Message]:
        """What it lacks; nothing before the first view."""
        if view is None:
            return []
        before, self._view = self._view, view
        happened = self._happened(events)
        if before is None:
            return [Message("snapshot", {**view.whole(), "events": happened})]
        change = view.since(before)
        told = [Message("change", change)] if change else []
        return [*told, Message("events", {"events": happened})] if happened else told

    def _happened(self, events: deque[SessionEvent]) -> list[Row]:
        new: list[Row] = []
        for event in reversed(events):
            if event.id == self._event:
                break
            new.append(event_row(event))
        if events:
            self._event = events[-1].id
        return new[::-1]


async def _within(seconds: float, event: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
