"""Once a second: say that the worker lives, renew its leases, tidy up after the dead."""

from __future__ import annotations

import asyncio

import structlog

from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.registry import WorkerReport
from antiphon.inference_worker.bench import Bench
from antiphon.inference_worker.roster import Roster
from antiphon.shared_schemas.events import WorkerCommand
from antiphon.shared_schemas.states import WorkerState

log = structlog.get_logger()

INTERVAL_S = 1.0
_CLOCK_EVERY = 30


class Heartbeat:
    """The worker's row and leases. `state` overrides what the sessions say (loading, draining, error)."""

    def __init__(self, bench: Bench, roster: Roster, address: str = "") -> None:
        self._bench = bench
        self._roster = roster
        self.address = address
        self.state: WorkerState | None = WorkerState.LOADING
        self.detail = ""
        self.drain_asked = asyncio.Event()
        """Set once an operator wants the worker to leave."""

    @property
    def shown_state(self) -> WorkerState:
        """The state that the registry and the health page show."""
        return self.state or self._roster.state()

    async def run(self) -> None:
        """Beat for ever; an outage of Redis is sat out."""
        beats = 0
        while True:
            try:
                await self.beat()
                await self._bench.broker.registry.reap()
                if beats % _CLOCK_EVERY == 0:
                    await self._bench.broker.clock.sync()
                beats += 1
            except BrokerUnavailable as error:
                log.warning("heartbeat_failed", error=str(error))
            await asyncio.sleep(INTERVAL_S)

    async def beat(self) -> None:
        """One heartbeat; sessions that turn out to be lost are aborted."""
        broker, worker_id = self._bench.broker, self._bench.worker_id
        asked = await broker.registry.worker_beat(worker_id, len(self._roster), self._report())
        if asked is WorkerCommand.DRAIN:
            self.drain_asked.set()
        held = self._roster.held()
        epochs = {sid: claim.epoch for sid, claim in held.items()}
        for sid in await broker.leases.renew(worker_id, epochs):
            self._roster.abort(held[sid])

    def _report(self) -> WorkerReport:
        info = self._bench.processor.info
        return WorkerReport(
            engine=info.name,
            model=info.model,
            kinds=info.kinds,
            slots=self._bench.settings.slots,
            state=self.shown_state,
            device=info.device,
            address=self.address,
            open=self.state is None,
            detail=self.detail,
            counters=self._bench.counters.row(),
            memory=self._bench.processor.memory(),
            latency=self._roster.latency(),
        )
