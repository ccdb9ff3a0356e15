"""Once a second: report the worker's state, renew its leases, remove dead workers and edges."""

import asyncio
from typing import Any

import structlog

from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.retry import each_second
from antiphon.inference_worker.pool import SessionPool
from antiphon.inference_worker.sessions.worker_context import WorkerContext
from antiphon.shared_schemas.registry import Abilities, Memory, WorkerCommand, WorkerReport
from antiphon.shared_schemas.states import WorkerState

log = structlog.get_logger()


class WorkerHeartbeat:
    """The worker's registry row and leases.

    `state` overrides the state of the sessions while the worker loads, drains or has failed.
    """

    def __init__(self, context: WorkerContext, pool: SessionPool) -> None:
        self._context = context
        self._pool = pool
        self.address = ""
        """Of the health page."""
        self.state: WorkerState | None = WorkerState.LOADING
        self.detail = ""
        self._memory: Memory | None = None
        self._memory_error = ""
        self.drain_asked = asyncio.Event()
        """Set when an operator has asked the worker to drain."""

    @property
    def shown_state(self) -> WorkerState:
        return self.state or self._pool.state()

    @property
    def _shown_detail(self) -> str:
        return self.detail or self._context.processor.trouble

    async def run(self) -> None:
        """Run forever. Redis outages are logged and retried.

        Heartbeats do not wait for the rest: on a slow network the worker would count as silent.
        """
        await asyncio.gather(
            each_second(self.beat, "send a heartbeat"),
            each_second(self._upkeep, "keep up"),
            self._context.broker.worker_connections.keep_open(self._context.worker_id),
        )

    async def _upkeep(self) -> None:
        await self._context.broker.registry.reap()
        await self._context.broker.clock.refresh()

    async def beat(self) -> None:
        """Send one heartbeat. Sessions whose lease is lost are aborted."""
        try:
            await self._beat()
        except BrokerUnavailable:
            self._context.contended.clear()
            raise

    async def _beat(self) -> None:
        broker, worker_id = self._context.broker, self._context.worker_id
        asked = await broker.registry.worker_beat(worker_id, self._report())
        if asked is WorkerCommand.DRAIN:
            self.drain_asked.set()
        claims = self._pool.claims()
        epochs = {sid: claim.epoch for sid, claim in claims.items()}
        for sid in await broker.leases.renew(worker_id, epochs):
            self._pool.abort(claims[sid])
        await self._look_at_queue()

    async def _look_at_queue(self) -> None:
        context = self._context
        if self._pool.free <= 0 and await context.broker.queue.awaits(context.processor.info.kinds):
            context.contended.set()
        else:
            context.contended.clear()

    def _report(self) -> WorkerReport:
        info = self._context.processor.info
        return WorkerReport(
            engine=info.name,
            model=info.model,
            kinds=info.kinds,
            slots=self._pool.slots,
            state=self.shown_state,
            device=info.device,
            address=self.address,
            open=self.state is None,
            detail=self._shown_detail,
            counters=self._context.counters.row(),
            memory=self._measured_memory(),
            latency=self._pool.latency(),
            abilities=Abilities(
                hears=info.hears,
                speaks=info.speaks,
                sees=info.sees_frames,
                sees_in_words=info.sees_in_words,
                clones_voices=info.clones_voice,
                matches_voices=info.matches_voice,
                calls_tools=info.calls_tools,
                greets=info.greets,
                interim_transcripts=self._context.interim_transcripts,
                chunk_ms=info.chunk_ms,
                transcribes=info.transcribes,
                reads_aloud=info.reads_aloud,
                voices=info.voices,
                simulated=info.simulated,
            ),
        )

    def _measured_memory(self) -> Memory | None:
        """The measurement before, if the process may open no file for a new one."""
        try:
            self._memory = self._context.processor.memory()
        except OSError as error:
            if not self._memory_error:
                log.warning("memory_not_measured", error=str(error))
            self._memory_error = str(error)
        else:
            self._memory_error = ""
        return self._memory

    def health(self) -> tuple[bool, dict[str, Any]]:
        """The health page. The worker is unhealthy only if its engine failed.

        It is ready if it takes new sessions: after its engine has loaded, until it drains.
        """
        context, state = self._context, self.shown_state
        healthy = state is not WorkerState.ERROR
        return healthy, {
            "status": "healthy" if healthy else "unhealthy",
            "ready": self.state is None,
            "worker_id": context.worker_id,
            "state": state,
            "detail": self._shown_detail,
            "engine": context.processor.info.name,
            "model": context.processor.info.model,
            "slots": self._pool.slots,
            "used": len(self._pool),
            "counters": context.counters.row(),
        }
