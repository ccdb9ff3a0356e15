"""What the recordings of all kinds of sessions have in common: times, events, gaps. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Literal

from antiphon.recorder_service.timeline import Line, Placed
from antiphon.shared_schemas.recording import EventRecord, Gap

_EVENT_FIELDS = frozenset(EventRecord.model_fields)


def events(
    inputs: Placed,
    outputs: Placed,
    start: float,
    no_event: Collection[str],
    places: Mapping[int, int] | None = None,
) -> list[EventRecord]:
    """Both streams' other entries by time; where times agree, the input came first.

    `no_event`: the types that are told elsewhere. `places`: the chunk that an input is.
    """
    lines = [line for _, line in (*inputs, *outputs) if line["type"] not in no_event]
    lines.sort(key=lambda line: line["at"])
    return [
        EventRecord(
            ts_ms=since(start, line),
            chunk=(places or {}).get(line.get("input_n", 0)),
            **{k: v for k, v in line.items() if k in _EVENT_FIELDS},
        )
        for line in lines
    ]


def gaps(stream: Literal["in", "out"], entries: Placed, answered: Iterable[int] = ()) -> list[Gap]:
    """Numbers that are not there, though a later one is, or an answer to them."""
    there = {position.n for position, _ in entries}
    gaps: list[Gap] = []
    for n in range(1, max((*there, *answered), default=0) + 1):
        if n in there:
            continue
        if gaps and gaps[-1].last == n - 1:
            gaps[-1] = Gap(stream=stream, first=gaps[-1].first, last=n)
        else:
            gaps.append(Gap(stream=stream, first=n, last=n))
    return gaps


def duration_ms(line: Line, rate: int) -> int | None:
    """How long the sound of an entry lasts, None where it has none."""
    return round(line["samples"] / rate * 1000) if "samples" in line else None


def since(start: float, line: Line) -> float:
    """Milliseconds from the session's start to an entry."""
    return round(float(line["at"]) - start, 1)


def moment(ms: float) -> datetime:
    """Redis-clock milliseconds as a time."""
    return datetime.fromtimestamp(ms / 1000, UTC)
