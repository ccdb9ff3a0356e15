"""Kinds, states and end reasons of sessions, and the states of workers."""

from enum import StrEnum


class SessionKind(StrEnum):
    """The kind of a session; workers claim by kind."""

    CHAT = "chat"
    HALF_DUPLEX = "half_duplex_audio"
    AUDIO_DUPLEX = "audio_duplex"
    OMNI_DUPLEX = "omni_duplex"
    TURNS = "turns"
    """Items and answers of OpenAI's Realtime API. Every worker that serves CHAT serves it."""

    @property
    def is_duplex(self) -> bool:
        """True for the two kinds that run the full-duplex unit loop."""
        return self in (SessionKind.AUDIO_DUPLEX, SessionKind.OMNI_DUPLEX)


class SessionState(StrEnum):
    """The state of a session; LEGAL_MOVES lists the next states."""

    QUEUED = "queued"
    ASSIGNED = "assigned"
    PREPARING = "preparing"
    ACTIVE = "active"
    PAUSED = "paused"
    RECOVERING = "recovering"
    ENDED = "ended"


_S = SessionState
_HELD_EXITS = frozenset({_S.RECOVERING, _S.ENDED})

LEGAL_MOVES: dict[SessionState, frozenset[SessionState]] = {
    _S.QUEUED: frozenset({_S.ASSIGNED, _S.ENDED}),
    _S.ASSIGNED: _HELD_EXITS | {_S.PREPARING},
    _S.PREPARING: _HELD_EXITS | {_S.ACTIVE, _S.ASSIGNED},
    _S.ACTIVE: _HELD_EXITS | {_S.PAUSED},
    _S.PAUSED: _HELD_EXITS | {_S.ACTIVE},
    _S.RECOVERING: frozenset({_S.ASSIGNED, _S.ENDED}),
    _S.ENDED: frozenset(),
}

HELD_STATES = frozenset({_S.ASSIGNED, _S.PREPARING, _S.ACTIVE, _S.PAUSED})
"""States in which a worker holds a lease on the session."""

WAITING_STATES = frozenset({_S.QUEUED, _S.RECOVERING})
"""States in which the session is in the queue."""


class WaitReason(StrEnum):
    """Why no worker can take a queued session, so that its wait cannot be estimated."""

    NO_WORKER = "no_worker"
    """No worker is connected, or every one drains or has failed."""
    KIND_NOT_SERVED = "kind_not_served"
    """Workers are connected, but none serves this kind of session."""
    WORKER_LOADING = "worker_loading"
    """A worker that serves this kind of session is loading its model."""


_WAIT_TEXTS: dict[str, str] = {
    WaitReason.NO_WORKER: "no worker is connected",
    WaitReason.KIND_NOT_SERVED: "no worker serves this kind of session",
    WaitReason.WORKER_LOADING: "a worker is loading its model",
}


def wait_reason_text(reason: str | None) -> str:
    """For people; also for a reason that a newer server sends."""
    return _WAIT_TEXTS.get(reason or "", "no worker can take the session")


class EndReason(StrEnum):
    """Why a session ended; stored in its row, its last event and its recording."""

    STOPPED = "stopped"
    PAUSE_TIMEOUT = "timeout"
    CLIENT_GONE = "client_gone"
    CANCELLED = "cancelled"
    EDGE_LOST = "edge_lost"
    WORKER_LOST = "worker_lost"
    SERVER_SHUTDOWN = "server_shutdown"
    CONTEXT_FULL = "context_full"
    ERROR = "error"


class WorkerState(StrEnum):
    """The state of a worker in the registry."""

    LOADING = "loading"
    IDLE = "idle"
    BUSY_CHAT = "busy_chat"
    BUSY_HALF_DUPLEX = "busy_half_duplex"
    DUPLEX_ACTIVE = "duplex_active"
    DUPLEX_PAUSED = "duplex_paused"
    DRAINING = "draining"
    ERROR = "error"
    OFFLINE = "offline"
