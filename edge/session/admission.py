"""Admits a connection: a new session joins the queue, or the client resumes an existing one."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog
from starlette.datastructures import QueryParams
from structlog.contextvars import bind_contextvars

from antiphon.broker.errors import BrokerUnavailable, SessionExists
from antiphon.broker.resume_registry import ResumeRecord
from antiphon.edge.edge_context import EdgeContext
from antiphon.edge.errors import Draining, ResumeExpired
from antiphon.edge.session.resume import MissedMessages, load_missed_messages
from antiphon.edge.session_events import SessionSubscription
from antiphon.edge.tracing import SessionTrace
from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.ids import ResumeToken, new_recording_id
from antiphon.shared_schemas.registry import Ticket
from antiphon.shared_schemas.states import SessionKind

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ResumeRequest:
    """The client has this token and every message up to number `last`.

    `attempt`: number of its attempt to resume, 0 if it does not count them.
    """

    token: ResumeToken
    last: int
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    """Options on the URL of a socket. `resume`: the session is to be resumable; `resumed`: it is resumed."""

    resume: bool = False
    resumed: ResumeRequest | None = None
    capabilities: bool = False
    notices: bool = False
    timing: bool = False
    transcript: bool = False
    word_times: bool = False
    progress: bool = False
    playback_ack: bool = False


_FLAGS = (
    *("capabilities", "notices", "timing", "transcript"),
    *("word_times", "progress", "playback_ack"),
)


def read_connect_options(query: QueryParams) -> ConnectOptions:
    """Raises ResumeExpired for a malformed token, InvalidInput for malformed numbers."""
    resumed = _read_resume_request(query)
    return ConnectOptions(
        resume=query.get("resume") == "1" or resumed is not None,
        resumed=resumed,
        **{name: query.get(name) == "1" for name in _FLAGS},
    )


def _read_resume_request(query: QueryParams) -> ResumeRequest | None:
    text = query.get("resume_token")
    if text is None:
        return None
    token = ResumeToken.parse(text)
    if token is None:
        raise ResumeExpired
    last = _read_number(query, "seq", "must be the number of the last message received")
    attempt = _read_number(query, "attempt", "must be the number of the attempt to resume")
    return ResumeRequest(token, last, attempt)


def _read_number(query: QueryParams, name: str, requirement: str) -> int:
    """0 if it is missing."""
    text = query.get(name, "0")
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise InvalidInput(f"{name}: {requirement}", field=name)
    return int(text)


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """The session that a connection asks for.

    `ids`: candidates for its id, in order; `client_id`: the client chose the id. `protocol`: a
    client that resumes the session must use it again. `owner`: the digest of the client's secret.
    `client`: the key or the address whose sessions are counted.
    """

    kind: SessionKind
    protocol: str
    ids: Iterable[str]
    client_id: bool = False
    owner: str = ""
    client: str = ""


@dataclass(frozen=True, slots=True)
class ResumeState:
    """The client's next resume token; the other fields are set if this connection resumed the session.

    `granted`: a worker has had the session. `over`: it has ended.
    """

    token: ResumeToken
    connection: int = 1
    missed: MissedMessages | None = None
    granted: bool = False
    over: bool = False


@dataclass(frozen=True, slots=True)
class AdmittedSession:
    """A queued or running session. `age_s`: seconds since it was queued."""

    subscription: SessionSubscription
    ticket: Ticket
    kind: SessionKind
    recording: str
    options: ConnectOptions
    resume: ResumeState | None = None
    age_s: float = 0.0
    trace: SessionTrace | None = None

    @property
    def sid(self) -> str:
        return self.subscription.sid


@asynccontextmanager
async def admit(
    context: EdgeContext, request: SessionRequest, options: ConnectOptions
) -> AsyncIterator[AdmittedSession]:
    """The client's session, subscribed to its events.

    Raises Draining, SessionExists, QueueFull, TooManySessions, StoreFull, ResumeExpired or
    BrokerUnavailable.
    """
    if context.draining:
        raise Draining
    taken: SessionExists | None = None
    for sid in _candidates(request, options.resumed):
        bind_contextvars(session=sid)
        with context.events.subscribe(sid) as subscription:
            try:
                admitted = await _join_or_resume(context, subscription, request, options)
            except SessionExists as error:
                if request.client_id:
                    raise
                taken = error
                continue
            try:
                yield admitted
            finally:
                if admitted.trace:
                    admitted.trace.end()
            return
    assert taken is not None
    raise taken


def _candidates(request: SessionRequest, resumed: ResumeRequest | None) -> Iterable[str]:
    if resumed is None:
        return request.ids
    if request.client_id and [*request.ids] != [resumed.token.sid]:
        raise ResumeExpired
    return [resumed.token.sid]


async def _join_or_resume(
    context: EdgeContext,
    subscription: SessionSubscription,
    request: SessionRequest,
    options: ConnectOptions,
) -> AdmittedSession:
    if options.resumed:
        return await _resume(context, subscription, request, options, options.resumed)
    context.broker.check_memory()
    sid, recording = subscription.sid, new_recording_id()
    token = ResumeToken.new(sid) if options.resume else None
    trace = context.trace(sid, request.kind)
    try:
        ticket = await context.broker.queue.join(
            sid,
            request.kind,
            edge=context.id,
            recording=recording,
            resume=token,
            protocol=request.protocol,
            trace=trace.context if trace else b"",
            owner=request.owner,
            client=request.client,
            max_sessions=context.settings.max_sessions_per_client,
        )
    except (BrokerUnavailable, asyncio.CancelledError):  # the session may be queued all the same
        context.terminator.withdraw(sid, recording)
        raise
    state = ResumeState(token) if token else None
    subscription.bind(ticket.number, state.connection if state else 0)
    context.metrics.started.labels(request.kind).inc()
    context.metrics.protocols.labels(request.protocol).inc()
    log.info("session_joined", kind=request.kind, ticket=ticket.number)
    return AdmittedSession(
        subscription, ticket, request.kind, recording, options, state, trace=trace
    )


async def _resume(
    context: EdgeContext,
    subscription: SessionSubscription,
    request: SessionRequest,
    options: ConnectOptions,
    resumed: ResumeRequest,
) -> AdmittedSession:
    sid, broker, token = subscription.sid, context.broker, ResumeToken.new(subscription.sid)
    attached = await broker.resume_registry.attach(
        resumed.token,
        token,
        edge=context.id,
        protocol=request.protocol,
        attempt=resumed.attempt,
    )
    if attached is None:
        raise ResumeExpired
    number, connection = attached.ticket, attached.connection
    shown, attempt = resumed.token.digest, resumed.attempt
    subscription.resumed = ResumeRecord(sid, number, connection, token.digest, shown, attempt)
    subscription.bind(number, connection, granted=attached.assigned, recovering=attached.recovering)
    context.events.mark_replaced(sid, connection)
    if attached.over:
        subscription.end(attached.reason)
    try:
        missed = await load_missed_messages(broker, sid, number, connection, resumed.last)
    except (Exception, asyncio.CancelledError):
        context.terminator.detach(sid, number, connection, subscription.resumed)
        raise
    if attached.over:  # its streams have been opened again
        broker.streams.expire_later(sid, number)
    row = await broker.sessions.get(sid) if context.tracing else None
    return AdmittedSession(
        subscription,
        Ticket(number=number, position=0, queue_length=0, wait=True),
        request.kind,
        attached.recording,
        options,
        ResumeState(token, connection, missed, attached.assigned, attached.over),
        (broker.clock.now_ms() - attached.queued_at) / 1000,
        context.trace(sid, request.kind, row.trace if row else b""),
    )
