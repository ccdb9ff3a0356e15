"""What a recording lacks or got late: missing entries, entries above a limit, and outages of the disk."""

from collections.abc import Iterable
from datetime import UTC, datetime

from antiphon.recorder_service.journal.journal import (
    SIDES,
    JournalContents,
    JournalEntries,
    LeftOutWhy,
    OutageEntry,
    Side,
)
from antiphon.recorder_service.journal.state import MAX_JOURNAL_BYTES
from antiphon.shared_schemas.recording import DiskOutage, EntryRange, Gap

_FULL = f"the recording held {MAX_JOURNAL_BYTES // 2**20} MiB of entries"
_LOST = "Redis did not hold them any more, or not in a form that can be read"


def moment(ms: float) -> datetime:
    """Redis-clock milliseconds as a time."""
    return datetime.fromtimestamp(ms / 1000, UTC)


def left_out(contents: JournalContents, why: LeftOutWhy) -> int | None:
    """How many entries were left out for this reason."""
    return sum(left.count for left in contents.left_out if left.why == why) or None


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
