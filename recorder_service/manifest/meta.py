"""`meta.json`, and what it shares with `recording.json`: times, events, configuration, gaps, outages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import structlog

from antiphon.recorder_service.journal.journal import (
    SIDES,
    JournalContents,
    JournalEntries,
    JournalEntry,
    LeftOutWhy,
    OutageEntry,
    SavedFile,
    Side,
)
from antiphon.recorder_service.journal.state import (
    MAX_JOURNAL_BYTES,
    JournalState,
    RecordingJob,
    SessionConfigIn,
    SessionEnding,
)
from antiphon.recorder_service.manifest.plan import plan_replay
from antiphon.shared_schemas.entries import ChatIn, HalfDuplexPrepareIn, StreamEntry
from antiphon.shared_schemas.recording import (
    META_FILE,
    DiskOutage,
    DuplexRecording,
    EntryRange,
    EventRecord,
    Gap,
    Meta,
    RecordingState,
    ReplayState,
    TurnRecording,
    parse_meta,
)

log = structlog.get_logger()

_EVENT_FIELDS = frozenset(EventRecord.model_fields) - {"ts_ms", "chunk", "type"}
_FULL = f"the recording held {MAX_JOURNAL_BYTES // 2**20} MiB of entries"
_FIRST_CHARS = 120
_LOST = "Redis did not hold them any more, or not in a form that can be read"


def moment(ms: float) -> datetime:
    """Redis-clock milliseconds as a time."""
    return datetime.fromtimestamp(ms / 1000, UTC)


def since(start: float, entry: StreamEntry) -> float:
    return round(entry.at - start, 1)


def duration_ms(audio: SavedFile | None, rate: int) -> int | None:
    """The length of an entry's sound, None when it has none."""
    if audio is None or audio.samples is None:
        return None
    return round(audio.samples / rate * 1000)


def events(
    contents: JournalContents,
    start: float,
    excluded: Collection[type[StreamEntry]],
    chunks: Mapping[int, int] | None = None,
) -> list[EventRecord]:
    """Both streams' entries by time, except those of `excluded` types. At equal times inputs come first.

    `chunks`: the chunk index of each input number.
    """
    entries = [
        item.entry
        for item in (*contents.inputs, *contents.outputs)
        if type(item.entry) not in excluded
    ]
    entries.sort(key=lambda entry: entry.at)
    return [
        EventRecord(
            ts_ms=since(start, entry),
            type=entry.tag,
            chunk=(chunks or {}).get(getattr(entry, "input_n", 0)),
            **{name: getattr(entry, name, None) for name in _EVENT_FIELDS},
        )
        for entry in entries
    ]


def left_out(contents: JournalContents, why: LeftOutWhy) -> int | None:
    """How many entries were left out for this reason."""
    return sum(left.count for left in contents.left_out if left.why == why) or None


def config_of(prepare: JournalEntry[SessionConfigIn] | None) -> dict[str, Any]:
    """Prompt, settings and references from the entry that states them; empty when there is none."""
    if prepare is None:
        return {}
    references = {name: saved.file for name, saved in prepare.media.references.items()}
    return {**_stated_config(prepare), **references}


def _stated_config(prepare: JournalEntry[SessionConfigIn]) -> dict[str, Any]:
    match prepare.entry:
        case HalfDuplexPrepareIn() as half:
            media = [part.file for part in prepare.media.parts if part.file is not None]
            shown = {"system_media": media} if media else {}
            prompt = _system_text(half.content)
            return {"system_prompt": prompt, **half.config.model_dump(mode="json"), **shown}
        case ChatIn() as chat:
            options = chat.options.model_dump(mode="json")
            return {"system_prompt": _system_text(chat.content), **options}
        case duplex:
            return {
                "system_prompt": duplex.system_prompt,
                **duplex.config.model_dump(mode="json"),
                "deferred_finalize": duplex.deferred_finalize,
            }


def _system_text(content: Iterable[dict[str, Any]]) -> str:
    return "\n".join(text_of(m["parts"]) for m in content if m["role"] == "system")


def text_of(parts: Iterable[dict[str, Any]]) -> str:
    """The text parts of a message."""
    return " ".join(part["text"] for part in parts if part["type"] == "text")


def missing(contents: JournalContents, answered: Iterable[int]) -> list[Gap] | None:
    """Missing entries of both streams, with the disk outage that lost them; None if there are none.

    An entry is missing when a later one, or an answer to it, exists. `answered`: input numbers.
    """
    return [*_gaps("in", contents, answered), *_gaps("out", contents, ())] or None


def _gaps(side: Side, contents: JournalContents, answered: Iterable[int]) -> list[Gap]:
    present = {item.position.n for item in contents.of(side)}
    skipped = [left for left in contents.left_out if left.side == side]
    for left in skipped:
        if left.why != "full":
            present.update(range(left.first, left.last.n + 1))
    found: list[Gap] = []
    lasts = (left.last.n for left in skipped)
    for n in range(1, max((*present, *answered, *lasts), default=0) + 1):
        if n in present:
            continue
        if found and found[-1].last == n - 1:
            found[-1] = found[-1].model_copy(update={"last": n})
        else:
            why = _why(side, n, contents)
            found.append(Gap(stream=side, first=n, last=n, why=why))
    return found


def _why(side: Side, first: int, contents: JournalContents) -> str:
    if any(
        (left.side, left.first, left.why) == (side, first, "full") for left in contents.left_out
    ):
        return _FULL
    for outage in contents.outages:
        if outage.after[side].n == first - 1:
            return f"{_LOST}; until then the disk had refused to take them: {outage.start.error}"
    return _LOST


def disk_outages(
    outages: Iterable[OutageEntry], contents: JournalContents | None = None
) -> list[DiskOutage]:
    """The outages, with the entries of `contents` that were written late because of them."""
    return [_disk_outage(outage, contents) for outage in outages]


def _disk_outage(outage: OutageEntry, contents: JournalContents | None) -> DiskOutage:
    late = [_late_range(side, outage, contents.of(side)) for side in SIDES] if contents else []
    return DiskOutage(
        at=moment(outage.start.at_ms),
        error=outage.start.error,
        resumed_at=moment(max(outage.start.at_ms, outage.resumed_ms)),
        late=[entries for entries in late if entries is not None],
    )


def _late_range(side: Side, outage: OutageEntry, entries: JournalEntries) -> EntryRange | None:
    late = [
        item
        for item in entries
        if item.position > outage.after[side] and item.entry.at < outage.resumed_ms
    ]
    if not late:
        return None
    indexes = (item.media.chunk_index for item in late)
    chunks = [index for index in indexes if index is not None]
    return EntryRange(
        stream=side,
        first=late[0].position.n,
        last=late[-1].position.n,
        first_chunk=chunks[0] if chunks else None,
        last_chunk=chunks[-1] if chunks else None,
    )


def first_words(recording: DuplexRecording | TurnRecording) -> str:
    """The beginning of what the user said, or of what the model said without a transcript."""
    if isinstance(recording, DuplexRecording):
        units = [chunk.result for chunk in recording.chunks if chunk.result is not None]
        asked, answered = [u.user_text for u in units], [u.text for u in units]
    else:
        asked = [turn.input.text for turn in recording.turns]
        answered = [turn.output.text for turn in recording.turns]
    return _beginning(asked) or _beginning(answered)


def _beginning(texts: Iterable[str | None]) -> str:
    """Whole words, with one space between them."""
    words: list[str] = []
    for word in chain.from_iterable((text or "").split() for text in texts):
        words.append(word)
        if sum(map(len, words)) + len(words) > _FIRST_CHARS:
            break
    return " ".join(words)[:_FIRST_CHARS]


def read_meta(folder: Path) -> Meta | None:
    """A session directory's meta, None when it is missing or unreadable."""
    try:
        return parse_meta((folder / META_FILE).read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:  # a power failure may leave an unfinished recording's meta empty
        log.warning("recording_meta_unreadable", folder=folder.name, error=str(error))
        return None


def live_meta(
    job: RecordingJob, state: JournalState, worker: str, outages: Sequence[OutageEntry]
) -> Meta:
    return Meta(
        session_id=job.sid,
        recording_id=job.recording,
        ticket=job.ticket,
        app_type=job.kind,
        state=RecordingState.RECORDING,
        created_at=moment(state.start_ms),
        worker_id=worker,
        config=config_of(state.prepare),
        degraded=disk_outages(outages),
    )


def final_meta(
    job: RecordingJob,
    ending: SessionEnding,
    state: JournalState,
    recording: DuplexRecording | TurnRecording,
    recorded: JournalContents,
    contents: JournalContents,
) -> Meta:
    """The meta of a session that is over; its replay is still to be merged if there is any sound.

    `contents` are the `recorded` entries with steady times. The recording lasts until the last one:
    Redis' time of the end may be after a jump.
    """
    times = [item.entry.at for side in SIDES for item in contents.of(side)]
    ended_ms = max([state.start_ms, *times])
    has_entries = bool(contents.inputs or contents.outputs)
    whole = has_entries and ending.at is not None and not recording.missing
    has_sound = plan_replay(job.kind, state, contents).seconds > 0
    return live_meta(job, state, ending.worker, ()).model_copy(
        update={
            "state": RecordingState.COMPLETE if whole else RecordingState.INTERRUPTED,
            "reason": ending.reason,
            "ended_at": moment(ended_ms),
            "duration_s": round((ended_ms - state.start_ms) / 1000, 3),
            "chunks": len(recording.chunks) if isinstance(recording, DuplexRecording) else None,
            "turns": len(recording.turns) if isinstance(recording, TurnRecording) else None,
            "first_words": first_words(recording),
            "missing": recording.missing or [],
            "degraded": disk_outages(recorded.outages, recorded),
            "replay": ReplayState.MERGING if has_sound else ReplayState.NONE,
        }
    )
