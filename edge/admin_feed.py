"""The live feed of the admin page: a snapshot of the system, at most once per second.

Tables are workers, queue, sessions and edges; rows are by id.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import structlog

from antiphon.broker.client import Broker
from antiphon.broker.errors import BrokerUnavailable
from antiphon.edge.session_events import SessionEvents
from antiphon.shared_schemas.registry import (
    EdgeSnapshot,
    QueuedSession,
    QueueSnapshot,
    RunningSession,
    SessionEvent,
    WorkerRow,
)

log = structlog.get_logger()

_REFRESH_S = 1.0
_KEEPALIVE_S = 10.0
_MAX_EVENTS = 300

JsonObject = dict[str, object]
Table = dict[str, JsonObject]


@dataclass(frozen=True, slots=True)
class FeedMessage:
    """`snapshot`: all tables, first with the newest events. `events`: later session events.

    `alive`: keep-alive without data.
    """

    name: str
    data: JsonObject


@dataclass(frozen=True, slots=True)
class SystemSnapshot:
    """The system at Redis-clock ms `at`; outdated if `redis` is False."""

    at: int = 0
    redis: bool = False
    tables: dict[str, Table] = field(default_factory=dict)

    def full(self) -> JsonObject:
        return {"at": self.at, "redis": self.redis, **self.tables}

    def differs(self, before: "SystemSnapshot") -> bool:
        """Apart from its time."""
        return (self.redis, self.tables) != (before.redis, before.tables)


class AdminFeed:
    """Takes snapshots while at least one client reads the feed.

    Nothing is queued for a client: it gets the newest snapshot. A slow client gets fewer messages and
    misses only events older than the newest 300.
    """

    def __init__(self, broker: Broker, watch: SessionEvents) -> None:
        self._broker = broker
        self._watch = watch
        self._readers = 0
        self._refreshing: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._closed = False
        self._reset()

    async def messages(self) -> AsyncGenerator[FeedMessage, None]:
        """For one client, until the feed is closed. Close the generator to leave early."""
        with self._reading() as refreshing:
            reader = _FeedReader()
            while not self._closed:
                changed = self._changed  # taken before reading, so that no change is missed
                for message in reader.catch_up(self._snapshot, self._events):
                    yield message
                try:
                    await asyncio.wait_for(changed.wait(), _KEEPALIVE_S)
                except TimeoutError:
                    yield FeedMessage("alive", {})
                if refreshing.done():
                    refreshing.result()

    def close(self) -> None:
        """End the feed of every client."""
        self._closed = True
        self._notify()

    @contextmanager
    def _reading(self) -> Iterator[asyncio.Task[None]]:
        self._readers += 1
        if self._refreshing is None:
            self._refreshing = asyncio.create_task(self._run(), name="admin-feed")
        try:
            yield self._refreshing
        finally:
            self._readers -= 1
            if self._readers == 0:
                self._refreshing.cancel()
                self._refreshing = None
                self._reset()

    def _reset(self) -> None:
        self._snapshot: SystemSnapshot | None = None
        self._events: deque[SessionEvent] = deque(maxlen=_MAX_EVENTS)
        self._has_past_events = False

    async def _run(self) -> None:
        try:
            with self._watch.listening(self._add_events):
                while True:
                    await self._refresh()
                    await asyncio.sleep(_REFRESH_S)
        finally:
            self._notify()

    async def _refresh(self) -> None:
        try:
            if not self._has_past_events:
                await self._load_past_events()
            registry, queue = self._broker.registry, self._broker.queue
            self._snapshot = take_snapshot(await queue.snapshot(), await registry.edges())
        except BrokerUnavailable as error:
            log.warning("live_view_failed", error=str(error))
            self._snapshot = replace(self._snapshot or SystemSnapshot(), redis=False)
        self._notify()

    async def _load_past_events(self) -> None:
        past = await self._broker.events.recent(_MAX_EVENTS)
        known = {event.id for event in past}
        newer = [event for event in self._events if event.id not in known]
        self._events = deque([*past, *newer], _MAX_EVENTS)
        self._has_past_events = True

    def _add_events(self, events: list[SessionEvent]) -> None:
        self._events.extend(events)
        self._notify()

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


class _FeedReader:
    """What one client has received."""

    def __init__(self) -> None:
        self._snapshot: SystemSnapshot | None = None
        self._last_event = ""

    def catch_up(
        self, snapshot: SystemSnapshot | None, events: deque[SessionEvent]
    ) -> list[FeedMessage]:
        """Messages that the client lacks; none before the first snapshot."""
        if snapshot is None:
            return []
        before, self._snapshot = self._snapshot, snapshot
        new = self._new_events(events)
        if before is None:
            return [FeedMessage("snapshot", {**snapshot.full(), "events": new})]
        messages = [FeedMessage("snapshot", snapshot.full())] if snapshot.differs(before) else []
        return [*messages, FeedMessage("events", {"events": new})] if new else messages

    def _new_events(self, events: deque[SessionEvent]) -> list[JsonObject]:
        new: list[JsonObject] = []
        for event in reversed(events):
            if event.id == self._last_event:
                break
            new.append(_event_row(event))
        if events:
            self._last_event = events[-1].id
        return new[::-1]


def take_snapshot(snapshot: QueueSnapshot, edges: EdgeSnapshot) -> SystemSnapshot:
    """Rows contain no ages, so that an unchanged system is not sent again."""
    latency = {sid: one for worker in snapshot.workers for sid, one in worker.latency.items()}
    sessions = {job.sid: _session_row(job) for job in snapshot.running}
    for sid, row in sessions.items():
        row["latency"] = latency.get(sid)
    return SystemSnapshot(
        snapshot.at,
        redis=True,
        tables={
            "workers": {worker.id: _worker_row(worker) for worker in snapshot.workers},
            "queue": {str(row.ticket): _waiting_row(row) for row in snapshot.waiting},
            "sessions": sessions,
            "edges": {edge.id: {"sessions": edge.sessions} for edge in edges.edges},
        },
    )


def _row(source: object, *names: str) -> JsonObject:
    return {name: getattr(source, name) for name in names}


def _event_row(event: SessionEvent) -> JsonObject:
    fields = ("id", "at", "kind", "state", "attempt", "edge", "worker", "recording", "reason")
    return {"session": event.sid, **_row(event, *fields, "ask")}


def _worker_row(worker: WorkerRow) -> JsonObject:
    fields = ("state", "open", "detail", "engine", "model", "device", "memory", "slots", "used")
    return {"kinds": sorted(worker.kinds), **_row(worker, *fields, "counters")}


def _waiting_row(waiting: QueuedSession) -> JsonObject:
    row = _row(waiting, "kind", "state", "position", "queued_at", "reason")
    eta_s = None if waiting.eta_s is None else round(waiting.eta_s)
    return {"session": waiting.sid, "eta_s": eta_s, **row}


def _session_row(job: RunningSession) -> JsonObject:
    return _row(job, "kind", "state", "worker", "assigned_at", "attempt", "resumes")
