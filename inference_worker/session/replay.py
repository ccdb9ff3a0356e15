"""What a conversation's streams tell a worker that takes it over from another."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from antiphon.inference_worker.engines.types import PastUnit
from antiphon.inference_worker.session.records import History, Record, accepted_prepare, begins_late
from antiphon.shared_schemas.audio import INPUT_RATE
from antiphon.shared_schemas.entries import (
    ChunkIn,
    PausedOut,
    PlaybackIn,
    PrepareIn,
    ResultOut,
    ResumedOut,
    StreamEntry,
)
from antiphon.shared_schemas.states import SessionState
from antiphon.shared_schemas.stream_position import StreamPosition


@dataclass(frozen=True, slots=True)
class Past:
    """Where the conversation stands: `position` is the last input that was answered, if any was.

    `played_ms`: how far the client had played the answer, where no unit has come since it said so.
    `shortened`: the streams have let the first units go.
    """

    position: StreamPosition | None
    prepare: PrepareIn | None
    units: tuple[PastUnit, ...]
    state: SessionState
    paused_until: float | None
    current_time: int
    played_ms: float | None = None
    shortened: bool = False


def recall(inputs: History, outputs: History, beginning: Record | None = None) -> Past:
    """Rebuild the state of a session from both of its streams, and from the beginning that was kept.

    Of a session longer than its streams the newest units are left. Raises PastLost.
    """
    places = {position.n: position for position, _ in inputs}
    given = {position.n: entry for position, entry in inputs}
    said = [entry for _, entry in outputs]
    handled = places.get(max((getattr(entry, "input_n", 0) for entry in said), default=0))
    accepted = accepted_prepare(inputs, outputs, beginning)
    if accepted is None:
        return Past(handled, None, (), SessionState.ASSIGNED, None, 0)
    results = [entry for entry in said if isinstance(entry, ResultOut)]
    acks = _Acks(inputs)
    units = tuple(
        _past_unit(result, given.get(result.input_n), acks.until(result.input_n))
        for result in results
    )
    paused_until = _paused_until(said)
    return Past(
        position=handled,
        prepare=_prepare(accepted[1]),
        units=units,
        state=SessionState.ACTIVE if paused_until is None else SessionState.PAUSED,
        paused_until=paused_until,
        current_time=results[-1].current_time if results else 0,
        played_ms=acks.until(handled.n) if handled else None,
        shortened=begins_late(outputs),
    )


def _prepare(entry: StreamEntry) -> PrepareIn:
    assert isinstance(entry, PrepareIn)
    return entry


class _Acks:
    """What the client said of its playback, taken in the order of its input."""

    def __init__(self, inputs: History) -> None:
        acks = [(place.n, entry) for place, entry in inputs if isinstance(entry, PlaybackIn)]
        self._rest = deque((n, entry.played_ms) for n, entry in acks)

    def until(self, n: int) -> float | None:
        """The newest word before input `n` that was not taken before."""
        newest: float | None = None
        while self._rest and self._rest[0][0] <= n:
            _, newest = self._rest.popleft()
        return newest


def _past_unit(result: ResultOut, given: StreamEntry | None, played_ms: float | None) -> PastUnit:
    chunk = given if isinstance(given, ChunkIn) else None
    return PastUnit(
        audio=chunk.samples() if chunk else None,
        frames=chunk.frames if chunk else (),
        is_listen=result.is_listen,
        text=result.text,
        end_of_turn=result.end_of_turn,
        played_ms=played_ms,
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
