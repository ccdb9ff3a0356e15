"""One chat request as one call: `run_chat`. The routes that answer over HTTP await it."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from antiphon.broker.service.process import first_of
from antiphon.edge.edge_context import EdgeContext
from antiphon.edge.errors import (
    SHUTDOWN,
    ChatFailed,
    Close,
    Fault,
    SlowConsumer,
    error_message,
    explain,
    explain_end,
)
from antiphon.edge.protocols.chat import explain_failure
from antiphon.edge.protocols.machine import QueuePlace
from antiphon.edge.session.admission import (
    AdmittedSession,
    ConnectOptions,
    SessionRequest,
    admit,
)
from antiphon.edge.session.input_writer import InputWriter
from antiphon.edge.session.output_reader import OutputReader
from antiphon.edge.session_events import (
    Ended,
    PlaceFilter,
    SessionNotice,
    SessionSubscription,
    Signal,
)
from antiphon.shared_schemas.entries import (
    ChatDoneOut,
    ChatIn,
    DeltaOut,
    ErrorOut,
    OutEntry,
    StreamPosition,
)
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.states import EndReason, SessionKind, WaitReason, wait_reason_text

log = structlog.get_logger()

OnDelta = Callable[[DeltaOut], Awaitable[None]]
"""Takes a part of an answer that is streamed. The next one waits for it."""


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """The end of an answer, which holds all of one that is not streamed.

    `waited_s`: the time in the queue. `estimate_s`: its first estimate; None while no worker could take the
    request.
    """

    done: ChatDoneOut
    recording: str
    waited_s: float
    estimate_s: float | None


def new_chat(protocol: str, client: str = "") -> SessionRequest:
    """A chat has one candidate for its id."""
    return SessionRequest(
        SessionKind.CHAT, protocol, [f"chat_{secrets.token_hex(8)}"], client=client
    )


async def run_chat(
    context: EdgeContext,
    asked: SessionRequest,
    request: ChatIn,
    on_delta: OnDelta | None,
) -> ChatAnswer:
    """Have a worker answer a request. If this is cancelled, the worker is freed.

    Raises what `admit` raises, ChatFailed, and SlowConsumer if the answer came faster than it was taken.
    """
    async with admit(context, asked, ConnectOptions()) as admitted:
        reason = EndReason.CLIENT_GONE
        try:
            began = time.perf_counter()
            estimate_s = await _wait_for_worker(context, admitted)
            context.metrics.queue_wait.observe(waited_s := time.perf_counter() - began)
            writer = InputWriter(context, admitted, asyncio.Event())
            await writer.append(request, time.perf_counter())
            del request  # its media: they are in Redis now
            done = await _Answer(context, admitted, on_delta).read()
            reason = EndReason.STOPPED
            return ChatAnswer(done, admitted.recording, waited_s, estimate_s)
        except ChatFailed as failed:
            reason = failed.reason
            raise
        except SlowConsumer:
            log.info("slow_consumer_closed")
            context.metrics.slow_consumers.inc()
            raise
        except Exception as error:
            reason, fault = EndReason.ERROR, explain(error)
            if fault.expected:
                log.info("session_failed", error=str(error))
            else:
                log.exception("session_crashed")
            raise ChatFailed(fault, reason) from error
        finally:
            context.terminator.end(admitted.sid, admitted.ticket.number, reason)


async def _wait_for_worker(context: EdgeContext, admitted: AdmittedSession) -> float | None:
    context.events.start_waiting(expected=admitted.ticket.wait)
    places = PlaceFilter(admitted.ticket)
    return await wait_for_grant(admitted.subscription, places, context.settings.no_worker_grace_s)


async def wait_for_grant(
    subscription: SessionSubscription, places: PlaceFilter, grace_s: float
) -> float | None:
    """Return the first estimate of the wait once a worker holds the session; 0 if it did not wait.

    Raises ChatFailed, also if no worker could take it for `grace_s` and none was loading: its client sees
    no place in the queue.
    """
    estimate_s: float | None = 0.0
    reason: WaitReason | None = None
    refuse_at: float | None = None
    while True:
        try:
            async with asyncio.timeout_at(refuse_at):
                notice = await subscription.next_notice()
        except TimeoutError:
            assert reason is not None
            text = f"{wait_reason_text(reason)}; try again later"
            message = error_message(ErrorCode.NO_WORKER, text, retryable=True)
            raise ChatFailed(Fault(message, Close.TRY_LATER)) from None
        if notice is Signal.GRANTED:
            return estimate_s
        if failed := _end_of(notice):
            raise failed
        if isinstance(notice, QueuePlace) and (place := places.select(notice)):
            if place.first:
                estimate_s = place.eta_s
            reason = None if place.reason is WaitReason.WORKER_LOADING else place.reason
            if reason is None:
                refuse_at = None
            elif refuse_at is None:
                refuse_at = asyncio.get_running_loop().time() + grace_s


def _end_of(notice: SessionNotice) -> ChatFailed | None:
    if isinstance(notice, Ended):
        return ChatFailed(explain_end(notice.reason), notice.reason or EndReason.ERROR)
    if notice is Signal.EDGE_CLOSING:
        return ChatFailed(SHUTDOWN, EndReason.SERVER_SHUTDOWN)
    return None


class _Answer:
    """Reads the answer of a session that a worker holds."""

    def __init__(
        self, context: EdgeContext, admitted: AdmittedSession, on_delta: OnDelta | None
    ) -> None:
        limit = context.settings.max_unsent_turns.messages
        self._subscription = admitted.subscription
        self._outputs = OutputReader(context, admitted, limit, self._take)
        self._on_delta = on_delta
        self._done: ChatDoneOut | None = None
        self._complete = asyncio.Event()

    async def read(self) -> ChatDoneOut:
        """Raises ChatFailed, SlowConsumer, and errors of Redis."""
        await first_of(self._complete.wait(), self._outputs.follow(), self._follow_events())
        assert self._done is not None
        return self._done

    async def _take(self, _position: StreamPosition, entry: OutEntry, _now_ms: float) -> None:
        if isinstance(entry, DeltaOut) and self._on_delta is not None:
            await self._on_delta(entry)
        elif isinstance(entry, ChatDoneOut):
            self._done = entry
            self._complete.set()
        elif isinstance(entry, ErrorOut):
            raise ChatFailed(*explain_failure(entry))

    async def _follow_events(self) -> None:
        """Return if the answer is complete when the session ends."""
        while (failed := _end_of(notice := await self._subscription.next_notice())) is None:
            pass  # a place, because its worker was lost, or a command for a socket
        if isinstance(notice, Ended):
            await self._outputs.finish(notice.reason, self._complete)
        if not self._complete.is_set():
            raise failed
