"""One client's session at this edge: named loops in one task group, from the queue to the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Generic

import structlog

from antiphon.broker.connections.client import retry_until_available
from antiphon.broker.errors import BrokerUnavailable, StaleFence
from antiphon.edge.context import EdgeContext
from antiphon.edge.errors import (
    CLOSE_REASONS,
    SHUTDOWN,
    ChatRequested,
    ClientGone,
    Close,
    Fault,
    Replaced,
    ResumeExpired,
    SlowConsumer,
    explain,
)
from antiphon.edge.protocols.machine import (
    Actions,
    Command,
    CommandDecoder,
    ErrorEncoder,
    Finish,
    Forward,
    QueuePlace,
    Send,
    SessionMachine,
    encode_error,
)
from antiphon.edge.session.admission import (
    AdmittedSession,
    ConnectOptions,
    PlaceFilter,
    SessionRequest,
    admit,
)
from antiphon.edge.session.input_writer import InputWriter
from antiphon.edge.session.sender import AllSent, ResumableSender, SendQueue
from antiphon.edge.session_events import Ended, SessionNotice, Signal
from antiphon.edge.settings import capabilities
from antiphon.edge.transport.connection import ClientConnection
from antiphon.shared_schemas.entries import (
    ChatDoneOut,
    DeltaOut,
    InEntry,
    OutEntry,
    ResultOut,
    StreamPosition,
)
from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.registry import SessionCommand
from antiphon.shared_schemas.states import EndReason

log = structlog.get_logger()

_LAST_ENTRY_S = 1.0
"""How long to wait for the worker's last entry after the session ended."""

_WORKER_REPORTS = frozenset(
    {
        EndReason.STOPPED,
        EndReason.PAUSE_TIMEOUT,
        EndReason.CONTEXT_FULL,
        EndReason.SERVER_SHUTDOWN,
        EndReason.ERROR,
    }
)
"""Ends that a worker causes, usually with a last entry in the stream."""

_FLUSH_S = 1.0
"""How long to write the input of a client that left."""


@dataclass(frozen=True, slots=True)
class ProtocolSpec(Generic[Command]):
    """What a session needs to know about one protocol."""

    start: Callable[
        [EdgeContext, AdmittedSession, InEntry | None],
        tuple[CommandDecoder[Command], SessionMachine[Command]],
    ]
    """The last argument is the input that the client sent before its session was admitted."""
    encode_error: ErrorEncoder = encode_error
    turns: bool = False
    """Answers are sent as fast as they are generated, so a client may lag further behind."""


async def serve_session(
    context: EdgeContext,
    connection: ClientConnection,
    spec: ProtocolSpec[Command],
    request: SessionRequest,
    options: ConnectOptions,
    read_first: Callable[[], Awaitable[InEntry | None]] | None = None,
) -> None:
    """Admit and serve one connection. Raises what `admit`, `read_first` and `EdgeSession.run` raise."""
    first = await read_first() if read_first else None
    async with admit(context, request, options) as admitted:
        decoder, machine = spec.start(context, admitted, first)
        del first  # a chat's media: the machine frees them with the grant
        await EdgeSession(context, connection, admitted, spec, decoder, machine).run()


class EdgeSession(Generic[Command]):
    """Carries frames to the input stream and output entries to the client, as its machine decides."""

    def __init__(
        self,
        context: EdgeContext,
        connection: ClientConnection,
        admitted: AdmittedSession,
        spec: ProtocolSpec[Command],
        decoder: CommandDecoder[Command],
        machine: SessionMachine[Command],
    ) -> None:
        settings, metrics = context.settings, context.metrics
        self._context = context
        self._connection = connection
        self._sid = admitted.sid
        self._ticket = admitted.ticket
        self._subscription = admitted.subscription
        self._machine = machine
        self._decoder = decoder
        self._unsent = settings.unsent_turns if spec.turns else settings.unsent
        self._metrics = metrics
        self._trace = admitted.trace
        self._missed = admitted.resume.missed if admitted.resume else None
        self._places = PlaceFilter(admitted.ticket, known=self._missed is not None)
        number, patience_s = admitted.ticket.number, settings.broker_patience_s
        self._writer = InputWriter(
            context.broker, self._sid, number, patience_s, metrics.append, admitted.trace
        )
        offer = capabilities(settings) if admitted.options.capabilities else None
        to_queue = None if admitted.resume else offer
        self._queue = SendQueue(
            connection, self._unsent, settings.send_stall_s, metrics.send, to_queue
        )
        self._sender: SendQueue | ResumableSender = self._queue
        self._resumable: ResumableSender | None = None
        if admitted.resume:
            self._sender = self._resumable = ResumableSender(
                machine, self._writer, self._queue, admitted.resume.token, number, offer
            )
        self._began = time.perf_counter()
        self._reason = EndReason.CLIENT_GONE
        self._finished = asyncio.Event()
        self._delivered = StreamPosition.before(number)
        self._ready = asyncio.Event()
        self._granted = asyncio.Event()

    async def run(self) -> None:
        """Serve until the connection is closed; the session is over then, or can be resumed.

        Raises ChatRequested, with the session over and the connection open.
        """
        begin, granted = self._ready, self._granted
        loops: dict[str, tuple[Callable[[], Awaitable[None]], asyncio.Event | None]] = {
            "begin": (self._begin, None),
            "send": (self._queue.run, None),
            "receive": (self._receive, begin),
            "write-input": (self._writer.run, begin if self._resumable else granted),
            "deliver": (self._deliver, granted),
            "follow-events": (self._follow_events, begin),
            "watch-deadlines": (self._watch_deadlines, begin),
        }
        replaced = chats = False
        cancelled = _this_task().cancelling()
        try:
            async with asyncio.TaskGroup() as tasks:
                for name, (loop, after) in loops.items():
                    tasks.create_task(self._run_loop(loop, after), name=f"{name}:{self._sid}")
        except* AllSent:
            pass
        except* ClientGone:
            if not self._finished.is_set():
                self._reason = self._machine.client_gone()
        except* SlowConsumer:
            log.info("slow_consumer_closed")
            self._metrics.slow_consumers.inc()
            self._connection.force_close(Close.TRY_LATER, "slow_consumer")
        except* ChatRequested:
            chats, self._reason = True, EndReason.STOPPED
            self._finished.set()
        except* Replaced:
            replaced = True
            self._connection.force_close(Close.REPLACED, CLOSE_REASONS[Close.REPLACED])
        finally:
            if not replaced:
                self._leave()
        _uncancel(cancelled)
        if chats:
            raise ChatRequested(queue_done=self._granted.is_set())

    @property
    def _can_resume(self) -> bool:
        """The client has a token, from this connection or from an earlier one."""
        resumable = self._resumable
        return resumable is not None and (resumable.token_sent or self._missed is not None)

    def _leave(self) -> None:
        """End the session, or detach it if its client can resume it."""
        number, terminator = self._ticket.number, self._context.terminator
        if self._can_resume and not self._finished.is_set():
            subscription = self._subscription
            terminator.detach(self._sid, number, subscription.connection, subscription.resumed)
        else:
            terminator.end(self._sid, number, self._reason)

    async def _run_loop(
        self, loop: Callable[[], Awaitable[None]], after: asyncio.Event | None
    ) -> None:
        """Run a loop once `after` is set. Report errors that `run` does not expect, and close."""
        try:
            if after is not None:
                await after.wait()
            await loop()
        except (AllSent, ChatRequested, ClientGone, SlowConsumer, Replaced):
            raise
        except Exception as error:  # noqa: BLE001 - must end one session, not the process
            self._fail(error)

    async def _begin(self) -> None:
        """Write the first checkpoint of a resumable session, or send what a resumed one missed."""
        if self._resumable and self._missed:
            self._writer.take_over(self._missed)
            messages = self._missed.messages(self._machine)
            first = await anext(messages, None)  # a resume that must fail fails here
            self._metrics.resumes.labels("resumed").inc()
            connection = self._subscription.connection
            log.info("session_resumed", connection=connection, seq=self._missed.last)
            greeting = self._resumable.greeting(self._missed)
            await self._connection.send(self._connection.encoding.encode(greeting))
            self._connection.probe(self._confirm_token)
            finish = await self._resumable.send_missed(self._missed, first, messages)
            if not self._machine.waiting:
                self._granted.set()
            if finish:
                self._finish(finish)
        elif self._resumable:
            self._resumable.begin()
        self._ready.set()

    def _confirm_token(self) -> None:
        subscription = self._subscription
        if subscription.resumed:
            subscription.resumed = replace(subscription.resumed, before="")
        self._context.terminator.confirm(self._sid, self._ticket.number, subscription.connection)

    async def _receive(self) -> None:
        try:
            while True:
                frame = await self._connection.receive()
                if not self._finished.is_set():
                    began = time.perf_counter()
                    try:
                        self._apply(self._machine.receive(await self._decoder.decode(frame)))
                        self._metrics.parse.observe(time.perf_counter() - began)
                    except InvalidInput as error:
                        self._metrics.refused_input.labels(error.code).inc()
                        self._report(explain(error))
                del frame  # the next wait would keep it in memory
                await self._sender.wait_for_space()
        except ClientGone:
            if self._resumable or self._granted.is_set():
                await self._writer.flush(_FLUSH_S)
            raise

    async def _deliver(self) -> None:
        broker, limit = self._context.broker, self._unsent.messages
        key = broker.keys.outbound(self._sid)
        if self._resumable:
            self._delivered = self._resumable.delivered
        patience_s = self._context.settings.broker_patience_s
        async with broker.reader.subscribe(
            key, self._delivered, limit=limit, patience_s=patience_s
        ) as entries:
            async for position, answer in entries:
                self._deliver_entry(position, answer)
                del answer  # the next wait would keep its audio in memory
                await self._sender.wait_for_space()
        raise SlowConsumer  # the subscription ends when too many entries are unread

    async def _deliver_rest(self) -> None:
        """Deliver what the subscription has not read of an ended session, for example after an outage."""
        broker = self._context.broker
        history = broker.streams.history(
            broker.keys.outbound(self._sid), self._ticket.number, self._delivered
        )
        async for position, answer in history:
            self._deliver_entry(position, answer)
            await self._sender.wait_for_space()

    def _deliver_entry(self, position: StreamPosition, answer: OutEntry) -> None:
        if not position.follows(self._delivered):
            return
        self._delivered = position
        now_ms = self._context.broker.clock.now_ms()
        self._metrics.out_wait.observe(max(0.0, now_ms - answer.at) / 1000)
        self._apply(self._machine.deliver(answer, now_ms), position)
        if isinstance(answer, ResultOut | DeltaOut | ChatDoneOut) and answer.first_audio:
            sent_ms = self._context.broker.clock.now_ms()
            self._metrics.observe_first_audio(answer.first_audio, sent_ms)
        if self._trace:
            self._trace.record_output(answer)

    async def _follow_events(self) -> None:
        self._context.events.start_waiting(expected=self._ticket.wait)
        while not self._finished.is_set():
            await self._on_notice(await self._subscription.next_notice())

    async def _on_notice(self, notice: SessionNotice) -> None:
        match notice:
            case QueuePlace():
                if place := self._places.select(notice):
                    self._report_place(place)
            case Signal.GRANTED if not self._granted.is_set():
                self._metrics.queue_wait.observe(time.perf_counter() - self._began)
                self._places = PlaceFilter(self._ticket, known=True)
                self._apply(self._machine.granted())
                self._granted.set()
            case Signal.GRANTED if not self._subscription.waiting:
                self._places = PlaceFilter(self._ticket, known=True)
                self._apply(self._machine.worker_replaced(str(self._ticket.number)))
            case Ended(reason=reason):
                if self._granted.is_set():
                    await self._await_last_entry(reason)
                self._apply(self._machine.ended(reason))
            case Signal.EDGE_CLOSING:
                self._close_for_shutdown()
            case SessionCommand():
                self._apply(self._machine.commanded(notice))
            case Signal.REPLACED:
                raise Replaced

    async def _await_last_entry(self, reason: EndReason | None) -> None:
        """Raises BrokerUnavailable if Redis does not return in time with what the worker has sent."""
        if reason in _WORKER_REPORTS:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_ENTRY_S):
                    await self._finished.wait()
        if not self._finished.is_set():
            await retry_until_available(
                self._deliver_rest,
                "read the last answers of a session",
                patience_s=self._context.settings.broker_patience_s,
            )

    def _report_place(self, place: QueuePlace) -> None:
        if place.stale:
            for action in self._machine.placed(place):
                if isinstance(action, Send):
                    self._sender.send_unnumbered(action.message)
        elif self._granted.is_set():
            self._apply(self._machine.worker_lost(place))
        else:
            self._apply(self._machine.placed(place))

    def _close_for_shutdown(self) -> None:
        if self._resumable:  # the client resumes at another edge
            return self._queue.close_after_sent(Close.RESTART)
        return self._report(SHUTDOWN, Finish(Close.RESTART, EndReason.SERVER_SHUTDOWN))

    async def _watch_deadlines(self) -> None:
        for deadline in self._machine.deadlines():
            await asyncio.sleep(deadline.at - asyncio.get_running_loop().time())
            self._apply(deadline.act())

    def _apply(self, actions: Actions, delivered: StreamPosition | None = None) -> None:
        """Execute the actions of one event; `delivered`: the event was the output entry there."""
        if self._finished.is_set():
            return
        for action in actions:
            match action:
                case Send(message=message):
                    self._sender.send(message)
                case Forward(entry=entry):
                    self._writer.put(entry)
                case Finish():
                    self._finish(action)
                    return
        if self._resumable:
            self._resumable.commit(delivered)

    def _finish(self, finish: Finish) -> None:
        """The session is over; its connection closes after the queued messages."""
        self._reason = finish.reason
        self._finished.set()
        if self._resumable:
            self._resumable.flush()
        self._queue.close_after_sent(finish.close)

    def _report(self, fault: Fault, *finish: Finish) -> None:
        self._apply([*self._machine.report(fault), *finish])

    def _fail(self, error: Exception) -> None:
        """Report an unexpected error and close. Raises Replaced if another connection caused it."""
        if self._resumable and isinstance(error, StaleFence):
            raise Replaced from error
        if isinstance(error, ResumeExpired):
            self._metrics.resumes.labels("expired").inc()
            self._queue.close_after_sent(Close.RESUME_EXPIRED)
            return
        if self._can_resume and isinstance(error, BrokerUnavailable):
            log.warning("session_let_go", error=str(error))
            self._queue.close_after_sent(Close.RESTART)  # not over: its client can resume
            return
        fault = explain(error)
        if fault.expected:
            log.info("session_failed", error=str(error))
        else:
            log.error("session_crashed", exc_info=error)
        self._report(fault, Finish(fault.close or Close.INTERNAL, EndReason.ERROR))


def _this_task() -> asyncio.Task[object]:
    task = asyncio.current_task()
    assert task is not None
    return task


def _uncancel(before: int) -> None:
    """Take back the cancellations with which a task group has ended the wait of this task.

    Python before 3.13 keeps the count, and with it before 3.11.3, a later `asyncio.timeout` of the task
    raises CancelledError instead of TimeoutError. `before`: the count before the group.
    """
    task = _this_task()
    while task.cancelling() > before:
        task.uncancel()
