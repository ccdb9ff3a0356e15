"""One client's session at this edge: named loops in one task group, from the queue to the end."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Generic

import structlog

from antiphon.broker.errors import BrokerUnavailable, StaleFence
from antiphon.broker.service.process import first_of
from antiphon.edge.edge_context import EdgeContext
from antiphon.edge.errors import (
    CLOSE_REASONS,
    SHUTDOWN,
    ChatRequested,
    ClientGone,
    Close,
    Fault,
    ResumeExpired,
    SlowConsumer,
    explain,
)
from antiphon.edge.protocols.machine import (
    Action,
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
    ResumeState,
    SessionRequest,
    admit,
)
from antiphon.edge.session.input_writer import InputWriter
from antiphon.edge.session.output_reader import OutputReader
from antiphon.edge.session.resume import GRANT_SEQ, MissedMessages, number_grant, number_messages
from antiphon.edge.session.sender import SendQueue
from antiphon.edge.session_events import Ended, PlaceFilter, SessionNotice, Signal
from antiphon.edge.settings import connection_offer
from antiphon.edge.transport.connection import ClientConnection
from antiphon.shared_schemas.entries import InEntry, OutEntry, StreamPosition
from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.registry import SessionCommand
from antiphon.shared_schemas.states import EndReason
from antiphon.shared_schemas.wire import Resumed

log = structlog.get_logger()

_FLUSH_S = 1.0
"""How long to write the input of a client that left."""


class Outcome(Enum):
    """What ended the service of a connection."""

    ALL_SENT = auto()
    """The connection is closed, after every message."""
    CLIENT_GONE = auto()
    CLIENT_CLOSED = auto()
    """Normally, so it will not resume."""
    SLOW_CONSUMER = auto()
    CHAT_REQUESTED = auto()
    """The client asks for `mode=chat` instead. The session is over, and the connection open."""
    REPLACED = auto()
    """A newer connection of the client has taken over the session."""


Loop = Callable[[], Awaitable[Outcome | None]]
"""Returns None if it has nothing left to do while the others serve the connection."""


@dataclass(frozen=True, slots=True)
class ProtocolSpec(Generic[Command]):
    """What a session needs to know about one protocol."""

    start: Callable[
        [EdgeContext, AdmittedSession], tuple[CommandDecoder[Command], SessionMachine[Command]]
    ]
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
    """Admit and serve one connection. Raises what `admit` and `read_first` raise, and ChatRequested.

    The session is over then, and the connection open.
    """
    first = await read_first() if read_first else None
    async with admit(context, request, options) as admitted:
        decoder, machine = spec.start(context, admitted)
        session = EdgeSession(context, connection, admitted, spec, decoder, machine, first)
        del first  # a chat's media: the session frees them when they are written
        if await session.run() is Outcome.CHAT_REQUESTED:
            raise ChatRequested(queue_done=session.granted)


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
        first: InEntry | None = None,
    ) -> None:
        """`first`: what the client sent before its session was admitted."""
        settings, metrics = context.settings, context.metrics
        self._context = context
        self._connection = connection
        self._sid = admitted.sid
        self._ticket = admitted.ticket
        self._subscription = admitted.subscription
        self._machine = machine
        self._decoder = decoder
        unsent = settings.max_unsent_turns if spec.turns else settings.max_unsent
        self._metrics = metrics
        self._resume = admitted.resume
        resumed = self._resume is not None and self._resume.missed is not None
        offer = connection_offer(settings) if admitted.options.capabilities else None
        self._capabilities = offer if resumed else None
        self._places = PlaceFilter(admitted.ticket, known=resumed)
        self._ready = asyncio.Event()
        self._granted = asyncio.Event()
        self._writer = InputWriter(context, admitted, self._granted)
        if first is not None:
            machine.apply_input(first)
            self._writer.put(first)
        self._outputs = OutputReader(context, admitted, unsent.messages, self._deliver)
        self._queue = SendQueue(
            connection,
            unsent,
            settings.send_stall_s,
            metrics.send,
            None if resumed else offer,
            self._resume.token if self._resume else None,
        )
        self._began = time.perf_counter()
        self._reason = EndReason.CLIENT_GONE
        self._finished = asyncio.Event()

    @property
    def granted(self) -> bool:
        """A worker has had the session."""
        return self._granted.is_set()

    async def run(self) -> Outcome:
        """Serve until the connection is closed; the session is over then, or can be resumed."""
        begin, granted = self._ready, self._granted
        loops: dict[str, tuple[Loop, asyncio.Event | None]] = {
            "begin": (self._begin, None),
            "follow-events": (self._follow_events, begin),
            "write-input": (self._writer.run, begin if self._resume else granted),
            "deliver": (self._outputs.follow, granted),
            "send": (self._send, None),
            "receive": (self._receive, begin),
            "watch-deadlines": (self._watch_deadlines, begin),
        }
        tasks = [
            asyncio.create_task(self._run_loop(loop, after), name=f"{name}:{self._sid}")
            for name, (loop, after) in loops.items()
        ]
        outcome = None
        try:
            outcome = await first_of(*tasks)
            self._end_with(outcome)
        finally:
            self._writer.discard()
            if outcome is not Outcome.REPLACED:
                self._leave(may_return=outcome is not Outcome.CLIENT_CLOSED)
        return outcome

    def _end_with(self, outcome: Outcome) -> None:
        match outcome:
            case Outcome.CLIENT_GONE | Outcome.CLIENT_CLOSED if not self._finished.is_set():
                self._reason = self._machine.client_gone()
            case Outcome.SLOW_CONSUMER:
                log.info("slow_consumer_closed")
                self._metrics.slow_consumers.inc()
                self._connection.force_close(Close.TRY_LATER, "slow_consumer")
            case Outcome.CHAT_REQUESTED:
                self._reason = EndReason.STOPPED
                self._finished.set()
            case Outcome.REPLACED:
                self._connection.force_close(Close.REPLACED, CLOSE_REASONS[Close.REPLACED])

    @property
    def _can_resume(self) -> bool:
        """The client has a token, from this connection or from an earlier one."""
        return self._queue.token_sent or bool(self._resume and self._resume.missed)

    def _leave(self, *, may_return: bool) -> None:
        """End the session, or detach it if its client can resume it."""
        number, terminator = self._ticket.number, self._context.terminator
        if may_return and self._can_resume and not self._finished.is_set():
            subscription = self._subscription
            terminator.detach(self._sid, number, subscription.connection, subscription.resumed)
        else:
            terminator.end(self._sid, number, self._reason)

    async def _run_loop(self, loop: Loop, after: asyncio.Event | None) -> Outcome:
        """Run a loop once `after` is set. Errors without an outcome are reported, and close."""
        try:
            if after is not None:
                await after.wait()
            try:
                outcome = await loop()
            except (ClientGone, SlowConsumer):
                raise
            except Exception as error:  # noqa: BLE001 - must end one session, not the process
                outcome = self._fail(error)
        except ClientGone as gone:
            return Outcome.CLIENT_CLOSED if gone.normal else Outcome.CLIENT_GONE
        except SlowConsumer:
            return Outcome.SLOW_CONSUMER
        if outcome is None:
            await asyncio.Event().wait()  # until the other loops end
        assert outcome is not None
        return outcome

    async def _begin(self) -> None:
        if self._resume and self._resume.missed:
            await self._continue(self._resume, self._resume.missed)
        self._ready.set()

    async def _continue(self, resume: ResumeState, missed: MissedMessages) -> None:
        """State the present to a client that resumes, and send what it has missed."""
        machine, inputs = self._machine, missed.last_inputs
        self._writer.take_over(missed.inputs)
        grant = machine.restore(inputs.prepared, inputs.recent, granted=resume.granted)
        actions = missed.actions(machine, granted=resume.granted)
        first = await anext(actions, None)  # a resume that must fail fails here
        self._metrics.resumes.labels("resumed").inc()
        log.info("session_resumed", connection=self._subscription.connection, seq=missed.last)
        token, offer = resume.token.text, self._capabilities
        greeting = Resumed(seq=missed.last, resume_token=token, capabilities=offer)
        await self._connection.send(self._connection.encoding.encode(greeting))
        self._connection.probe(self._confirm_token)
        if missed.last < GRANT_SEQ:
            self._apply(number_grant(grant))
        else:  # its client may believe that it waits for another worker
            machine.recovering = resume.granted and not resume.over
        if first is not None:
            self._apply([first])
        async for action in actions:
            await self._queue.wait_for_space()
            self._apply([action])
        self._outputs.position = missed.delivered
        if resume.granted:
            self._granted.set()

    def _confirm_token(self) -> None:
        subscription = self._subscription
        if subscription.resumed:
            subscription.resumed = replace(subscription.resumed, before="")
        self._context.terminator.confirm(self._sid, self._ticket.number, subscription.connection)

    async def _send(self) -> Outcome:
        await self._queue.run()
        return Outcome.ALL_SENT

    async def _receive(self) -> Outcome:
        try:
            while True:
                frame = await self._connection.receive()
                if not self._finished.is_set():
                    began = time.perf_counter()
                    try:
                        self._apply(self._machine.receive(await self._decoder.decode(frame)))
                        self._metrics.parse.observe(time.perf_counter() - began)
                    except InvalidInput as error:
                        self._refuse(error)
                    except ChatRequested:
                        return Outcome.CHAT_REQUESTED
                del frame  # the next wait would keep it in memory
                await self._queue.wait_for_space()
        except ClientGone:
            if self._resume or self._granted.is_set():
                await self._writer.flush(_FLUSH_S)
            raise

    async def _deliver(self, position: StreamPosition, answer: OutEntry, now_ms: float) -> None:
        await self._queue.wait_for_space()
        actions = self._machine.deliver(answer, now_ms)
        self._apply(number_messages(position, actions) if self._resume else actions)

    async def _follow_events(self) -> Outcome | None:
        self._context.events.start_waiting(expected=self._ticket.wait)
        while not self._finished.is_set():
            notice = await self._subscription.next_notice()
            if notice is Signal.REPLACED:
                return Outcome.REPLACED
            await self._on_notice(notice)
        return None

    async def _on_notice(self, notice: SessionNotice) -> None:
        match notice:
            case QueuePlace():
                if place := self._places.select(notice):
                    self._report_place(place)
            case Signal.GRANTED if not self._granted.is_set():
                self._metrics.queue_wait.observe(time.perf_counter() - self._began)
                self._places = PlaceFilter(self._ticket, known=True)
                grant = self._machine.granted()
                self._apply(number_grant(grant) if self._resume else grant, kept=True)
                self._granted.set()
            case Signal.GRANTED if not self._subscription.waiting:
                self._places = PlaceFilter(self._ticket, known=True)
                self._apply(self._machine.worker_replaced(str(self._ticket.number)))
            case Ended(reason=reason):
                if self._granted.is_set():
                    await self._outputs.finish(reason, self._finished)
                self._apply(self._machine.ended(reason))
            case Signal.EDGE_DRAINING | Signal.EDGE_CLOSING:
                self._shut_down(now=notice is Signal.EDGE_CLOSING)
            case SessionCommand():
                self._apply(self._machine.commanded(notice))

    def _report_place(self, place: QueuePlace) -> None:
        if self._granted.is_set() and not place.stale:
            self._apply(self._machine.worker_lost(place))
        else:
            self._apply(self._machine.placed(place))

    def _shut_down(self, *, now: bool) -> None:
        if not now:
            return self._apply(self._machine.draining(self._context.settings.drain_s))
        if self._resume:  # the client continues at another edge
            return self._queue.close_after_sent(Close.RESTART)
        return self._report(SHUTDOWN, Finish(Close.RESTART, EndReason.SERVER_SHUTDOWN))

    async def _watch_deadlines(self) -> None:
        for deadline in self._machine.deadlines():
            await asyncio.sleep(deadline.at - asyncio.get_running_loop().time())
            if self._finished.is_set():
                return  # some machines have a deadline for ever, which has passed now
            try:
                self._apply(deadline.act())
            except InvalidInput as error:  # silence that Redis does not take now
                log.info("silence_dropped", reason=error.message)

    def _apply(self, actions: Iterable[Action], *, kept: bool = False) -> None:
        """Execute the actions of one event. `kept`: inputs that the machine has held, within its limits.

        If an input is refused, raises InvalidInput after the others: the machine's state includes them.
        """
        if self._finished.is_set():
            return
        refusal: InvalidInput | None = None
        for action in actions:
            match action:
                case Send(message=message):
                    self._queue.send(message)
                case Forward(entry=entry):
                    try:
                        self._writer.put(entry, checked=not kept)
                    except InvalidInput as error:
                        self._machine.refused(entry)
                        refusal = error
                case Finish():
                    self._finish(action)
                    return
        if refusal is not None:
            raise refusal

    def _finish(self, finish: Finish) -> None:
        """The session is over; its connection closes after the queued messages."""
        self._reason = finish.reason
        self._finished.set()
        self._queue.close_after_sent(finish.close)

    def _refuse(self, error: InvalidInput) -> None:
        self._metrics.refused_input.labels(error.code).inc()
        self._report(explain(error))

    def _report(self, fault: Fault, *finish: Finish) -> None:
        try:
            self._apply([*self._machine.report(fault), *finish])
        except InvalidInput as error:  # of sound that came before the refused command
            self._refuse(error)

    def _fail(self, error: Exception) -> Outcome | None:
        """Report an unexpected error and close, unless another connection caused it."""
        if self._resume and isinstance(error, StaleFence):
            return Outcome.REPLACED
        if isinstance(error, ResumeExpired):
            self._metrics.resumes.labels("expired").inc()
            self._queue.close_after_sent(Close.RESUME_EXPIRED)
            return None
        if self._can_resume and isinstance(error, BrokerUnavailable):
            log.warning("session_let_go", error=str(error))
            self._queue.close_after_sent(Close.RESTART)  # not over: its client can resume
            return None
        fault = explain(error)
        if fault.expected:
            log.info("session_failed", error=str(error))
        else:
            log.error("session_crashed", exc_info=error)
        self._report(fault, Finish(fault.close or Close.INTERNAL, EndReason.ERROR))
        return None
