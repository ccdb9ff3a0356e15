"""Bodies of HTTP requests and responses. Existing dashboards read these field names."""

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, RootModel

from antiphon.shared_schemas.recording import DuplexRecording, TurnRecording
from antiphon.shared_schemas.states import SessionKind, WaitReason, WorkerState
from antiphon.shared_schemas.voices import NamedVoice

WEEK_S = 7 * 86_400
MAX_COMMENT_CHARS = 2000


def to_datetime(ms: int) -> datetime:
    """Redis-clock milliseconds as a UTC time."""
    return datetime.fromtimestamp(ms / 1000, tz=UTC)


RedisTime = Annotated[datetime, BeforeValidator(to_datetime)]
"""Sent as a UTC time, read from Redis-clock milliseconds."""


class RegistryRow(BaseModel):
    """Base of what is read from a row of the control plane."""

    model_config = ConfigDict(from_attributes=True)


class Health(BaseModel):
    """State of this edge. It cannot serve without Redis."""

    status: Literal["healthy"]
    timestamp: datetime
    edge_id: str
    redis: Literal["ok", "unavailable"]
    version: str


class RunningTask(RegistryRow):
    """A session that runs on a worker."""

    worker_id: str = Field(validation_alias="worker")
    request_type: SessionKind = Field(validation_alias="kind")
    session_id: str = Field(validation_alias="sid")
    state: str
    started_at: RedisTime = Field(validation_alias="assigned_at")
    elapsed_s: float
    estimated_remaining_s: float = Field(validation_alias="remaining_s")


class ServiceStatus(BaseModel):
    """State of the whole service."""

    gateway_healthy: bool = Field(description="this edge accepts sessions")
    total_workers: int
    idle_workers: int
    busy_workers: int = Field(description="chat, half-duplex, or draining")
    duplex_workers: int
    loading_workers: int
    error_workers: int
    offline_workers: int = Field(description="registered, but without a recent heartbeat")
    slots_total: int = Field(description="sessions that all workers can run at once")
    slots_used: int
    queue_length: int
    max_queue_size: int
    running_tasks: list[RunningTask]


class OpenAiFault(BaseModel):
    """What went wrong. `param` names the field."""

    message: str
    type: str
    param: str | None
    code: str


class OpenAiProblem(BaseModel):
    """The body of an error in the form of OpenAI's API."""

    error: OpenAiFault


class ServedModel(BaseModel):
    """A model that runs, in the form of OpenAI's API."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "antiphon"


class ServedModels(BaseModel):
    """Every model that runs."""

    object: Literal["list"] = "list"
    data: list[ServedModel]


class EngineCapabilities(BaseModel):
    """One engine with one model, on one or more workers."""

    engine: str
    model: str
    workers: int = Field(description="that run it or load it")
    kinds: list[SessionKind] = Field(description="kinds of sessions that it serves")
    hears: list[str] = Field(description="codes of languages that it understands; empty: unknown")
    speaks: list[str] = Field(description="codes of languages that it speaks; empty: unknown")
    sees: bool = Field(description="images and video")
    sees_in_words: bool = Field(
        description="of pictures, it recognises everyday objects, colours and text only"
    )
    clones_voices: bool = Field(description="speaks with a reference voice")
    matches_voices: bool = Field(
        description="chooses the nearest of its voices for a reference voice, which it does not imitate"
    )
    calls_tools: bool
    greets: bool = Field(description="speaks the `greeting` of a session first")
    interim_transcripts: bool = Field(description="sends the user's words while the user speaks")
    chunk_ms: int = Field(description="the length of a full-duplex chunk that suits it best")
    transcribes: bool = Field(description="makes transcripts of sound files")
    reads_aloud: bool = Field(description="speaks texts as they stand")
    voices: list[NamedVoice] = Field(description="what `voice` of a session may name")
    simulated: bool = Field(description="no model: its answers have no meaning")


class Capabilities(BaseModel):
    """What the live engines can do. Several engines: what any of them can do."""

    model: str | None = Field(description="the models; null if no worker runs or loads one")
    engines: list[EngineCapabilities]
    kinds: list[SessionKind]
    hears: list[str] = Field(description="empty: unknown")
    speaks: list[str] = Field(description="empty: unknown")
    sees: bool
    sees_in_words: bool = Field(description="true if all engines that see do so in words")
    clones_voices: bool
    matches_voices: bool
    calls_tools: bool
    greets: bool = Field(description="true if all engines with spoken sessions greet")
    interim_transcripts: bool = Field(description="true if all engines with spoken sessions do")
    chunk_ms: int = Field(description="the longest that an engine with spoken sessions asks for")
    transcribes: bool
    reads_aloud: bool
    voices: list[NamedVoice] = Field(description="those that all engines with speech have")
    simulated: bool = Field(description="true if all engines are simulated")

    @property
    def voice_ids(self) -> frozenset[str]:
        return frozenset(voice.id for voice in self.voices)


class WorkerInfo(BaseModel):
    """One worker. With several slots, the current session is the oldest one."""

    worker_id: str
    host: str
    port: int
    gpu_id: int = Field(description="-1 when it runs on the CPU")
    status: WorkerState
    current_session_id: str | None
    current_request_type: SessionKind | None
    task_started_at: datetime | None
    total_requests: int = Field(description="sessions served since the worker started")
    avg_inference_time_ms: float = Field(description="mean duration of one unit")
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
    """All registered workers."""

    total: int
    workers: list[WorkerInfo]


class QueueItem(BaseModel):
    """One waiting session. `position` is 1-based."""

    ticket_id: str
    request_type: SessionKind
    session_id: str
    position: int
    estimated_wait_s: float | None = Field(description="null while no worker can take it")
    reason: WaitReason | None = Field(description="why no worker can take it")
    enqueued_at: datetime
    wait_elapsed_s: float


class QueueStatus(BaseModel):
    """Waiting sessions in order, and running sessions."""

    queue_length: int
    max_queue_size: int
    items: list[QueueItem]
    running_tasks: list[RunningTask]


class QueueTicket(BaseModel):
    """A waiting session, if the ticket is still in the queue."""

    found: bool
    message: str | None = None
    ticket: QueueItem | None = None


class ActionResult(BaseModel):
    """`success` is false if there was nothing to act on."""

    success: bool


class StopRequest(BaseModel):
    """The half-duplex session whose answer is stopped, and the secret of its client without cookies."""

    session_id: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    client_secret: str = ""


class StopAnswer(BaseModel):
    """`success`: the session exists and the request was sent."""

    success: bool
    message: str


class EtaConfig(BaseModel):
    """Assumed length of a session in seconds, used until enough sessions were measured."""

    eta_chat_s: float
    eta_half_duplex_s: float
    eta_audio_duplex_s: float
    eta_omni_duplex_s: float
    eta_turns_s: float
    ema_alpha: float = Field(description="smoothing factor")


_Baseline = Annotated[float | None, Field(gt=0, le=86_400)]


class EtaChange(BaseModel):
    """New values for `EtaConfig`. Without a value, or with null, a field keeps its current one."""

    eta_chat_s: _Baseline = None
    eta_half_duplex_s: _Baseline = None
    eta_audio_duplex_s: _Baseline = None
    eta_omni_duplex_s: _Baseline = None
    eta_turns_s: _Baseline = None
    ema_alpha: Annotated[float | None, Field(gt=0, le=1)] = None


class EtaReport(BaseModel):
    """Baselines, moving averages (seconds) and sample counts."""

    config: EtaConfig
    ema_alpha: float
    ema_chat_s: float | None
    ema_half_duplex_s: float | None
    ema_audio_duplex_s: float | None
    ema_omni_duplex_s: float | None
    ema_turns_s: float | None
    ema_chat_samples: int
    ema_half_duplex_samples: int
    ema_audio_duplex_samples: int
    ema_omni_duplex_samples: int
    ema_turns_samples: int


class FrontendDefaults(BaseModel):
    """Initial settings of the pages."""

    playback_delay_ms: int = Field(description="audio buffered before playback")
    default_lang: Literal["en", "zh"] | None = Field(
        default=None, description="language of the pages; default: the browser's"
    )


class ActiveSession(BaseModel):
    """A session that runs on a worker, as dashboards list it."""

    session_id: str
    worker_id: str
    messages_hash: str = Field(
        default="", description="always empty: contexts are not looked up by hash"
    )
    last_active: datetime = Field(description="the worker's last heartbeat")


class ActiveSessions(BaseModel):
    """All running sessions."""

    total: int
    sessions: list[ActiveSession]


class CacheHolder(BaseModel):
    """A worker that may hold the context of a conversation."""

    worker_id: str
    status: WorkerState


class CacheStatus(BaseModel):
    """Workers that may hold contexts."""

    workers: list[CacheHolder]


class Timeline(RootModel[Annotated[DuplexRecording | TurnRecording, Field(discriminator="mode")]]):
    """`recording.json`: by chunk of a duplex session, by turn of the other kinds."""


class Comment(BaseModel):
    """The comment of a recording; may be empty."""

    comment: str = ""


class CommentSaved(BaseModel):
    """`len`: length of the comment in characters."""

    status: str
    len: int


class ShareRequest(BaseModel):
    """Options of a new share link."""

    expires_in_s: float | None = Field(
        default=WEEK_S,
        gt=0,
        le=10 * 365 * 86_400,
        allow_inf_nan=False,
        description="null: valid until it is revoked",
    )


class ShareLink(BaseModel):
    """A link that gives read access to one recording to anyone who has it."""

    token: str
    url: str = Field(description="the viewer's page, on this server")
    expires_at: datetime | None = Field(description="null: valid until it is revoked")


class ShareLinkList(BaseModel):
    """Every link of a recording, ordered by expiry."""

    shares: list[ShareLink]
