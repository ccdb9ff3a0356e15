"""How a client gets its session: a new one in the queue, or the one that it comes back to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog
from structlog.contextvars import bind_contextvars

from antiphon.broker.errors import SessionExists
from antiphon.edge.admission import join_queue
from antiphon.edge.context import EdgeContext
from antiphon.edge.errors import Draining, ResumeExpired
from antiphon.edge.recall import Recollection, recollect
from antiphon.edge.session.notifications import SessionSubscription
from antiphon.edge.session_trace import SessionTrace
from antiphon.edge.wishes import Return, Wishes
from antiphon.shared_schemas.ids import new_recording_id
from antiphon.shared_schemas.registry import Ticket
from antiphon.shared_schemas.resume_token import ResumeToken
from antiphon.shared_schemas.states import SessionKind

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Hold:
    """With what the client may come back (again); `past` if it has."""

    token: ResumeToken
    connection: int = 1
    past: Recollection | None = None


@dataclass(frozen=True, slots=True)
class Admitted:
    """A session that stands in the queue, or further on. `age_s`: seconds since it came there."""

    seat: SessionSubscription
    ticket: Ticket
    recording: str
    wishes: Wishes
    hold: Hold | None = None
    age_s: float = 0.0
    trace: SessionTrace | None = None


@dataclass(frozen=True, slots=True)
class Berth:
    """What a connection is for. `names`: ids for a new session, the next where one is taken.

    `protocol` is what its client must speak again; `fixed`: the id is the client's own.
    """

    kind: SessionKind
    protocol: str
    names: Iterable[str]
    fixed: bool = False


@asynccontextmanager
async def boarding(edge: EdgeContext, berth: Berth, wishes: Wishes) -> AsyncIterator[Admitted]:
    """The client's session, and a seat to hear of it.

    Raises Draining, SessionExists, QueueFull, ResumeExpired or BrokerUnavailable.
    """
    if edge.draining:
        raise Draining
    names = [wishes.back.token.sid] if wishes.back else berth.names
    if wishes.back and berth.fixed and [*berth.names] != names:
        raise ResumeExpired
    for name in names:
        bind_contextvars(session=name)
        with edge.events.subscribe(name) as seat:
            try:
                admitted = await _admit(edge, seat, berth, wishes)
            except SessionExists:
                if berth.fixed:
                    raise
                continue
            try:
                yield admitted
            finally:
                if admitted.trace:
                    admitted.trace.end()
            return


async def _admit(
    edge: EdgeContext, seat: SessionSubscription, berth: Berth, wishes: Wishes
) -> Admitted:
    if wishes.back:
        return await _attach(edge, seat, berth, wishes, wishes.back)
    sid, recording = seat.sid, new_recording_id()
    token = ResumeToken.new(sid) if wishes.resume else None
    trace = edge.trace(sid, berth.kind)
    ticket = await join_queue(
        edge.broker,
        edge.terminator,
        sid,
        berth.kind,
        edge=edge.id,
        recording=recording,
        resume=token,
        protocol=berth.protocol,
        trace=trace.context if trace else b"",
    )
    hold = Hold(token) if token else None
    seat.bind(ticket.number, hold.connection if hold else 0)
    edge.metrics.started.labels(berth.kind).inc()
    log.info("session_joined", kind=berth.kind, ticket=ticket.number)
    return Admitted(seat, ticket, recording, wishes, hold, trace=trace)


async def _attach(
    edge: EdgeContext, seat: SessionSubscription, berth: Berth, wishes: Wishes, back: Return
) -> Admitted:
    sid, broker, token = seat.sid, edge.broker, ResumeToken.new(seat.sid)
    attached = await broker.resume_registry.attach(
        back.token, token, edge=edge.id, protocol=berth.protocol
    )
    if attached is None:
        raise ResumeExpired
    number, connection = attached.ticket, attached.connection
    seat.bind(number, connection)
    edge.events.mark_replaced(sid, connection)
    if attached.assigned:
        seat.grant()
    if attached.over:
        seat.end(attached.reason)
    try:
        past = await recollect(broker, sid, number, connection, back.last)
    except Exception:
        edge.terminator.detach(sid, number, connection)
        raise
    edge.metrics.resumes.labels("resumed").inc()
    log.info("session_resumed", connection=connection, seq=back.last)
    ticket = Ticket(number=number, position=0, queue_length=0, wait=True)
    hold = Hold(token, connection, past)
    age_s = (broker.clock.now_ms() - attached.queued_at) / 1000
    trace = await _trace_again(edge, sid, berth.kind)
    return Admitted(seat, ticket, attached.recording, wishes, hold, age_s, trace)


async def _trace_again(edge: EdgeContext, sid: str, kind: SessionKind) -> SessionTrace | None:
    """Under the trace that the first connection began."""
    row = await edge.broker.sessions.get(sid) if edge.tracing else None
    return edge.trace(sid, kind, row.trace if row else b"")
