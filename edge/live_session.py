"""One client's connection, from its place in the queue to its end: named loops in one task group."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Generic

import structlog

from antiphon.edge.admission import PlaceReport
from antiphon.edge.boarding import Admitted
from antiphon.edge.conduct import Conduct
from antiphon.edge.context import EdgeContext
from antiphon.edge.dialects import Dialect
from antiphon.edge.errors import (
    CLOSE_REASONS,
    ClientGone,
    Close,
    Draining,
    Replaced,
    SlowConsumer,
    explain,
)
from antiphon.edge.protocols.contract import Alarm, Command, Door, Finish, Machine
from antiphon.edge.session.notifications import (
    EdgeClosing,
    Ended,
    Granted,
    Place,
    Requested,
    SessionNotice,
    SessionReplaced,
)
from antiphon.edge.settings import Unsent
from antiphon.edge.transport.connection import ClientConnection
from antiphon.edge.transport.send_queue import AllSent
from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.states import EndReason
from antiphon.shared_schemas.stream_position import StreamPosition

log = structlog.get_logger()

_LAST_WORDS_S = 1.0
"""How long an ended session's stream has to deliver what the worker said last."""

_WORKER_SAYS_WHY = frozenset(
    {
        EndReason.STOPPED,
        EndReason.PAUSE_TIMEOUT,
        EndReason.CONTEXT_FULL,
        EndReason.SERVER_SHUTDOWN,
        EndReason.ERROR,
    }
)
"""Ends that a worker brings about itself, usually with a last entry in the stream."""

_FLUSH_S = 1.0
"""How long what a client sent before it left may take into its stream."""


class LiveSession(Generic[Command]):
    """Carries frames to the input stream and output entries to the client, as the machine decides."""

    def __init__(
        self,
        edge: EdgeContext,
        connection: ClientConnection,
        admitted: Admitted,
        door: Door[Command],
        machine: Machine[Command],
        dialect: Dialect,
        unsent: Unsent,
        alarms: Sequence[Alarm] = (),
    ) -> None:
        ticket = admitted.ticket
        self._edge = edge
        self._sid = admitted.seat.sid
        self._ticket = ticket
        self._connection = connection
        self._seat = admitted.seat
        self._door = door
        self._machine = machine
        self._unsent = unsent
        self._alarms = alarms
        self._past = admitted.hold.past if admitted.hold else None
        self._places = PlaceReport(ticket, told=self._past is not None)
        self._metrics = edge.metrics
        self._began = time.perf_counter()
        self._trace = admitted.trace
        self._conduct = Conduct(edge, connection, admitted, machine, dialect, unsent)
        self._ledger = self._conduct.ledger
        self._ready = asyncio.Event()
        self._granted = asyncio.Event()

    async def run(self) -> None:
        """Serve until the connection is closed; the session is over then, or waits for its client."""
        loops = [self._receive, self._forward, self._deliver, self._follow, self._ring]
        replaced = False
        try:
            async with asyncio.TaskGroup() as tasks:
                for loop in (self._begin, self._conduct.outbox.run):
                    tasks.create_task(self._guard(loop), name=f"{loop.__name__}:{self._sid}")
                for loop in loops:
                    work = self._guard(loop, after=self._ready)
                    tasks.create_task(work, name=f"{loop.__name__}:{self._sid}")
        except* AllSent:
            pass  # everything was said
        except* ClientGone:
            if not self._conduct.finished.is_set():
                self._conduct.reason = self._machine.gone()
        except* SlowConsumer:
            log.info("slow_consumer_closed")
            self._metrics.slow_consumers.inc()
            self._connection.force_close(Close.TRY_LATER, "slow_consumer")
        except* Replaced:
            replaced = True
            self._connection.force_close(Close.REPLACED, CLOSE_REASONS[Close.REPLACED])
        finally:
            if not replaced:
                self._leave()

    def _leave(self) -> None:
        """The session is over, unless its client has the means to come back."""
        number, ledger = self._ticket.number, self._ledger
        if ledger is None or self._conduct.finished.is_set() or not ledger.token_told:
            self._edge.terminator.end(self._sid, number, self._conduct.reason)
        else:
            self._edge.terminator.detach(self._sid, number, self._seat.connection)

    async def _guard(
        self, loop: Callable[[], Awaitable[None]], after: asyncio.Event | None = None
    ) -> None:
        """Whatever else goes wrong in a loop is told to the client, and closes its connection."""
        try:
            if after is not None:
                await after.wait()
            await loop()
        except (AllSent, ClientGone, SlowConsumer, Replaced):
            raise
        except Exception as error:  # noqa: BLE001 - one session's end must not be the process's
            self._conduct.fail(error)

    async def _begin(self) -> None:
        """A session that may be resumed is written down; one that is tells first what was missed."""
        if self._ledger and self._past:
            self._conduct.inbox.take_over(self._past)
            await self._connection.send(self._ledger.greeting(self._past))
            self._connection.probe(self._confirm)
            finish = await self._ledger.tell_again(self._past)
            if not self._machine.waiting:
                self._granted.set()
            if finish:
                self._conduct.finish(finish)
        elif self._ledger:
            self._ledger.begin()
        self._ready.set()

    def _confirm(self) -> None:
        """The client has its new token."""
        self._edge.terminator.confirm(self._sid, self._ticket.number, self._seat.connection)

    async def _receive(self) -> None:
        try:
            while True:
                frame = await self._connection.receive()
                if not self._conduct.finished.is_set():
                    await self._take(frame)
                await self._conduct.teller.room()
        except ClientGone:
            if self._ledger or self._granted.is_set():
                await self._conduct.inbox.flush(_FLUSH_S)
            raise

    async def _take(self, frame: str | bytes) -> None:
        began = time.perf_counter()
        try:
            self._conduct.do(self._machine.receive(await self._door.read(frame)))
            self._metrics.parse.observe(time.perf_counter() - began)
        except InvalidInput as error:
            self._metrics.refused_input.labels(error.code).inc()
            self._conduct.say_why(explain(error))

    async def _forward(self) -> None:
        if self._ledger is None:
            await self._granted.wait()
        await self._conduct.inbox.run()

    async def _deliver(self) -> None:
        await self._granted.wait()
        broker, limit, ledger = self._edge.broker, self._unsent.messages, self._ledger
        key = broker.keys.outbound(self._sid)
        start = ledger.heard if ledger else StreamPosition.before(self._ticket.number)
        async with broker.reader.subscribe(key, start, limit=limit) as entries:
            async for position, entry in entries:
                now_ms = broker.clock.now_ms()
                self._metrics.out_wait.observe(max(0.0, now_ms - entry.at) / 1000)
                self._conduct.do(self._machine.deliver(entry, now_ms), position)
                if self._trace:
                    self._trace.told(entry)
                await self._conduct.teller.room()
        raise SlowConsumer  # the subscription ended because too much was unread

    async def _follow(self) -> None:
        self._edge.events.start_waiting(expected=self._ticket.wait)
        while not self._conduct.finished.is_set():
            await self._hear(await self._seat.next_notice())

    async def _hear(self, news: SessionNotice) -> None:
        match news:
            case Place() if not self._granted.is_set():
                if place := self._places.worth_telling(news):
                    self._conduct.do(self._machine.placed(place))
            case Granted() if not self._granted.is_set():
                self._metrics.queue_wait.observe(time.perf_counter() - self._began)
                self._conduct.do(self._machine.granted())
                self._granted.set()
            case Ended(reason=reason):
                if self._granted.is_set() and reason in _WORKER_SAYS_WHY:
                    await self._last_words()
                self._conduct.do(self._machine.ended(reason))
            case EdgeClosing():
                self._close_down()
            case Requested(ask=ask):
                self._conduct.do(self._machine.asked(ask))
            case SessionReplaced():
                raise Replaced

    def _close_down(self) -> None:
        if self._ledger:  # the client comes back through another edge
            return self._conduct.outbox.close_after_sent(Close.RESTART)
        fault = replace(explain(Draining()), close=Close.RESTART)
        return self._conduct.say_why(fault, Finish(Close.RESTART, EndReason.SERVER_SHUTDOWN))

    async def _last_words(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_S):
                await self._conduct.finished.wait()

    async def _ring(self) -> None:
        for alarm in self._alarms:
            await asyncio.sleep(alarm.at - asyncio.get_running_loop().time())
            self._conduct.do(alarm.then())
