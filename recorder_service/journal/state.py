"""A session to record, what a recorder must know of its entries to continue, and how many it may hold."""

from __future__ import annotations

from dataclasses import dataclass, field

import orjson

from antiphon.recorder_service.journal.journal import (
    SIDES,
    JournalContents,
    JournalEntry,
    LeftOutWhy,
    Side,
    is_entry,
    select,
)
from antiphon.shared_schemas.entries import (
    BreakIn,
    CancelIn,
    ChatIn,
    ChunkIn,
    ClearIn,
    CommitIn,
    DeleteItemIn,
    DiagnosticIn,
    ErrorOut,
    HalfDuplexPrepareIn,
    PausedOut,
    PauseIn,
    PlaybackIn,
    PrepareIn,
    ProgressOut,
    RefusedOut,
    ResultOut,
    ResumedOut,
    ResumeIn,
    SettingsIn,
    StopIn,
    StreamEntry,
    StreamPosition,
    TextAddedOut,
    TextIn,
    TranscriptOut,
    TruncateItemIn,
    VadOut,
)
from antiphon.shared_schemas.recording import Meta
from antiphon.shared_schemas.registry import SessionEvent
from antiphon.shared_schemas.states import EndReason, SessionKind

SessionConfigIn = PrepareIn | HalfDuplexPrepareIn | ChatIn | SettingsIn
"""The entries that state a session's configuration."""

_EVENTS = (
    *(BreakIn, DiagnosticIn, ErrorOut, PauseIn, PausedOut, PlaybackIn, ProgressOut),
    *(ResumeIn, ResumedOut, StopIn, TextAddedOut, TextIn, VadOut),
    *(CancelIn, ClearIn, CommitIn, DeleteItemIn, RefusedOut, TranscriptOut, TruncateItemIn),
)

MAX_JOURNAL_BYTES = 16 * 2**20
"""Of each stream's lines, and one line more. An hour of speech takes 3 MiB for both streams in chunks of a
second, and five times as much in chunks of 200 ms."""

MAX_EVENTS = 20_000
"""Of each stream: entries without sound, pictures, requests and answers."""

MAX_DIAGNOSTIC_BYTES = 2**20
_DIAGNOSTIC_BURST_BYTES = 128 * 1024
_DIAGNOSTIC_BYTES_PER_S = 4096


@dataclass(slots=True)
class JournalState:
    """Counts for one session. `turn` and `spoken` number the next unit that has sound.

    Each count follows one stream only, so the interleaving of the two does not matter. A turn ends
    with `end_of_turn`. `prepare` is the first entry that states the configuration.
    """

    ticket: int
    positions: dict[Side, StreamPosition] = field(init=False)
    chunks: int = 0
    turn: int = 0
    spoken: int = 0
    first_at: float | None = None
    prepare: JournalEntry[SessionConfigIn] | None = None

    def __post_init__(self) -> None:
        start = StreamPosition.before(self.ticket)
        self.positions = {"in": start, "out": start}

    @classmethod
    def of(cls, ticket: int, contents: JournalContents) -> JournalState:
        state = cls(ticket)
        for side in SIDES:
            for item in contents.of(side):
                state.add(item)
        for left in contents.left_out:
            state.skip(left.side, left.last)
        return state

    def has(self, side: Side, position: StreamPosition) -> bool:
        return position <= self.positions[side]

    def skip(self, side: Side, position: StreamPosition) -> None:
        """Continue after an entry that is not recorded."""
        self.positions[side] = max(self.positions[side], position)

    def add(self, item: JournalEntry[StreamEntry]) -> None:
        """Count one recorded entry. An entry that was added before changes nothing."""
        if self.has(item.side, item.position):
            return
        self.positions[item.side] = item.position
        at = item.entry.at
        self.first_at = at if self.first_at is None else min(self.first_at, at)
        if self.prepare is None and (
            is_entry(item, PrepareIn)
            or is_entry(item, HalfDuplexPrepareIn)
            or is_entry(item, ChatIn)
            or is_entry(item, SettingsIn)
        ):
            self.prepare = item
        match item.entry:
            case ChunkIn():
                self.chunks += 1
            case ResultOut() as result:
                self._add_result(result, has_sound=_has_sound(item))

    def _add_result(self, result: ResultOut, *, has_sound: bool) -> None:
        self.spoken += has_sound
        if result.end_of_turn and not result.is_listen:
            self.turn += 1
            self.spoken = 0

    @property
    def start_ms(self) -> float:
        """Redis-clock ms at which the time line begins: at `prepare`, else at the first entry."""
        if self.prepare is not None:
            return self.prepare.entry.at
        return self.first_at or 0.0


def _has_sound(item: JournalEntry[StreamEntry]) -> bool:
    return item.media.audio is not None and item.media.audio.file is not None


class RecordingLimits:
    """What one recording may hold beside its media. Later entries are left out and counted.

    The decision depends on one stream only, so a recorder that takes over makes the same one.
    """

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingJob:
    """One session to record. `event_id`: the transition whose ownership means the job, '' if none."""

    sid: str
    ticket: int
    kind: SessionKind
    recording: str
    event_id: str = ""

    @classmethod
    def from_event(cls, event: SessionEvent) -> RecordingJob:
        return cls(
            sid=event.sid,
            ticket=event.ticket,
            kind=event.kind,
            recording=event.recording,
            event_id=event.id,
        )

    @classmethod
    def from_meta(cls, meta: Meta) -> RecordingJob:
        """An unfinished recording that has lost its recorder."""
        return cls(
            sid=meta.session_id,
            ticket=meta.ticket,
            kind=meta.app_type,
            recording=meta.recording_id,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnding:
    """When (Redis-clock ms) and why a session ended; None when Redis no longer knows."""

    at: int | None = None
    reason: EndReason | None = None
    worker: str = ""
