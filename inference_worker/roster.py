"""The sessions a worker holds right now: started, aborted, handed back."""

from __future__ import annotations

import asyncio

import structlog
from structlog.contextvars import bound_contextvars

from broker.errors import BrokerUnavailable, StaleFence
from inference_worker.bench import Bench
from inference_worker.chat_runner import ChatRunner
from inference_worker.duplex_runner import DuplexRunner
from inference_worker.engines.processor import ChatView, DuplexView, HalfDuplexView
from inference_worker.half_duplex_runner import HalfDuplexRunner
from inference_worker.held_session import HeldSession
from shared_schemas.errors import ErrorCode
from shared_schemas.registry import Claim
from shared_schemas.states import EndReason, SessionKind, SessionState, WorkerState
from shared_schemas.stream_entries import ErrorOut

log = structlog.get_logger()

View = DuplexView | HalfDuplexView | ChatView
Runner = DuplexRunner | HalfDuplexRunner | ChatRunner

_W = WorkerState
_BY_URGENCY = (_W.DUPLEX_ACTIVE, _W.BUSY_HALF_DUPLEX, _W.BUSY_CHAT, _W.DUPLEX_PAUSED, _W.IDLE)


class Roster:
    """One task per session; a slot is free again only after its engine view has been cleaned up."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._held: dict[str, HeldSession] = {}
        self._views: dict[str, View] = {}
        self.changed = asyncio.Event()
        """Set whenever a session has ended."""

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def free(self) -> int:
        """Slots that may take a session."""
        return self._bench.settings.slots - len(self._tasks)

    def epochs(self) -> dict[str, int]:
        """sid → epoch of everything held, for renewal."""
        return {sid: held.claim.epoch for sid, held in self._held.items()}

    def ticket(self, sid: str) -> int | None:
        """Ticket of a held session; None when it is not held."""
        held = self._held.get(sid)
        return held.claim.ticket if held else None

    def state(self) -> WorkerState:
        """What the sessions make of the worker; of several kinds, the one that waits least."""
        states = {_state_of(held) for held in self._held.values()}
        return next((state for state in _BY_URGENCY if state in states), WorkerState.IDLE)

    def start(self, claim: Claim) -> None:
        """Serve a session that was just claimed."""
        task = asyncio.create_task(self._serve(claim), name=f"session:{claim.sid}")
        self._tasks[claim.sid] = task
        self._bench.counters.sessions += 1

    def abort(self, sid: str) -> None:
        """Drop a session that is no longer ours."""
        if task := self._tasks.get(sid):
            log.info("session_dropped", session=sid)
            self._cancel(sid, task)

    async def hand_back(self) -> None:
        """Give every session to another worker and free all slots."""
        held = list(self._held.values())
        tasks = dict(self._tasks)
        for sid, task in tasks.items():
            self._cancel(sid, task)
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        for session in held:
            try:
                await session.give_back()
            except BrokerUnavailable as error:
                log.warning("hand_back_failed", session=session.claim.sid, error=str(error))

    def _cancel(self, sid: str, task: asyncio.Task[None]) -> None:
        """A cancelled session waits for its engine step: tell that one too."""
        if view := self._views.get(sid):
            view.stop()
        task.cancel()

    async def _serve(self, claim: Claim) -> None:
        with bound_contextvars(session=claim.sid, epoch=claim.epoch):
            log.info("session_claimed", kind=claim.kind, ticket=claim.ticket, attempt=claim.attempt)
            try:
                held = await HeldSession.open(self._bench.broker, self._bench.worker_id, claim)
                self._held[claim.sid] = held
                await self._converse(held)
            except StaleFence as lost:
                log.warning("session_lost", reason=str(lost))
            except Exception:
                log.exception(
                    "session_abandoned"
                )  # its lease runs out, and another worker takes it
            finally:
                self._held.pop(claim.sid, None)
                del self._tasks[claim.sid]
                self.changed.set()

    async def _converse(self, held: HeldSession) -> None:
        view, runner = self._open(held)
        self._views[held.claim.sid] = view
        try:
            reason = await runner.run()
        except StaleFence:
            raise
        except Exception:
            log.exception("session_failed")
            reason = EndReason.ERROR
            text = "the engine failed; please start a new conversation"
            entry = ErrorOut(code=ErrorCode.INFERENCE_ERROR, message=text, fatal=True)
            await held.publish(entry)
        finally:
            del self._views[held.claim.sid]
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
