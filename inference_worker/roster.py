"""The sessions a worker holds right now: started, aborted, handed back."""

from __future__ import annotations

import asyncio

import structlog
from structlog.contextvars import bound_contextvars

from antiphon.broker.errors import BrokerUnavailable, StaleFence
from antiphon.inference_worker.bench import Bench
from antiphon.inference_worker.chat_runner import ChatRunner
from antiphon.inference_worker.duplex_runner import DuplexRunner
from antiphon.inference_worker.engines.processor import ChatView, DuplexView, HalfDuplexView
from antiphon.inference_worker.half_duplex_runner import HalfDuplexRunner
from antiphon.inference_worker.held_session import HeldSession
from antiphon.inference_worker.session.records import PastLost
from antiphon.shared_schemas.entries import ErrorOut
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.registry import Claim, Latency
from antiphon.shared_schemas.states import EndReason, SessionKind, SessionState, WorkerState

log = structlog.get_logger()

View = DuplexView | HalfDuplexView | ChatView
Runner = DuplexRunner | HalfDuplexRunner | ChatRunner

_W = WorkerState
_BY_URGENCY = (_W.DUPLEX_ACTIVE, _W.BUSY_HALF_DUPLEX, _W.BUSY_CHAT, _W.DUPLEX_PAUSED, _W.IDLE)


class Roster:
    """One task per claim; a slot is free again only after its engine view has been cleaned up.

    An id may be claimed again while the session that had it before is still being cleaned up.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._tasks: dict[Claim, asyncio.Task[None]] = {}
        self._held: dict[Claim, HeldSession] = {}
        self._views: dict[Claim, View] = {}
        self._dropped: set[Claim] = set()
        self.changed = asyncio.Event()
        """Set whenever a session has ended."""

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def free(self) -> int:
        """Slots that may take a session."""
        return self._bench.settings.slots - len(self._tasks)

    def held(self) -> dict[str, Claim]:
        """By sid, for renewal; of an id that was claimed again, the newer claim."""
        return {claim.sid: claim for claim in self._held if claim not in self._dropped}

    def latency(self) -> dict[str, Latency]:
        """By sid, of those that have been answered."""
        return {claim.sid: held.latency for claim, held in self._held.items() if held.latency}

    def state(self) -> WorkerState:
        """What the sessions make of the worker; of several kinds, the one that waits least."""
        states = {_state_of(held) for held in self._held.values()}
        return next((state for state in _BY_URGENCY if state in states), WorkerState.IDLE)

    def start(self, claim: Claim) -> None:
        """Serve a session that was just claimed."""
        task = asyncio.create_task(self._serve(claim), name=f"session:{claim.sid}")
        self._tasks[claim] = task
        self._bench.counters.sessions += 1
        self._bench.metrics.claims.labels(claim.kind).inc()

    def abort(self, claim: Claim) -> None:
        """Drop a session that is no longer ours; once is enough, its engine step may take a while."""
        if claim in self._tasks and claim not in self._dropped:
            log.info("session_dropped", session=claim.sid)
            self._dropped.add(claim)
            self._cancel(claim)

    def ended(self, ticket: int) -> None:
        """Drop the session with this ticket, if it is here: it is over."""
        for claim in [claim for claim in self._held if claim.ticket == ticket]:
            self.abort(claim)

    async def hand_back(self) -> None:
        """Give every session to another worker and free all slots."""
        tasks = dict(self._tasks)
        for claim in tasks:
            self._cancel(claim)
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        for claim in tasks:
            try:
                await self._give_back(claim)
            except BrokerUnavailable as error:
                log.warning("hand_back_failed", session=claim.sid, error=str(error))

    async def _give_back(self, claim: Claim) -> None:
        """Refused for a session that is no longer ours."""
        leases, worker_id = self._bench.broker.leases, self._bench.worker_id
        await leases.give_back(claim.sid, worker_id, claim.epoch)

    def _cancel(self, claim: Claim) -> None:
        """A cancelled session waits for its engine step: tell that one too."""
        if view := self._views.get(claim):
            view.stop()
        self._tasks[claim].cancel()

    async def _serve(self, claim: Claim) -> None:
        with bound_contextvars(session=claim.sid, epoch=claim.epoch):
            log.info("session_claimed", kind=claim.kind, ticket=claim.ticket, attempt=claim.attempt)
            try:
                held = await HeldSession.open(self._bench.broker, self._bench.worker_id, claim)
                self._held[claim] = held
                await self._converse(held)
            except StaleFence as lost:
                log.warning("session_lost", reason=str(lost))
            except Exception:
                log.exception(
                    "session_abandoned"
                )  # its lease runs out, and another worker takes it
            finally:
                self._held.pop(claim, None)
                self._dropped.discard(claim)
                del self._tasks[claim]
                self.changed.set()

    async def _converse(self, held: HeldSession) -> None:
        view, runner = self._open(held)
        self._views[held.claim] = view
        try:
            reason = await runner.run()
        except StaleFence:
            raise
        except PastLost as lost:
            log.warning("session_unrecoverable", error=str(lost))
            reason = EndReason.WORKER_LOST  # so its client is told to begin anew
        except Exception:
            log.exception("session_failed")
            reason = EndReason.ERROR
            text = "the engine failed; please start a new conversation"
            entry = ErrorOut(code=ErrorCode.INFERENCE_ERROR, message=text, fatal=True)
            await held.publish(entry)
        finally:
            del self._views[held.claim]
            view.stop()
            await self._bench.engine.call(view.cleanup)
        await held.end(reason)
        log.info("session_ended", reason=reason)

    def _open(self, held: HeldSession) -> tuple[View, Runner]:
        """A view of the engine for the session's kind, and who works it."""
        match held.claim.kind:
            case SessionKind.CHAT:
                chat = self._bench.processor.set_chat_mode()
                return chat, ChatRunner(self._bench, held, chat)
            case SessionKind.HALF_DUPLEX:
                half = self._bench.processor.set_half_duplex_mode()
                return half, HalfDuplexRunner(self._bench, held, half)
            case SessionKind.AUDIO_DUPLEX | SessionKind.OMNI_DUPLEX:
                duplex = self._bench.processor.set_duplex_mode()
                return duplex, DuplexRunner(self._bench, held, duplex)


def _state_of(held: HeldSession) -> WorkerState:
    if held.claim.kind is SessionKind.CHAT:
        return WorkerState.BUSY_CHAT
    if held.claim.kind is SessionKind.HALF_DUPLEX:
        return WorkerState.BUSY_HALF_DUPLEX
    paused = held.state is SessionState.PAUSED
    return WorkerState.DUPLEX_PAUSED if paused else WorkerState.DUPLEX_ACTIVE
