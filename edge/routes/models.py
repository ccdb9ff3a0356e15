"""What the HTTP routes answer, under the field names that existing dashboards read."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from antiphon.shared_schemas.states import SessionKind, WorkerState


class Health(BaseModel):
    """This edge is alive; `redis` says whether it can serve."""

    status: Literal["healthy", "draining"]
    timestamp: datetime
    edge_id: str
    redis: Literal["ok", "unavailable"]
    version: str


class RunningTask(BaseModel):
    """A session that a worker holds."""

    worker_id: str
    request_type: SessionKind
    session_id: str
    state: str
    started_at: datetime
    elapsed_s: float
    estimated_remaining_s: float


class ServiceStatus(BaseModel):
    """The whole service at one instant."""

    gateway_healthy: bool = Field(description="this edge takes sessions")
    total_workers: int
    idle_workers: int
    busy_workers: int = Field(description="chat, half-duplex, or draining")
    duplex_workers: int
    loading_workers: int
    error_workers: int
    offline_workers: int = Field(description="known, but without a recent heartbeat")
    slots_total: int = Field(description="sessions that all workers can hold at once")
    slots_used: int
    queue_length: int
    max_queue_size: int
    running_tasks: list[RunningTask]


class WorkerInfo(BaseModel):
    """One worker. A worker with several slots names its oldest session as the current one."""

    worker_id: str
    host: str
    port: int
    gpu_id: int = Field(description="-1 when it runs on the CPU")
    status: WorkerState
    current_session_id: str | None
    current_request_type: SessionKind | None
    task_started_at: datetime | None
    total_requests: int = Field(description="sessions served since the worker started")
    avg_inference_time_ms: float = Field(description="mean length of one unit")
    last_heartbeat: datetime
    engine: str
    model: str
    device: str
    kinds: list[SessionKind]
    slots: int
    slots_used: int
    sessions: list[str]
    detail: str
    counters: dict[str, float]


class WorkersResponse(BaseModel):
    """Every worker with a row in the registry."""

    total: int
    workers: list[WorkerInfo]


class QueueItem(BaseModel):
    """One waiting session. `position` is 1-based."""

    ticket_id: str
    request_type: SessionKind
    session_id: str
    position: int
    estimated_wait_s: float
    enqueued_at: datetime
    wait_elapsed_s: float


class QueueStatus(BaseModel):
    """Who waits, in order, and what runs."""

    queue_length: int
    max_queue_size: int
    items: list[QueueItem]
    running_tasks: list[RunningTask]


class QueueTicket(BaseModel):
    """A place in the queue, if the ticket still has one."""

    found: bool
    message: str | None = None
    ticket: QueueItem | None = None


class Cancelled(BaseModel):
    """Whether the ticket stood in the queue and is out of it now."""

    success: bool


class DrainAsked(BaseModel):
    """The worker finds the wish with its next heartbeat."""

    success: bool


class StopRequest(BaseModel):
    """Which half-duplex session is to fall silent."""

    session_id: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")


class StopAnswer(BaseModel):
    """Whether such a session was there, so that the wish was passed on."""

    success: bool
    message: str


class EtaConfig(BaseModel):
    """Seconds that a session of each kind is taken to last, until enough have been measured."""

    eta_chat_s: float = Field(default=15.0, gt=0, le=86_400)
    eta_half_duplex_s: float = Field(default=180.0, gt=0, le=86_400)
    eta_audio_duplex_s: float = Field(default=120.0, gt=0, le=86_400)
    eta_omni_duplex_s: float = Field(default=90.0, gt=0, le=86_400)
    ema_alpha: float | None = Field(
        default=None, gt=0, le=1, description="smoothing, more is quicker; null leaves it as it is"
    )


class EtaStatus(BaseModel):
    """The baselines and what was measured: moving averages (s) and sample counts."""

    config: EtaConfig
    ema_alpha: float
    ema_chat_s: float | None
    ema_half_duplex_s: float | None
    ema_audio_duplex_s: float | None
    ema_omni_duplex_s: float | None
    ema_chat_samples: int
    ema_half_duplex_samples: int
    ema_audio_duplex_samples: int
    ema_omni_duplex_samples: int


class FrontendDefaults(BaseModel):
    """Settings that pages start from."""

    playback_delay_ms: int = Field(description="sound gathered before it is played")
    default_lang: Literal["en", "zh"] | None = Field(
        default=None, description="language of the pages; by default the browser's"
    )


class LiveSession(BaseModel):
    """A session that a worker holds."""

    session_id: str
    worker_id: str
    messages_hash: str = Field(
        default="", description="always empty: no context is looked up by its hash"
    )
    last_active: datetime = Field(description="the worker's last heartbeat")


class LiveSessions(BaseModel):
    """What runs, as dashboards list it."""

    total: int
    sessions: list[LiveSession]


class CacheHolder(BaseModel):
    """A worker, which may hold the context of a conversation."""

    worker_id: str
    status: WorkerState


class CacheStatus(BaseModel):
    """Where contexts lie."""

    workers: list[CacheHolder]
