"""Snapshots of the queue and the workers, put into the models that the routes answer with."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from antiphon.broker.eta import EtaStatus as Lengths
from antiphon.edge.routes.models import (
    EtaConfig,
    EtaStatus,
    LiveSession,
    LiveSessions,
    QueueItem,
    QueueStatus,
    RunningTask,
    ServiceStatus,
    WorkerInfo,
)
from antiphon.shared_schemas.registry import QueueSnapshot, Running, Waiting, WorkerRow
from antiphon.shared_schemas.states import SessionKind, WorkerState

_ON_CPU = -1
_NO_ADDRESS = ("", 0)

ETA_FIELDS = {
    "chat": SessionKind.CHAT,
    "half_duplex": SessionKind.HALF_DUPLEX,
    "audio_duplex": SessionKind.AUDIO_DUPLEX,
    "omni_duplex": SessionKind.OMNI_DUPLEX,
}
"""The names under which the kinds appear in `eta_<name>_s` and `ema_<name>_s`."""

_GROUPS = {
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


def instant(ms: int) -> datetime:
    """Redis-clock milliseconds as a time with zone."""
    return datetime.fromtimestamp(ms / 1000, tz=UTC)


def service_status(
    snapshot: QueueSnapshot, *, max_queue_size: int, healthy: bool, ttl_ms: float
) -> ServiceStatus:
    """Count the workers by what they do; one silent for `ttl_ms` is offline."""
    states = [_state(worker, snapshot.at, ttl_ms) for worker in snapshot.workers]
    groups = Counter(_GROUPS[state] for state in states)
    return ServiceStatus(
        gateway_healthy=healthy,
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
        max_queue_size=max_queue_size,
        running_tasks=[running_task(job) for job in snapshot.running],
    )


def queue_status(snapshot: QueueSnapshot, max_queue_size: int) -> QueueStatus:
    """Everyone who waits and everything that runs."""
    return QueueStatus(
        queue_length=len(snapshot.waiting),
        max_queue_size=max_queue_size,
        items=[queue_item(row, snapshot.at) for row in snapshot.waiting],
        running_tasks=[running_task(job) for job in snapshot.running],
    )


def queue_item(row: Waiting, now: int) -> QueueItem:
    """One waiting session."""
    return QueueItem(
        ticket_id=str(row.ticket),
        request_type=row.kind,
        session_id=row.sid,
        position=row.position,
        estimated_wait_s=round(row.eta_s, 1),
        enqueued_at=instant(row.queued_at),
        wait_elapsed_s=max(0.0, (now - row.queued_at) / 1000),
    )


def running_task(job: Running) -> RunningTask:
    """One running session."""
    return RunningTask(
        worker_id=job.worker,
        request_type=job.kind,
        session_id=job.sid,
        state=job.state,
        started_at=instant(job.assigned_at),
        elapsed_s=job.elapsed_s,
        estimated_remaining_s=job.remaining_s,
    )


def live_sessions(snapshot: QueueSnapshot) -> LiveSessions:
    """Every running session with its worker's heartbeat."""
    beats = {worker.id: worker.beat_at for worker in snapshot.workers}
    rows = [
        LiveSession(
            session_id=job.sid,
            worker_id=job.worker,
            last_active=instant(beats.get(job.worker, job.assigned_at)),
        )
        for job in snapshot.running
    ]
    return LiveSessions(total=len(rows), sessions=rows)


def worker_info(worker: WorkerRow, snapshot: QueueSnapshot, ttl_ms: float) -> WorkerInfo:
    """One worker with the sessions it holds, oldest first."""
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
        task_started_at=instant(oldest.assigned_at) if oldest else None,
        total_requests=int(worker.counters.get("sessions", 0)),
        avg_inference_time_ms=_mean_unit_ms(worker.counters),
        last_heartbeat=instant(worker.beat_at),
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


def eta_status(lengths: Lengths) -> EtaStatus:
    """Baselines, averages and counts under their wire names."""
    baselines = {f"eta_{n}_s": lengths.baselines[k] for n, k in ETA_FIELDS.items()}
    averages = {f"ema_{n}_s": lengths.averages.get(k) for n, k in ETA_FIELDS.items()}
    counts = {f"ema_{n}_samples": lengths.counts.get(k, 0) for n, k in ETA_FIELDS.items()}
    config = EtaConfig.model_validate({**baselines, "ema_alpha": lengths.alpha})
    return EtaStatus.model_validate(
        {"config": config, "ema_alpha": lengths.alpha, **averages, **counts}
    )


def _state(worker: WorkerRow, now: int, ttl_ms: float) -> WorkerState:
    return WorkerState.OFFLINE if now - worker.beat_at > ttl_ms else worker.state


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return (host, int(port)) if port.isdecimal() else _NO_ADDRESS


def _gpu(device: str) -> int:
    name, _, number = device.partition(":")
    if name != "cuda":
        return _ON_CPU
    return int(number) if number.isdecimal() else 0


def _mean_unit_ms(counters: dict[str, float]) -> float:
    units = counters.get("units", 0)
    return round(counters.get("unit_ms_total", 0.0) / units, 3) if units else 0.0
