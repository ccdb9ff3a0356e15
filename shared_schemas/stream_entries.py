"""Everything that may lie in a session's two streams: one union per direction."""

from __future__ import annotations

from antiphon.shared_schemas.duplex_entries import (
    ChunkIn,
    DiagnosticIn,
    ErrorOut,
    PausedOut,
    PauseIn,
    PlaybackIn,
    PreparedOut,
    PrepareIn,
    ResultOut,
    ResumedOut,
    ResumeIn,
    StopIn,
    StoppedOut,
    TimeoutOut,
)
from antiphon.shared_schemas.entry_codec import (
    EPOCHS_PER_TICKET,
    StreamEntry,
    StreamPosition,
    UnreadableEntry,
    pack,
    unpack,
)
from antiphon.shared_schemas.told_entries import ToldMark
from antiphon.shared_schemas.turn_entries import (
    BreakIn,
    ChatDoneOut,
    ChatIn,
    DeltaOut,
    GeneratingOut,
    HalfPrepareIn,
    PrefillDoneOut,
    ProgressOut,
    TurnDoneOut,
    VadOut,
)

InEntry = (
    PrepareIn
    | ChunkIn
    | PauseIn
    | ResumeIn
    | PlaybackIn
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
    | ProgressOut
    | PrefillDoneOut
    | ChatDoneOut
)
"""Worker to client."""

Entry = InEntry | OutEntry

ToldEntry = ToldMark | InEntry
"""An edge's notes on a session that may be resumed; an input in it is kept for a worker to come."""

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
    "PlaybackIn",
    "PrefillDoneOut",
    "PrepareIn",
    "PreparedOut",
    "ProgressOut",
    "ResultOut",
    "ResumeIn",
    "ResumedOut",
    "StopIn",
    "StoppedOut",
    "StreamEntry",
    "StreamPosition",
    "TimeoutOut",
    "ToldEntry",
    "ToldMark",
    "TurnDoneOut",
    "UnreadableEntry",
    "VadOut",
    "pack",
    "unpack",
]
