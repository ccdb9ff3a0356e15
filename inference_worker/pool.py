"""The sessions that a worker serves: start, abort, hand over."""

import asyncio

import structlog
from structlog.contextvars import bound_contextvars

from antiphon.broker.errors import BrokerUnavailable, StaleFence
from antiphon.inference_worker.engines.processor import SessionView
from antiphon.inference_worker.engines.types import EngineBusy, EngineLost
from antiphon.inference_worker.sessions.chat import ChatRunner
from antiphon.inference_worker.sessions.claimed_session import ClaimedSession
from antiphon.inference_worker.sessions.duplex import DuplexRunner
from antiphon.inference_worker.sessions.half_duplex import HalfDuplexRunner
from antiphon.inference_worker.sessions.recovery import Unrecoverable
from antiphon.inference_worker.sessions.turns.responding import ChatViews
from antiphon.inference_worker.sessions.turns.runner import TurnsRunner
from antiphon.inference_worker.sessions.worker_context import WorkerContext
from antiphon.shared_schemas.entries import ErrorOut
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.registry import Claim, Latency
from antiphon.shared_schemas.states import EndReason, SessionKind, SessionState, WorkerState

log = structlog.get_logger()

_W = WorkerState
_BUSY = {
    SessionKind.CHAT: _W.BUSY_CHAT,
    SessionKind.HALF_DUPLEX: _W.BUSY_HALF_DUPLEX,
    SessionKind.TURNS: _W.BUSY_HALF_DUPLEX,
}
_BY_URGENCY = (_W.DUPLEX_ACTIVE, _W.BUSY_HALF_DUPLEX, _W.BUSY_CHAT, _W.DUPLEX_PAUSED, _W.IDLE)


class SessionPool:
    """One task per claim. A slot becomes free after the cleanup of its engine view.

    The same session id can be claimed again while the cleanup of its earlier claim still runs.
    """

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._tasks: dict[Claim, asyncio.Task[None]] = {}
        self._sessions: dict[Claim, ClaimedSession] = {}
        self._views: dict[Claim, SessionView] = {}
        self._dropped: set[Claim] = set()
        self.changed = asyncio.Event()
        """Set when a session has ended."""

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def free(self) -> int:
        return self.slots - len(self._tasks)

    @property
    def slots(self) -> int:
        """Number of slots that the engine can use now."""
        context = self._context
        return max(0, context.settings.slots - context.processor.unusable_slots)

    def claims(self) -> dict[str, Claim]:
        """The claims to renew, by session id."""
        return {claim.sid: claim for claim in self._sessions if claim not in self._dropped}

    def latency(self) -> dict[str, Latency]:
        """By session id, for sessions with at least one answer."""
        sessions = self._sessions.items()
        return {claim.sid: session.latency for claim, session in sessions if session.latency}

    def state(self) -> WorkerState:
        """The worker's state: of its sessions' kinds, the most latency-sensitive one."""
        states = {_state_of(session) for session in self._sessions.values()}
        return next((state for state in _BY_URGENCY if state in states), WorkerState.IDLE)

    def start(self, claim: Claim) -> None:
        """Serve a claimed session.

        An earlier claim of the same id is lost: Redis gives an id once. The worker may not know
        that yet, for example after a failover that lost its row.
        """
        for earlier in [held for held in self._tasks if held.sid == claim.sid]:
            self.abort(earlier)
        task = asyncio.create_task(self._serve(claim), name=f"session:{claim.sid}")
        self._tasks[claim] = task
        self._context.counters.sessions += 1
        self._context.metrics.claims.labels(claim.kind).inc()

    def abort(self, claim: Claim) -> None:
        """Cancel a session that is no longer this worker's. Safe to call more than once."""
        if claim in self._tasks and claim not in self._dropped:
            log.info("session_dropped", session=claim.sid)
            self._dropped.add(claim)
            self._cancel(claim)

    def abort_ended(self, ticket: int) -> None:
        """Cancel the session with this ticket: another process has ended it."""
        for claim in [claim for claim in self._sessions if claim.ticket == ticket]:
            self.abort(claim)

    async def hand_over(self) -> None:
        """Return every session to the queue, then wait for its last engine step.

        The step can take longer than the service manager waits. Its result is not published.
        """
        tasks = dict(self._tasks)
        for claim in tasks:
            self._cancel(claim)
        await asyncio.gather(*(self._give_back(claim) for claim in tasks))
        await asyncio.gather(*tasks.values(), return_exceptions=True)

    async def _give_back(self, claim: Claim) -> None:
        """Has no effect for a session that has ended, or that another worker has."""
        leases, worker_id = self._context.broker.leases, self._context.worker_id
        try:
            await leases.give_back(claim.sid, worker_id, claim.epoch)
        except BrokerUnavailable as error:
            log.warning("hand_back_failed", session=claim.sid, error=str(error))

    def _cancel(self, claim: Claim) -> None:
        """A cancelled task waits for its engine step, so stop that step too."""
        if view := self._views.get(claim):
            view.stop()
        self._tasks[claim].cancel()

    async def _serve(self, claim: Claim) -> None:
        context = self._context
        with bound_contextvars(session=claim.sid, epoch=claim.epoch):
            log.info("session_claimed", kind=claim.kind, ticket=claim.ticket, attempt=claim.attempt)
            try:
                session = await ClaimedSession.open(context.broker, context.worker_id, claim)
                self._sessions[claim] = session
                await self._run(session)
            except StaleFence as lost:
                log.warning("session_lost", reason=str(lost))
            except Exception:
                # The lease expires, and another worker recovers the session.
                log.exception("session_abandoned")
            finally:
                self._sessions.pop(claim, None)
                self._dropped.discard(claim)
                del self._tasks[claim]
                self.changed.set()

    async def _run(self, session: ClaimedSession) -> None:
        view, runner = self._open(session)
        self._views[session.claim] = view
        reason: EndReason | None
        try:
            # In a separate task, so that the steps of the conversation do not pass through these frames.
            # A cancellation of this task cancels that one.
            reason = await asyncio.create_task(runner.run(), name=f"run:{session.claim.sid}")
        except StaleFence:
            raise
        except Unrecoverable as lost:
            log.warning("session_unrecoverable", error=str(lost))
            reason = EndReason.WORKER_LOST  # the client must start a new session
        except BrokerUnavailable as error:
            log.warning("session_input_unreadable", error=str(error))
            text = "the server's store does not answer; start a new conversation"
            reason = await self._fail(session, text, ErrorCode.BROKER_UNAVAILABLE)
        except EngineBusy as busy:
            log.info("session_returned", reason=str(busy))
            reason = None
        except EngineLost as lost:
            self._context.counters.engine_errors += 1
            log.warning("session_lost_its_engine", error=str(lost))
            reason = await self._fail(session, str(lost))
        except Exception:
            log.exception("session_failed")
            reason = await self._fail(session, "the engine failed; please start a new conversation")
        finally:
            del self._views[session.claim]
            view.stop()
            await self._context.engine.call(view.cleanup)
        if reason is None:
            await self._give_back(session.claim)
            return
        await session.end(reason)
        log.info("session_ended", reason=reason)

    async def _fail(
        self, session: ClaimedSession, text: str, code: ErrorCode = ErrorCode.INFERENCE_ERROR
    ) -> EndReason:
        await session.publish(ErrorOut(code=code, message=text, fatal=True))
        return EndReason.ERROR

    def _open(
        self, session: ClaimedSession
    ) -> tuple[SessionView, DuplexRunner | HalfDuplexRunner | ChatRunner | TurnsRunner]:
        context, processor = self._context, self._context.processor
        match session.claim.kind:
            case SessionKind.CHAT:
                chat = processor.set_chat_mode()
                return chat, ChatRunner(context, session, chat)
            case SessionKind.HALF_DUPLEX:
                half = processor.set_half_duplex_mode()
                return half, HalfDuplexRunner(context, session, half)
            case SessionKind.TURNS:
                views = ChatViews(processor)
                return views, TurnsRunner(context, session, views)
            case SessionKind.AUDIO_DUPLEX | SessionKind.OMNI_DUPLEX:
                duplex = processor.set_duplex_mode()
                return duplex, DuplexRunner(context, session, duplex)


def _state_of(session: ClaimedSession) -> WorkerState:
    if session.claim.kind in _BUSY:
        return _BUSY[session.claim.kind]
    paused = session.state is SessionState.PAUSED
    return WorkerState.DUPLEX_PAUSED if paused else WorkerState.DUPLEX_ACTIVE
