"""What the recordings of all kinds of sessions have in common: times, events, gaps. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from antiphon.recorder_service.journal.journal import SIDES, TROUBLE, Line, Placed, Side
from antiphon.recorder_service.media.save import REF_AUDIO, TTS_REF_AUDIO
from antiphon.shared_schemas.recording import DiskOutage, EntryRange, EventRecord, Gap
from antiphon.shared_schemas.stream_position import StreamPosition

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


def config_of(prepare: Line | None) -> dict[str, Any]:
    """Prompt, settings and references from the entry that stated them; empty when there is none."""
    if prepare is None:
        return {}
    references = {name: prepare[name] for name in (REF_AUDIO, TTS_REF_AUDIO) if name in prepare}
    return {**_stated(prepare), **references}


def _stated(prepare: Line) -> dict[str, Any]:
    match prepare["type"]:
        case "half_prepare":
            media = [item["file"] for item in prepare.get("media", []) if "file" in item]
            shown = {"system_media": media} if media else {}
            return {"system_prompt": _system_text(prepare), **prepare["config"], **shown}
        case "chat":
            return {"system_prompt": _system_text(prepare), **prepare["options"]}
    return {
        "system_prompt": prepare["system_prompt"],
        **prepare["config"],
        "deferred_finalize": prepare["deferred_finalize"],
    }


def _system_text(line: Line) -> str:
    return "\n".join(text_of(m["parts"]) for m in line["content"] if m["role"] == "system")


def text_of(parts: Iterable[dict[str, Any]]) -> str:
    """The words of a message, without the rest."""
    return " ".join(part["text"] for part in parts if part["type"] == "text")


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


def troubles(lines: Iterable[Line], placed: Mapping[Side, Placed]) -> list[DiskOutage]:
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


def _trouble(line: Line, placed: Mapping[Side, Placed]) -> DiskOutage:
    late = [_late(side, line, placed[side]) for side in SIDES if side in placed]
    return DiskOutage(
        at=moment(line["at"]),
        error=line["error"],
        resumed_at=moment(line["resumed"]),
        late=[entries for entries in late if entries is not None],
    )


def _late(side: Side, trouble: Line, entries: Placed) -> EntryRange | None:
    after = StreamPosition.parse(trouble["after"][side])
    late = [(p.n, x) for p, x in entries if p > after and x["at"] < trouble["resumed"]]
    if not late:
        return None
    chunks = [line["index"] for _, line in late if "index" in line]
    return EntryRange(
        stream=side,
        first=late[0][0],
        last=late[-1][0],
        first_chunk=chunks[0] if chunks else None,
        last_chunk=chunks[-1] if chunks else None,
    )
