"""What a conversation's streams tell a worker that takes it over from another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inference_worker.engines.types import PastUnit
from shared_schemas.audio import INPUT_RATE
from shared_schemas.states import SessionState
from shared_schemas.stream_entries import (
    ChunkIn,
    PausedOut,
    PreparedOut,
    PrepareIn,
    ResultOut,
    ResumedOut,
    StreamEntry,
    StreamPosition,
)

History = Sequence[tuple[StreamPosition, StreamEntry]]


@dataclass(frozen=True, slots=True)
class Past:
    """Where the conversation stands: `position` is the last input that was answered, if any was."""

    position: StreamPosition | None
    prepare: PrepareIn | None
    units: tuple[PastUnit, ...]
    state: SessionState
    paused_until: float | None
    current_time: int


def recall(inputs: History, outputs: History) -> Past:
    """Rebuild the state of a session from both of its streams."""
    places = {position.n: position for position, _ in inputs}
    given = {position.n: entry for position, entry in inputs}
    said = [entry for _, entry in outputs]
    handled = places.get(max((getattr(entry, "input_n", 0) for entry in said), default=0))
    if not any(isinstance(entry, PreparedOut) for entry in said):
        return Past(handled, None, (), SessionState.ASSIGNED, None, 0)
    results = [entry for entry in said if isinstance(entry, ResultOut)]
    paused_until = _paused_until(said)
    return Past(
        position=handled,
        prepare=next((e for e in given.values() if isinstance(e, PrepareIn)), None),
        units=tuple(_past_unit(result, given.get(result.input_n)) for result in results),
        state=SessionState.ACTIVE if paused_until is None else SessionState.PAUSED,
        paused_until=paused_until,
        current_time=results[-1].current_time if results else 0,
    )


def _past_unit(result: ResultOut, given: StreamEntry | None) -> PastUnit:
    chunk = given if isinstance(given, ChunkIn) else None
    return PastUnit(
        audio=chunk.samples() if chunk else None,
        frames=chunk.frames if chunk else (),
        is_listen=result.is_listen,
        text=result.text,
        end_of_turn=result.end_of_turn,
        memo=result.memo,
    )


def _paused_until(said: list[StreamEntry]) -> float | None:
    """Redis-clock ms at which a pause in force runs out; None when not paused."""
    until: float | None = None
    for entry in said:
        if isinstance(entry, PausedOut):
            until = entry.at + entry.timeout_s * 1000
        elif isinstance(entry, ResumedOut):
            until = None
    return until


def duration_ms(samples: int) -> int:
    """Length of user audio in milliseconds."""
    return round(samples * 1000 / INPUT_RATE)
