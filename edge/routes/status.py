"""Health, workers, queue and running sessions: `/health`, `/status`, `/workers`, `/api/queue`, …"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Annotated

from fastapi import APIRouter, Path

from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.eta import SessionLengths
from antiphon.edge.edge_context import EdgeContext
from antiphon.edge.routes.deps import NEEDS_REDIS, EdgeDep, SnapshotDep
from antiphon.edge.routes.models import (
    ActiveSession,
    ActiveSessions,
    CacheHolder,
    CacheStatus,
    Capabilities,
    EngineCapabilities,
    EtaConfig,
    EtaReport,
    Health,
    QueueItem,
    QueueStatus,
    QueueTicket,
    RunningTask,
    ServiceStatus,
    WorkerInfo,
    WorkersResponse,
    to_datetime,
)
from antiphon.shared_schemas.config import USUAL_CHUNK_MS
from antiphon.shared_schemas.registry import QueuedSession, QueueSnapshot, WorkerRow
from antiphon.shared_schemas.states import SessionKind, WorkerState
from antiphon.shared_schemas.voices import NamedVoice

_PING_S = 1.0
_CPU = -1
_NO_ADDRESS = ("", 0)

ETA_NAMES = {kind.removesuffix("_audio"): kind for kind in SessionKind}
"""Names of the kinds in the fields `eta_<name>_s` and `ema_<name>_s`."""

_STATE_GROUPS = {
    WorkerState.IDLE: "idle",
    WorkerState.BUSY_CHAT: "busy",
    WorkerState.BUSY_HALF_DUPLEX: "busy",
    WorkerState.DRAINING: "busy",
    WorkerState.DUPLEX_ACTIVE: "duplex",
    WorkerState.DUPLEX_PAUSED: "duplex",
    WorkerState.LOADING: "loading",
    WorkerState.ERROR: "error",
    WorkerState.OFFLINE: "offline",
}

TicketId = Annotated[str, Path(max_length=32, description="`ticket_id` of a `queued` message")]

public_router = APIRouter(tags=["status"])
router = APIRouter(responses=NEEDS_REDIS)


@public_router.get("/health")
async def health(edge: EdgeDep) -> Health:
    """Answers 200 while the process runs, even if Redis is not available."""
    return Health(
        status="healthy",
        timestamp=datetime.now(tz=UTC),
        edge_id=edge.id,
        redis="ok" if await _redis_answers(edge) else "unavailable",
        version=version("antiphon"),
    )


@router.get("/status", tags=["status"])
async def status(edge: EdgeDep, snapshot: SnapshotDep) -> ServiceStatus:
    """Workers by state, slots, the queue's length, and running sessions."""
    ttl_ms = edge.settings.heartbeat_ttl_s * 1000
    states = [_state(worker, snapshot.at, ttl_ms) for worker in snapshot.workers]
    groups = Counter(_STATE_GROUPS[state] for state in states)
    return ServiceStatus(
        gateway_healthy=not edge.draining,
        total_workers=len(snapshot.workers),
        idle_workers=groups["idle"],
        busy_workers=groups["busy"],
        duplex_workers=groups["duplex"],
        loading_workers=groups["loading"],
        error_workers=groups["error"],
        offline_workers=groups["offline"],
        slots_total=sum(worker.slots for worker in snapshot.workers),
        slots_used=sum(worker.used for worker in snapshot.workers),
        queue_length=len(snapshot.waiting),
        max_queue_size=edge.settings.max_queue_size,
        running_tasks=[RunningTask.model_validate(job) for job in snapshot.running],
    )


@router.get("/api/capabilities", tags=["status"])
async def capabilities(edge: EdgeDep, snapshot: SnapshotDep) -> Capabilities:
    """What the live engines can do: models, languages, images, voices, tools."""
    ttl_ms = edge.settings.heartbeat_ttl_s * 1000
    unusable = (WorkerState.OFFLINE, WorkerState.ERROR, WorkerState.DRAINING)
    return capabilities_of(
        worker for worker in snapshot.workers if _state(worker, snapshot.at, ttl_ms) not in unusable
    )


async def live_engines(edge: EdgeContext) -> Capabilities:
    """As `capabilities`, for other routes."""
    return await capabilities(edge, await edge.broker.queue.snapshot())


@router.get("/workers", tags=["status"])
async def workers(edge: EdgeDep, snapshot: SnapshotDep) -> WorkersResponse:
    """Every worker with its state, its sessions and its counters."""
    ttl_ms = edge.settings.heartbeat_ttl_s * 1000
    rows = [_worker_info(worker, snapshot, ttl_ms) for worker in snapshot.workers]
    return WorkersResponse(total=len(rows), workers=rows)


@router.get("/sessions", tags=["status"])
async def sessions(snapshot: SnapshotDep) -> ActiveSessions:
    """Every session that runs on a worker. Recordings are under `/api/sessions`."""
    beats = {worker.id: worker.beat_at for worker in snapshot.workers}
    rows = [
        ActiveSession(
            session_id=job.sid,
            worker_id=job.worker,
            last_active=to_datetime(beats.get(job.worker, job.assigned_at)),
        )
        for job in snapshot.running
    ]
    return ActiveSessions(total=len(rows), sessions=rows)


@router.get("/cache", tags=["status"])
async def cache(edge: EdgeDep, snapshot: SnapshotDep) -> CacheStatus:
    """Workers that may hold a conversation's context."""
    rows = (await workers(edge, snapshot)).workers
    return CacheStatus(
        workers=[CacheHolder(worker_id=row.worker_id, status=row.status) for row in rows]
    )


@router.get("/api/queue", tags=["queue"])
async def queue(edge: EdgeDep, snapshot: SnapshotDep) -> QueueStatus:
    """Waiting sessions in order, with estimates, and running sessions."""
    return QueueStatus(
        queue_length=len(snapshot.waiting),
        max_queue_size=edge.settings.max_queue_size,
        items=[_queue_item(row, snapshot.at) for row in snapshot.waiting],
        running_tasks=[RunningTask.model_validate(job) for job in snapshot.running],
    )


@router.get("/api/queue/{ticket_id}", tags=["queue"])
async def ticket(snapshot: SnapshotDep, ticket_id: TicketId) -> QueueTicket:
    """One waiting session; `found` is false once it was assigned, cancelled or left."""
    row = find_ticket(snapshot, ticket_id)
    if row is None:
        return QueueTicket(found=False, message="not in the queue: assigned, cancelled or gone")
    return QueueTicket(found=True, ticket=_queue_item(row, snapshot.at))


@router.get("/api/config/eta", tags=["queue"])
async def eta(edge: EdgeDep) -> EtaReport:
    """The values that waiting times are estimated from."""
    return eta_report(await edge.broker.eta.lengths())


async def _redis_answers(edge: EdgeContext) -> bool:
    try:
        async with asyncio.timeout(_PING_S):
            await edge.broker.ping()
    except (BrokerUnavailable, TimeoutError):
        return False
    return True


def find_ticket(snapshot: QueueSnapshot, ticket_id: str) -> QueuedSession | None:
    return next((row for row in snapshot.waiting if str(row.ticket) == ticket_id), None)


def _queue_item(row: QueuedSession, now: int) -> QueueItem:
    return QueueItem(
        ticket_id=str(row.ticket),
        request_type=row.kind,
        session_id=row.sid,
        position=row.position,
        estimated_wait_s=None if row.eta_s is None else round(row.eta_s, 1),
        reason=row.reason,
        enqueued_at=to_datetime(row.queued_at),
        wait_elapsed_s=max(0.0, (now - row.queued_at) / 1000),
    )


def _worker_info(worker: WorkerRow, snapshot: QueueSnapshot, ttl_ms: float) -> WorkerInfo:
    """Sessions are ordered by age, the oldest first."""
    jobs = sorted(
        (job for job in snapshot.running if job.worker == worker.id), key=lambda j: j.assigned_at
    )
    oldest = jobs[0] if jobs else None
    host, port = _address(worker.address)
    return WorkerInfo(
        worker_id=worker.id,
        host=host,
        port=port,
        gpu_id=_gpu(worker.device),
        status=_state(worker, snapshot.at, ttl_ms),
        current_session_id=oldest.sid if oldest else None,
        current_request_type=oldest.kind if oldest else None,
        task_started_at=to_datetime(oldest.assigned_at) if oldest else None,
        total_requests=int(worker.counters.get("sessions", 0)),
        avg_inference_time_ms=_mean_unit_ms(worker.counters),
        last_heartbeat=to_datetime(worker.beat_at),
        engine=worker.engine,
        model=worker.model,
        device=worker.device,
        kinds=sorted(worker.kinds),
        slots=worker.slots,
        slots_used=worker.used,
        sessions=[job.sid for job in jobs],
        detail=worker.detail,
        counters=worker.counters,
    )


def eta_report(eta: SessionLengths) -> EtaReport:
    baselines = {f"eta_{n}_s": eta.baselines[k] for n, k in ETA_NAMES.items()}
    averages = {f"ema_{n}_s": eta.averages.get(k) for n, k in ETA_NAMES.items()}
    counts = {f"ema_{n}_samples": eta.counts.get(k, 0) for n, k in ETA_NAMES.items()}
    config = EtaConfig.model_validate({**baselines, "ema_alpha": eta.alpha})
    return EtaReport.model_validate(
        {"config": config, "ema_alpha": eta.alpha, **averages, **counts}
    )


def _state(worker: WorkerRow, now: int, ttl_ms: float) -> WorkerState:
    return WorkerState.OFFLINE if now - worker.beat_at > ttl_ms else worker.state


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return (host, int(port)) if port.isdecimal() else _NO_ADDRESS


def _gpu(device: str) -> int:
    name, _, number = device.partition(":")
    if name != "cuda":
        return _CPU
    return int(number) if number.isdecimal() else 0


def _mean_unit_ms(counters: dict[str, float]) -> float:
    units = counters.get("units", 0)
    return round(counters.get("unit_ms_total", 0.0) / units, 3) if units else 0.0


def capabilities_of(workers: Iterable[WorkerRow]) -> Capabilities:
    """What any of these workers can do. A worker knows its voices when it has loaded them."""
    workers = list(workers)
    same: dict[tuple[object, ...], list[WorkerRow]] = {}
    for worker in workers:
        key = (worker.engine, worker.model, worker.kinds, worker.abilities)
        same.setdefault(key, []).append(worker)
    engines = sorted(map(_engine, same.values()), key=lambda one: (one.model, one.engine))
    talking = [one for one in engines if set(one.kinds) - {SessionKind.CHAT}]
    return Capabilities(
        model=", ".join(dict.fromkeys(one.model for one in engines)) or None,
        engines=engines,
        kinds=sorted({kind for one in engines for kind in one.kinds}),
        hears=_all_languages([one.hears for one in engines]),
        speaks=_all_languages([one.speaks for one in engines]),
        sees=any(one.sees for one in engines),
        sees_in_words=any(one.sees for one in engines)
        and all(one.sees_in_words for one in engines if one.sees),
        clones_voices=any(one.clones_voices for one in engines),
        matches_voices=any(one.matches_voices for one in engines),
        calls_tools=any(one.calls_tools for one in engines),
        greets=bool(talking) and all(one.greets for one in talking),
        interim_transcripts=bool(talking) and all(one.interim_transcripts for one in talking),
        chunk_ms=max((one.chunk_ms for one in talking), default=USUAL_CHUNK_MS),
        transcribes=any(one.transcribes for one in engines),
        reads_aloud=any(one.reads_aloud for one in engines),
        voices=_common_voices([one.abilities.voices for one in workers if _may_speak(one)]),
        simulated=bool(engines) and all(one.simulated for one in engines),
    )


def _may_speak(worker: WorkerRow) -> bool:
    return worker.state is not WorkerState.LOADING and bool(worker.kinds - {SessionKind.CHAT})


def _engine(workers: Sequence[WorkerRow]) -> EngineCapabilities:
    """`workers` run the same engine with the same model."""
    [first, *_] = workers
    return EngineCapabilities(
        engine=first.engine,
        model=first.model,
        workers=len(workers),
        kinds=sorted(first.kinds),
        **asdict(first.abilities),
    )


def _common_voices(known: Sequence[Sequence[NamedVoice]]) -> list[NamedVoice]:
    """The voices that a session may name whichever engine it gets."""
    return (
        [voice for voice in known[0] if all(voice in voices for voices in known)] if known else []
    )


def _all_languages(known: Sequence[Sequence[str]]) -> list[str]:
    """The union; empty if the languages of one engine are not known."""
    return sorted({code for codes in known for code in codes}) if all(known) else []
