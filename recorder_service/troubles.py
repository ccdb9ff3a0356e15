"""What a failing disk did to a recording: what came late, and why something is missing. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from antiphon.recorder_service.manifest_parts import moment
from antiphon.recorder_service.timeline import SIDES, TROUBLE, Line, Placed, Side
from antiphon.shared_schemas.recording import Gap, Range, Trouble
from antiphon.shared_schemas.stream_entries import StreamPosition

_GONE = "Redis did not hold them any more, or not in a form that can be read"


def trouble_line(at_ms: float, error: str) -> Line:
    """From `at_ms` on (Redis clock) the disk refused to take what was said."""
    return {"stream": "note", "id": "", "type": TROUBLE, "at": round(at_ms, 3), "error": error}


def resumed(trouble: Line, at_ms: float, recorded: Mapping[Side, StreamPosition]) -> Line:
    """The same, now that the disk takes it again; `recorded` was on it before."""
    after = {side: recorded[side].id() for side in SIDES}
    return {**trouble, "resumed": round(at_ms, 3), "after": after}


def is_same(one: Line, other: Line) -> bool:
    """True when both tell of the same outage."""
    return (one["at"], one["error"]) == (other["at"], other["error"])


def troubles(lines: Iterable[Line], placed: Mapping[Side, Placed]) -> list[Trouble]:
    """A journal's outages, with what of `placed` came late because of them."""
    return [_trouble(line, placed) for line in lines if line["type"] == TROUBLE]


def explained(gaps: Iterable[Gap], lines: Iterable[Line]) -> list[Gap]:
    """With the outage during which the entries were lost, where there was one."""
    outages = [line for line in lines if line["type"] == TROUBLE]
    return [gap.model_copy(update={"why": _why(gap, outages)}) for gap in gaps]


def _why(gap: Gap, outages: Iterable[Line]) -> str:
    for line in outages:
        if StreamPosition.parse(line["after"][gap.stream]).n == gap.first - 1:
            return f"{_GONE}; until then the disk had refused to take them: {line['error']}"
    return _GONE


def _trouble(line: Line, placed: Mapping[Side, Placed]) -> Trouble:
    late = [_late(side, line, placed[side]) for side in SIDES if side in placed]
    return Trouble(
        at=moment(line["at"]),
        error=line["error"],
        resumed_at=moment(line["resumed"]),
        late=[entries for entries in late if entries is not None],
    )


def _late(side: Side, trouble: Line, entries: Placed) -> Range | None:
    after = StreamPosition.parse(trouble["after"][side])
    late = [(p.n, x) for p, x in entries if p > after and x["at"] < trouble["resumed"]]
    if not late:
        return None
    chunks = [line["index"] for _, line in late if "index" in line]
    return Range(
        stream=side,
        first=late[0][0],
        last=late[-1][0],
        first_chunk=chunks[0] if chunks else None,
        last_chunk=chunks[-1] if chunks else None,
    )
