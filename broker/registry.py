"""The live workers and edges, and the upkeep that acts on missing heartbeats."""

from collections.abc import Iterable
from itertools import chain
from typing import Annotated, Any, NamedTuple

import orjson
import structlog
from pydantic import Field, TypeAdapter

from antiphon.broker.rows import hash_fields, read_rows, whole_number
from antiphon.broker.scripts import Scripts, control_script
from antiphon.broker.service.metrics import BrokerMetrics
from antiphon.broker.settings import BrokerSettings
from antiphon.broker.streams import SessionStreams
from antiphon.shared_schemas.registry import (
    Abilities,
    EdgeRow,
    EdgeSnapshot,
    Latency,
    Memory,
    RowNumber,
    WorkerCommand,
    WorkerReport,
    WorkerRow,
)
from antiphon.shared_schemas.states import EndReason, SessionKind, WorkerState

log = structlog.get_logger()


_MOST_SLOTS = 100_000
_FINITE = Annotated[float, Field(allow_inf_nan=False)]
_COUNTERS = TypeAdapter(dict[str, RowNumber | _FINITE])
_ABILITIES = TypeAdapter(Abilities)
_LATENCY = TypeAdapter(dict[str, tuple[RowNumber, _FINITE]])


def read_worker(worker_id: bytes, flat: list[bytes]) -> WorkerRow:
    """Parse one worker's hash from the flat reply of HGETALL. Raises one of MALFORMED."""
    row = hash_fields(flat)
    memory_used, _, memory_total = row.get("memory", "").partition("/")
    latency = _LATENCY.validate_json(row.get("latency", "{}"))
    slots = whole_number(row["slots"])
    if slots > _MOST_SLOTS:  # estimates take memory for each of them
        raise ValueError(f"{slots} slots")
    return WorkerRow(
        id=worker_id.decode(),
        engine=row["engine"],
        model=row["model"],
        kinds=frozenset(SessionKind(k) for k in row["kinds"].split(",") if k),
        slots=slots,
        used=whole_number(row["used"]),
        state=WorkerState(row["state"]),
        device=row["device"],
        address=row["address"],
        beat_at=whole_number(row["beat_at"]),
        open=row["open"] == "1",
        detail=row["detail"],
        counters=dict(_COUNTERS.validate_json(row["counters"])),
        memory=_memory(memory_used, memory_total) if memory_total else None,
        latency={sid: Latency(*newest) for sid, newest in latency.items()},
        abilities=_ABILITIES.validate_json(row.get("abilities", "{}")),
    )


def _memory(used: str, total: str) -> Memory:
    return Memory(whole_number(used), whole_number(total))


class EdgeBeat(NamedTuple):
    """What a heartbeat found about the edge's sessions.

    `over`: those that have ended; None if the row is lost. `silent`: those whose worker has sent no
    heartbeat for two seconds, and still has its lease. `replaced`: the newer connection of those whose
    clients have resumed elsewhere. `forgotten`: those whose newest resume a failover has lost.
    """

    over: dict[str, EndReason | None]
    silent: set[str]
    replaced: dict[str, int]
    forgotten: set[str]


class Reaped(NamedTuple):
    """Sessions that one run of the reaper requeued and ended."""

    requeued: int
    ended: int


@control_script
def _worker_beat(
    reply: bytes, worker_id: str, row: Iterable[tuple[str, str | bytes | int]]
) -> WorkerCommand | None:
    name = reply.decode(errors="replace")
    if name and name not in set(WorkerCommand):
        log.warning("worker_ask_unknown", asked=name)
        return None
    return WorkerCommand(name) if name else None


@control_script
def _ask_worker(reply: int, worker_id: str, command: WorkerCommand) -> bool:
    return reply == 1


@control_script
def _worker_gone(reply: int, worker_id: str) -> None:
    return None


@control_script
def _edge_beat(reply: list[list[bytes]], edge: str, serving: Iterable[str | int]) -> EdgeBeat:
    over, silent, newer, forgotten = reply
    pairs = zip(over[::2], over[1::2], strict=True)
    ended = {sid.decode(): _end_reason(reason) for sid, reason in pairs}
    rows = zip(newer[::2], newer[1::2], strict=True)
    read = read_rows("session", rows, lambda sid, number: (sid.decode(), whole_number(number)))
    silent_sids, forgotten_sids = ({sid.decode() for sid in sids} for sids in (silent, forgotten))
    return EdgeBeat(ended, silent_sids, dict(read), forgotten_sids)


def _end_reason(text: bytes) -> EndReason | None:
    """An unknown reason is an error: the session is over."""
    try:
        return EndReason(text.decode()) if text else None
    except ValueError:
        return EndReason.ERROR


@control_script
def _edge_gone(reply: int, edge: str) -> None:
    return None


@control_script
def _edges(reply: list[Any], heartbeat_ttl_ms: int) -> EdgeSnapshot:
    now_ms, beats, serving = reply
    return EdgeSnapshot(
        at=int(now_ms),
        edges=tuple(
            read_rows(
                "edges",
                zip(beats[::2], beats[1::2], strict=True),
                lambda name, beat: EdgeRow(
                    id=name.decode(), beat_at=int(float(beat)), sessions=serving.count(name)
                ),
            )
        ),
    )


@control_script
def _reap(
    reply: tuple[int, list[tuple[bytes, bytes, bytes]]],
    max_attempts: int,
    heartbeat_ttl_ms: int,
    recovery_timeout_ms: int,
    row_ttl_s: int,
    lease_ms: int,
    grace_ms: int,
    patience_ms: int,
) -> tuple[int, list[tuple[bytes, bytes, bytes]]]:
    return reply


class Registry:
    """Heartbeats of workers and edges, and the reaper."""

    def __init__(
        self,
        scripts: Scripts,
        settings: BrokerSettings,
        metrics: BrokerMetrics,
        streams: SessionStreams,
    ) -> None:
        self._scripts = scripts
        self._streams = streams
        self._settings = settings
        self._reaped = metrics.reaped

    async def worker_beat(self, worker_id: str, report: WorkerReport) -> WorkerCommand | None:
        """Report that a worker lives; returns a command left for it."""
        memory, newest = report.memory, report.latency
        row: dict[str, str | bytes | int] = {
            "engine": report.engine,
            "model": report.model,
            "kinds": ",".join(sorted(report.kinds)),
            "slots": report.slots,
            "state": report.state,
            "device": report.device,
            "address": report.address,
            "open": int(report.open),
            "detail": report.detail,
            "counters": orjson.dumps(report.counters),
            "memory": f"{memory.used}/{memory.total}" if memory else "",
            "latency": orjson.dumps({s: (one.count, one.ms) for s, one in newest.items()}),
            "abilities": orjson.dumps(report.abilities),
        }
        return await self._scripts.run(_worker_beat, worker_id, row.items())

    async def command_worker(self, worker_id: str, command: WorkerCommand) -> bool:
        """Leave a command for a worker's next heartbeat; False when there is no such worker."""
        return await self._scripts.run(_ask_worker, worker_id, command)

    async def worker_gone(self, worker_id: str) -> None:
        """Remove a worker that shuts down or whose process has ended; its leases expire at once.

        A worker that still lives renews them, unless the reaper runs first. Then it loses its sessions.
        """
        await self._scripts.run(_worker_gone, worker_id)

    async def edge_beat(self, edge_id: str, serving: Iterable[tuple[str, int, int]]) -> EdgeBeat:
        """Report that an edge lives and serves these (sid, ticket, connection; 0: not resumable)."""
        return await self._scripts.run(_edge_beat, edge_id, chain.from_iterable(serving))

    async def edge_gone(self, edge_id: str) -> None:
        """Remove an edge that shuts down."""
        await self._scripts.run(_edge_gone, edge_id)

    async def edges(self) -> EdgeSnapshot:
        """The live edges, with the number of sessions that each serves."""
        return await self._scripts.run(_edges, int(self._settings.heartbeat_ttl_s * 1000))

    async def reap(self) -> Reaped:
        """Requeue or end the sessions of dead processes. Run once a second."""
        s = self._settings
        requeued, ended = await self._scripts.run(
            _reap,
            s.max_attempts,
            heartbeat_ttl_ms=int(s.heartbeat_ttl_s * 1000),
            recovery_timeout_ms=int(s.recovery_timeout_s * 1000),
            row_ttl_s=s.session_row_ttl_s,
            lease_ms=int(s.lease_s * 1000),
            grace_ms=int(s.resume_grace_s * 1000),
            patience_ms=int(s.broker_patience_s * 1000),
        )
        for sid, ticket, reason in ended:
            left = reason == EndReason.CLIENT_GONE.encode()
            self._reaped.labels("client_gone" if left else "ended").inc()
            if ticket.isdigit():  # the row may be malformed
                self._streams.expire_later(sid.decode(), int(ticket))
        self._reaped.labels("requeued").inc(requeued)
        return Reaped(requeued, len(ended))
