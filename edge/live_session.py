"""One client's connection, from its place in the queue to its end: named loops in one task group."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Generic, cast

import structlog

from edge.admission import PlaceReport
from edge.connection import Line
from edge.dialects import Dialect
from edge.errors import ClientGone, Draining, Fault, SlowConsumer, explain
from edge.inbox import Inbox
from edge.node import Edge
from edge.outbox import Outbox, SessionOver
from edge.protocols.contract import (
    Actions,
    Close,
    Command,
    Deadline,
    Door,
    Finish,
    Forward,
    Machine,
    Tell,
)
from edge.reception import Admitted
from edge.seats import Asked, Closing, Ended, Granted, News, Place
from edge.settings import Unsent
from shared_schemas.errors import InvalidInput
from shared_schemas.states import EndReason
from shared_schemas.stream_entries import OutEntry, StreamPosition
from shared_schemas.wire import encode

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
        edge: Edge,
        connection: Line,
        admitted: Admitted,
        door: Door[Command],
        machine: Machine[Command],
        dialect: Dialect,
        unsent: Unsent,
        deadline: Deadline | None = None,
    ) -> None:
        limits, ticket = edge.settings, admitted.ticket
        self._edge = edge
        self._sid = admitted.seat.sid
        self._ticket = ticket
        self._connection = connection
        self._seat = admitted.seat
        self._door = door
        self._machine = machine
        self._dialect = dialect
        self._unsent = unsent
        self._deadline = deadline
        self._places = PlaceReport(ticket)
        self._inbox = Inbox(edge.broker, self._sid, ticket.number, limits.broker_patience_s)
        self._outbox = Outbox(connection, unsent, limits.send_stall_s)
        self._granted = asyncio.Event()
        self._finished = asyncio.Event()
        self._reason = EndReason.CLIENT_GONE

    async def run(self) -> None:
        """Serve until the connection is closed; the session is over then."""
        loops = [self._receive, self._forward, self._deliver, self._follow, self._outbox.run]
        if self._deadline is not None:
            loops.append(self._expire)
        try:
            async with asyncio.TaskGroup() as tasks:
                for loop in loops:
                    tasks.create_task(self._guard(loop), name=f"{loop.__name__}:{self._sid}")
        except* SessionOver:
            pass  # everything was said
        except* ClientGone:
            if not self._finished.is_set():
                self._reason = self._machine.gone()
        except* SlowConsumer:
            log.info("slow_consumer_closed", sid=self._sid)
            self._connection.force_close(Close.TRY_LATER, "slow_consumer")
        finally:
            self._edge.endings.end(self._sid, self._ticket.number, self._reason)
            log.info("session_closed", sid=self._sid, reason=self._reason)

    async def _guard(self, loop: Callable[[], Awaitable[None]]) -> None:
        """Whatever else goes wrong in a loop is told to the client, and closes its connection."""
        try:
            await loop()
        except (SessionOver, ClientGone, SlowConsumer):
            raise
        except Exception as error:  # noqa: BLE001 - one session's end must not be the process's
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        fault = explain(error)
        if fault.expected:
            log.info("session_failed", sid=self._sid, error=str(error))
        else:
            log.error("session_crashed", sid=self._sid, exc_info=error)
        self._say_why(fault, Finish(fault.close or Close.INTERNAL, EndReason.ERROR))

    def _say_why(self, fault: Fault, *then: Finish) -> None:
        self._do([*(Tell(message) for message in self._dialect(fault)), *then])

    def _do(self, actions: Actions) -> None:
        for action in actions:
            if self._finished.is_set():
                return
            match action:
                case Tell(message=message):
                    self._outbox.put(encode(message))
                case Forward(entry=entry):
                    self._inbox.put(entry)
                case Finish(close=close, reason=reason):
                    self._reason = reason
                    self._finished.set()
                    self._outbox.finish(close)

    async def _receive(self) -> None:
        try:
            while True:
                frame = await self._connection.receive()
                if not self._finished.is_set():
                    await self._take(frame)
                await self._outbox.room()
        except ClientGone:
            if self._granted.is_set():
                await self._inbox.flush(_FLUSH_S)
            raise

    async def _take(self, frame: str | bytes) -> None:
        try:
            self._do(self._machine.receive(await self._door.read(frame)))
        except InvalidInput as error:
            self._say_why(explain(error))

    async def _forward(self) -> None:
        await self._granted.wait()
        await self._inbox.run()

    async def _deliver(self) -> None:
        await self._granted.wait()
        broker, limit = self._edge.broker, self._unsent.messages
        key, start = broker.keys.outbound(self._sid), StreamPosition.before(self._ticket.number)
        async with broker.reader.subscribe(key, start, limit=limit) as entries:
            async for _, entry in entries:
                answer = cast("OutEntry", entry)  # nothing else is ever written to this stream
                self._do(self._machine.deliver(answer, broker.clock.now_ms()))
                await self._outbox.room()
        raise SlowConsumer  # the subscription ended because too much was unread

    async def _follow(self) -> None:
        self._edge.watch.wait_begins(expected=self._ticket.wait)
        while not self._finished.is_set():
            await self._hear(await self._seat.news())

    async def _hear(self, news: News) -> None:
        match news:
            case Place():
                if place := self._places.worth_telling(news):
                    self._do(self._machine.placed(place))
            case Granted():
                self._do(self._machine.granted())
                self._granted.set()
            case Ended(reason=reason):
                if self._granted.is_set() and reason in _WORKER_SAYS_WHY:
                    await self._last_words()
                self._do(self._machine.ended(reason))
            case Closing():
                fault = replace(explain(Draining()), close=Close.RESTART)
                self._say_why(fault, Finish(Close.RESTART, EndReason.SERVER_SHUTDOWN))
            case Asked(ask=ask):
                self._do(self._machine.asked(ask))

    async def _last_words(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_S):
                await self._finished.wait()

    async def _expire(self) -> None:
        assert self._deadline is not None
        await asyncio.sleep(self._deadline.at - asyncio.get_running_loop().time())
        self._do(self._deadline.then())
