"""Who is alive: workers with what they serve, and edges with whom they serve."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import orjson
import structlog

from antiphon.broker.scripts import Scripts
from antiphon.broker.service.metrics import BrokerMetrics
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.events import WorkerCommand
from antiphon.shared_schemas.registry import EdgeRow, EdgeSnapshot, Latency, Memory, WorkerRow
from antiphon.shared_schemas.states import EndReason, SessionKind, WorkerState

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    """What a worker says of itself with each heartbeat; `open` is False while it takes no sessions."""

    engine: str
    model: str
    kinds: frozenset[SessionKind]
    slots: int
    state: WorkerState
    device: str
    address: str
    open: bool
    detail: str = ""
    counters: dict[str, float] = field(default_factory=dict)
    memory: Memory | None = None
    latency: dict[str, Latency] = field(default_factory=dict)


def read_worker(worker_id: str, flat: list[bytes]) -> WorkerRow:
    """Parse one worker's hash from the flat reply of HGETALL."""
    row = {k.decode(): v.decode() for k, v in zip(flat[::2], flat[1::2], strict=True)}
    return WorkerRow(
        id=worker_id,
        engine=row["engine"],
        model=row["model"],
        kinds=frozenset(SessionKind(k) for k in row["kinds"].split(",") if k),
        slots=int(row["slots"]),
        used=int(row["used"]),
        state=WorkerState(row["state"]),
        device=row["device"],
        address=row["address"],
        beat_at=int(row["beat_at"]),
        open=row["open"] == "1",
        detail=row["detail"],
        counters=orjson.loads(row["counters"]),
        memory=_read_memory(row.get("memory", "")),
        latency=_read_latency(row.get("latency", "{}")),
    )


def _read_memory(text: str) -> Memory | None:
    used, _, total = text.partition("/")
    return Memory(int(used), int(total)) if total else None


def _read_latency(text: str) -> dict[str, Latency]:
    return {sid: Latency(*newest) for sid, newest in orjson.loads(text).items()}


def _read_ask(text: str) -> WorkerCommand | None:
    if text and text not in set(WorkerCommand):
        log.warning("worker_ask_unknown", asked=text)
        return None
    return WorkerCommand(text) if text else None


class Registry:
    """Heartbeats, and the upkeep that acts on missing ones."""

    def __init__(self, scripts: Scripts, settings: BrokerSettings, metrics: BrokerMetrics) -> None:
        self._scripts = scripts
        self._settings = settings
        self._reaped = metrics.reaped

    async def worker_beat(
        self, worker_id: str, held: int, report: WorkerReport
    ) -> WorkerCommand | None:
        """Say that a worker is alive and holds `held` sessions; returns what is asked of it."""
        memory, newest = report.memory, report.latency
        asked = await self._scripts.run(
            "worker_beat",
            worker_id,
            held,
            *("engine", report.engine, "model", report.model),
            *("kinds", ",".join(sorted(report.kinds)), "slots", report.slots),
            *("state", report.state, "device", report.device, "address", report.address),
            *("open", int(report.open), "detail", report.detail),
            *("counters", orjson.dumps(report.counters)),
            *("memory", f"{memory.used}/{memory.total}" if memory else ""),
            *("latency", orjson.dumps({s: (one.count, one.ms) for s, one in newest.items()})),
        )
        return _read_ask(asked.decode())

    async def command_worker(self, worker_id: str, what: WorkerCommand) -> bool:
        """Leave a wish for a worker's next heartbeat; False when there is no such worker."""
        return int(await self._scripts.run("ask_worker", worker_id, what)) == 1

    async def worker_gone(self, worker_id: str) -> None:
        """Remove a worker that leaves in order."""
        await self._scripts.run("worker_gone", worker_id)

    async def edge_beat(
        self, edge_id: str, serving: Iterable[tuple[str, int]]
    ) -> dict[str, EndReason | None]:
        """Say that an edge is alive and serves these (sid, ticket). Returns those that are over."""
        flat = [part for pair in serving for part in pair]
        answer = await self._scripts.run("edge_beat", edge_id, *flat)
        text = [part.decode() for part in answer]
        return {
            sid: EndReason(reason) if reason else None
            for sid, reason in zip(text[::2], text[1::2], strict=True)
        }

    async def edge_gone(self, edge_id: str) -> None:
        """Remove an edge that leaves in order."""
        await self._scripts.run("edge_gone", edge_id)

    async def edges(self) -> EdgeSnapshot:
        """The edges that are alive and what they serve."""
        now, beats, serving = await self._scripts.run("edges")
        return EdgeSnapshot(
            at=int(now),
            edges=tuple(
                EdgeRow(id=name.decode(), beat_at=int(float(beat)), sessions=serving.count(name))
                for name, beat in zip(beats[::2], beats[1::2], strict=True)
            ),
        )

    async def reap(self) -> tuple[int, int]:
        """Requeue and end what the dead left behind; returns (requeued, ended). Run once a second."""
        s = self._settings
        requeued, ended, _, _ = await self._scripts.run(
            "reap",
            s.max_attempts,
            int(s.heartbeat_ttl_s * 1000),
            int(s.recovery_timeout_s * 1000),
            s.session_row_ttl_s,
            int(s.lease_s * 1000),
            int(s.resume_grace_s * 1000),
        )
        self._reaped.labels("requeued").inc(int(requeued))
        self._reaped.labels("ended").inc(int(ended))
        return int(requeued), int(ended)
