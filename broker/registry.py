"""Who is alive: workers with what they serve, and edges with whom they serve."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import orjson

from broker.scripts import Scripts
from broker.settings import BrokerSettings
from shared_schemas.registry import WorkerRow
from shared_schemas.states import EndReason, SessionKind, WorkerState


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
    )


class Registry:
    """Heartbeats, and the upkeep that acts on missing ones."""

    def __init__(self, scripts: Scripts, settings: BrokerSettings) -> None:
        self._scripts = scripts
        self._settings = settings

    async def worker_beat(self, worker_id: str, held: int, report: WorkerReport) -> None:
        """Say that a worker is alive and holds `held` sessions."""
        await self._scripts.run(
            "worker_beat",
            worker_id,
            held,
            *("engine", report.engine, "model", report.model),
            *("kinds", ",".join(sorted(report.kinds)), "slots", report.slots),
            *("state", report.state, "device", report.device, "address", report.address),
            *("open", int(report.open), "detail", report.detail),
            *("counters", orjson.dumps(report.counters)),
        )

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
        )
        return int(requeued), int(ended)
