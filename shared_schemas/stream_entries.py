"""Everything that may lie in a session's two streams: one union per direction."""

from __future__ import annotations

from shared_schemas.duplex_entries import (
    ChunkIn,
    DiagnosticIn,
    ErrorOut,
    PausedOut,
    PauseIn,
    PreparedOut,
    PrepareIn,
    ResultOut,
    ResumedOut,
    ResumeIn,
    StopIn,
    StoppedOut,
    TimeoutOut,
)
from shared_schemas.entry_codec import (
    EPOCHS_PER_TICKET,
    StreamEntry,
    StreamPosition,
    UnreadableEntry,
    pack,
    unpack,
)
from shared_schemas.turn_entries import (
    BreakIn,
    ChatDoneOut,
    ChatIn,
    DeltaOut,
    GeneratingOut,
    HalfPrepareIn,
    PrefillDoneOut,
    TurnDoneOut,
    VadOut,
)

InEntry = (
    PrepareIn
    | ChunkIn
    | PauseIn
    | ResumeIn
    | StopIn
    | DiagnosticIn
    | HalfPrepareIn
    | BreakIn
    | ChatIn
)
"""Client to worker."""

OutEntry = (
    PreparedOut
    | ResultOut
    | PausedOut
    | ResumedOut
    | StoppedOut
    | TimeoutOut
    | ErrorOut
    | VadOut
    | GeneratingOut
    | DeltaOut
    | TurnDoneOut
    | PrefillDoneOut
    | ChatDoneOut
)
"""Worker to client."""

Entry = InEntry | OutEntry

__all__ = [
    "EPOCHS_PER_TICKET",
    "BreakIn",
    "ChatDoneOut",
    "ChatIn",
    "ChunkIn",
    "DeltaOut",
    "DiagnosticIn",
    "Entry",
    "ErrorOut",
    "GeneratingOut",
    "HalfPrepareIn",
    "InEntry",
    "OutEntry",
    "PauseIn",
    "PausedOut",
    "PrefillDoneOut",
    "PrepareIn",
    "PreparedOut",
    "ResultOut",
    "ResumeIn",
    "ResumedOut",
    "StopIn",
    "StoppedOut",
    "StreamEntry",
    "StreamPosition",
    "TimeoutOut",
    "TurnDoneOut",
    "UnreadableEntry",
    "VadOut",
    "pack",
    "unpack",
]
