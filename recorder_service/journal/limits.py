"""What one recording may hold beside its media. Later entries are left out and counted.

The decision depends on one stream only, so a recorder that takes over makes the same one.
"""

from __future__ import annotations

import orjson

from antiphon.recorder_service.journal.journal import (
    SIDES,
    JournalContents,
    LeftOutWhy,
    Side,
    select,
)
from antiphon.recorder_service.journal.state import JournalState
from antiphon.shared_schemas.entries import (
    BreakIn,
    DiagnosticIn,
    ErrorOut,
    PausedOut,
    PauseIn,
    PlaybackIn,
    ProgressOut,
    ResumedOut,
    ResumeIn,
    StopIn,
    StreamEntry,
    VadOut,
)

_EVENTS = (
    *(BreakIn, DiagnosticIn, ErrorOut, PauseIn, PausedOut, PlaybackIn, ProgressOut),
    *(ResumeIn, ResumedOut, StopIn, VadOut),
)

MAX_JOURNAL_BYTES = 16 * 2**20
"""Of each stream's lines, and one line more. An hour of speech takes 3 MiB for both streams."""

MAX_EVENTS = 20_000
"""Of each stream: entries without sound, pictures, requests and answers."""

MAX_DIAGNOSTIC_BYTES = 2**20
_DIAGNOSTIC_BURST_BYTES = 128 * 1024
_DIAGNOSTIC_BYTES_PER_S = 4096


class RecordingLimits:
    """Bytes that a session's journal holds."""

    def __init__(self, contents: JournalContents | None = None) -> None:
        """Continue from what the journal holds."""
        self._bytes: dict[Side, int] = {"in": 0, "out": 0}
        self._events: dict[Side, int] = {"in": 0, "out": 0}
        self._diagnostics = 0
        if contents is not None:
            self._bytes |= contents.sizes
            for side in SIDES:
                self._events[side] = sum(_is_event(item.entry) for item in contents.of(side))
            kept = select(contents.inputs, DiagnosticIn)
            self._diagnostics = sum(_size(item.entry) for item in kept)

    def refusal(self, side: Side, entry: StreamEntry, state: JournalState) -> LeftOutWhy | None:
        """Why an entry is left out; None when it is recorded."""
        if self._bytes[side] >= MAX_JOURNAL_BYTES:
            return "full"
        if _is_event(entry) and self._events[side] >= MAX_EVENTS:
            return "events"
        if isinstance(entry, DiagnosticIn):
            allowed = _allowed_diagnostics(entry, state)
            if self._diagnostics + _size(entry) > allowed:
                return "diagnostics"
        return None

    def count(self, side: Side, entry: StreamEntry, line_bytes: int) -> None:
        """Count a line that the journal has taken."""
        self._bytes[side] += line_bytes
        self._events[side] += _is_event(entry)
        if isinstance(entry, DiagnosticIn):
            self._diagnostics += _size(entry)


def _allowed_diagnostics(entry: DiagnosticIn, state: JournalState) -> float:
    """Bytes of diagnostics up to this entry: they may grow with the time since `prepare`."""
    prepared = entry.at if state.prepare is None else state.prepare.entry.at
    grown = max(0.0, entry.at - prepared) / 1000 * _DIAGNOSTIC_BYTES_PER_S
    return min(MAX_DIAGNOSTIC_BYTES, _DIAGNOSTIC_BURST_BYTES + grown)


def _is_event(entry: StreamEntry) -> bool:
    return isinstance(entry, _EVENTS)


def _size(entry: DiagnosticIn) -> int:
    return len(orjson.dumps(entry.metrics))
