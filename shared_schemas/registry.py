"""Rows of the control plane: sessions, workers, edges, the queue, and the transitions of sessions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from antiphon.shared_schemas.config import USUAL_CHUNK_MS
from antiphon.shared_schemas.states import (
    EndReason,
    SessionKind,
    SessionState,
    WaitReason,
    WorkerState,
)
from antiphon.shared_schemas.voices import NamedVoice

LARGEST_NUMBER = 253_402_300_799_999
"""The last millisecond of the year 9999. Times, tickets and counts of rows are not larger."""

RowNumber = Annotated[int, Field(ge=0, le=LARGEST_NUMBER)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionIdentity:
    """What a session's row, its events and its claims have in common."""

    sid: str
    kind: SessionKind
    ticket: RowNumber
    epoch: RowNumber
    attempt: RowNumber
    edge: str
    recording: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow(SessionIdentity):
    """`{antiphon}:session:<sid>`. Times are Redis-clock ms; None for what has not happened.

    `client`: the key or the address with whose sessions it is counted; empty if it is not counted.
    """

    state: SessionState
    worker: str
    queued_at: RowNumber
    assigned_at: RowNumber | None = None
    ended_at: RowNumber | None = None
    reason: EndReason | None = None
    resumable: bool = False
    config: dict[str, Any] = field(default_factory=dict)
    trace: bytes = b""
    client: str = ""


@dataclass(frozen=True, slots=True)
class Memory:
    """Device memory in bytes: used by the engine, and in total."""

    used: int
    total: int


@dataclass(frozen=True, slots=True)
class Latency:
    """Latency of a session's newest answer: the `count`th, `ms` milliseconds.

    In a full-duplex session every unit is an answer, from the edge's append to the result; in other
    sessions every turn is, from the complete question to the first delta.
    """

    count: int
    ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """What an engine can do. `hears`, `speaks`: codes of languages; empty if they are not known."""

    hears: tuple[str, ...] = ()
    speaks: tuple[str, ...] = ()
    sees: bool = False
    sees_in_words: bool = False
    clones_voices: bool = False
    matches_voices: bool = False
    calls_tools: bool = False
    greets: bool = False
    interim_transcripts: bool = False
    chunk_ms: int = USUAL_CHUNK_MS
    transcribes: bool = False
    reads_aloud: bool = False
    voices: tuple[NamedVoice, ...] = ()
    simulated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    """What a worker reports with each heartbeat.

    `open` is False while it takes no sessions (loading, draining, broken).
    """

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
    abilities: Abilities = Abilities()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow(WorkerReport):
    """`{antiphon}:worker:<id>`. `beat_at` is the last heartbeat (Redis-clock ms)."""

    id: str
    used: int
    beat_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeRow:
    """A live edge: its last heartbeat (Redis-clock ms) and how many sessions it serves."""

    id: str
    beat_at: int
    sessions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeSnapshot:
    """The live edges, at Redis-clock ms `at`."""

    at: int
    edges: tuple[EdgeRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """A place in the queue. `position` is 1-based; `wait` is False when a slot is free."""

    number: int
    position: int
    queue_length: int
    wait: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(SessionIdentity):
    """A session that a worker has claimed, under `epoch`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedSession:
    """A queued session. `eta_s`: seconds until a slot should be free, or None for the `reason`."""

    sid: str
    kind: SessionKind
    ticket: int
    position: int
    queued_at: int
    eta_s: float | None = None
    reason: WaitReason | None = None
    state: SessionState = SessionState.QUEUED


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningSession:
    """A session that a worker holds. `remaining_s` is an estimate.

    `attempt` counts the workers that have held it, `resumes` the reconnections of its client.
    """

    sid: str
    kind: SessionKind
    worker: str
    state: SessionState
    assigned_at: int
    elapsed_s: float
    remaining_s: float
    attempt: int = 1
    resumes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSnapshot:
    """The queue and the running sessions, at Redis-clock ms `at`.

    `places`: the queue as it will be when the leases of silent workers have expired.
    """

    at: int
    waiting: tuple[QueuedSession, ...]
    running: tuple[RunningSession, ...]
    workers: tuple[WorkerRow, ...]
    places: tuple[QueuedSession, ...]


class SessionCommand(StrEnum):
    """A command to a running session from outside its connection."""

    INTERRUPT = "break"
    """Stop the answer that is being generated."""


class WorkerCommand(StrEnum):
    """An operator's command to a worker."""

    DRAIN = "drain"
    """Claim nothing new, finish or hand over current sessions, then exit (same as SIGTERM)."""


class UnreadableEvent(ValueError):
    """An event is not of this version's form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEvent(SessionIdentity):
    """One transition: the session is now in `state`. `at` is Redis-clock ms; `reason` is set when ended.

    With `ask` set the state has not changed: the event is a command to the edge of the session.
    """

    id: str
    state: SessionState
    worker: str
    at: RowNumber
    reason: EndReason | None = None
    ask: SessionCommand | None = None

    @classmethod
    def parse(cls, entry_id: bytes, data: Mapping[bytes, bytes]) -> "SessionEvent":
        """Read one stream entry. Raises UnreadableEvent on an unknown or incomplete one."""
        try:
            values: dict[str, Any] = {key.decode(): value.decode() for key, value in data.items()}
            values |= {name: None for name in ("reason", "ask") if not values.get(name)}
            return _EVENT.validate_python(values | {"id": entry_id.decode()})
        except ValueError as error:
            raise UnreadableEvent(f"event {entry_id!r} cannot be read: {error!r}") from error


_EVENT = TypeAdapter(SessionEvent)
