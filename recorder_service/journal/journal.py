"""The journal of a recording in progress: one JSON line per stream entry, written after its files.

A line names its stream and its entry's id, so an entry that was written twice counts once.
"""

import dataclasses
import errno
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, Self, TypeGuard, TypeVar

import orjson
from msgspec.structs import replace
from pydantic import TypeAdapter

from antiphon.shared_schemas.entries import (
    ResultOut,
    StreamEntry,
    StreamPosition,
    TurnDoneOut,
    VadOut,
    pack,
    raw_fields,
    unpack,
)

Side = Literal["in", "out"]
SIDES: tuple[Side, ...] = ("in", "out")

LeftOutWhy = Literal["diagnostics", "events", "full"]

_RECORDED = ("user", "word_times")
"""The fields of a memo that are for people: the transcript of the user, and the times of the words."""

EntryT = TypeVar("EntryT", bound=StreamEntry)
EntryT_co = TypeVar("EntryT_co", bound=StreamEntry, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedFile:
    """A sound, picture or video on disk, `size` bytes long. `samples`: the length of a sound.

    `file` is None when the data could not be decoded or the file was lost; `unreadable` says why.
    """

    file: str | None = None
    size: int = 0
    samples: int | None = None
    unreadable: str | None = None


_LOST = SavedFile(unreadable="the file was deleted or changed")


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedMedia:
    """The files of one entry. `parts`: a request's blobs in order.

    `references`: voice references by field name. `chunk_index`: a duplex chunk's number, from 0.
    """

    audio: SavedFile | None = None
    frames: tuple[SavedFile, ...] = ()
    parts: tuple[SavedFile, ...] = ()
    references: dict[str, SavedFile] = field(default_factory=dict)
    chunk_index: int | None = None

    def files(self) -> Iterator[SavedFile]:
        yield from (self.audio,) if self.audio else ()
        yield from (*self.frames, *self.parts, *self.references.values())

    def without(self, lost: Collection[str]) -> "SavedMedia":
        """These files are unreadable; a voice reference is optional and left out."""

        def kept(saved: SavedFile) -> SavedFile:
            return _LOST if saved.file in lost else saved

        return dataclasses.replace(
            self,
            audio=self.audio and kept(self.audio),
            frames=tuple(kept(frame) for frame in self.frames),
            parts=tuple(kept(part) for part in self.parts),
            references={
                name: saved for name, saved in self.references.items() if saved.file not in lost
            },
        )


NO_MEDIA = SavedMedia()
_MEDIA = TypeAdapter(SavedMedia)


@dataclass(frozen=True, slots=True)
class JournalEntry(Generic[EntryT_co]):
    """A recorded stream entry, without its media bytes, and the files that hold them."""

    side: Side
    position: StreamPosition
    entry: EntryT_co
    media: SavedMedia = NO_MEDIA

    def encode(self) -> dict[str, Any]:
        _, header = pack(self.entry)
        line = {"stream": self.side, "id": self.position.id(), "entry": orjson.Fragment(header)}
        return line if self.media is NO_MEDIA else {**line, "media": self.media}


JournalEntries = Sequence[JournalEntry[StreamEntry]]


@dataclass(frozen=True, slots=True)
class OutageStart:
    """From `at_ms` on (Redis clock) the disk refused writes."""

    at_ms: float
    error: str


@dataclass(frozen=True, slots=True)
class OutageEntry:
    """A disk outage that is over. `after`: the last entries that were on disk before it."""

    start: OutageStart
    resumed_ms: float
    after: dict[Side, StreamPosition]

    def encode(self) -> dict[str, Any]:
        return {
            "stream": "note",
            "id": "",
            "type": "trouble",
            "at": self.start.at_ms,
            "error": self.start.error,
            "resumed": self.resumed_ms,
            "after": {side: position.id() for side, position in self.after.items()},
        }


@dataclass(frozen=True, slots=True)
class LeftOutEntry:
    """Entries `first` to `last` of a stream that are not recorded (`RecordingLimits`)."""

    side: Side
    first: int
    last: StreamPosition
    why: LeftOutWhy

    @property
    def count(self) -> int:
        return self.last.n - self.first + 1

    def encode(self) -> dict[str, Any]:
        return {
            "stream": "note",
            "id": self.last.id(),
            "type": "left_out",
            "side": self.side,
            "first": self.first,
            "why": self.why,
        }


JournalLine = JournalEntry[StreamEntry] | OutageEntry | LeftOutEntry


LostFiles = Mapping[tuple[Side, StreamPosition], frozenset[str]]
"""The files of each entry that are not on disk any more, or have another size."""


@dataclass(frozen=True, slots=True)
class JournalContents:
    """Each stream's entries, oldest first, each once.

    `size`: bytes of the valid lines; `sizes`: those of each stream's entries. `lost`: of the entries.
    """

    inputs: JournalEntries
    outputs: JournalEntries
    outages: Sequence[OutageEntry] = ()
    size: int = 0
    left_out: Sequence[LeftOutEntry] = ()
    sizes: dict[Side, int] = field(default_factory=dict)
    lost: LostFiles = field(default_factory=dict)

    def of(self, side: Side) -> JournalEntries:
        return self.inputs if side == "in" else self.outputs


def is_entry(
    item: JournalEntry[StreamEntry], kind: type[EntryT]
) -> TypeGuard[JournalEntry[EntryT]]:
    return isinstance(item.entry, kind)


def select(
    items: Iterable[JournalEntry[StreamEntry]], kind: type[EntryT]
) -> Iterator[JournalEntry[EntryT]]:
    return (item for item in items if is_entry(item, kind))


def to_journal(
    side: Side, position: StreamPosition, entry: EntryT, media: SavedMedia
) -> JournalEntry[EntryT]:
    """A stream entry as the journal keeps it: without media, memo and the words that were not final."""
    empty = raw_fields(type(entry)).empty
    if isinstance(entry, ResultOut | TurnDoneOut):
        empty = {**empty, "memo": {k: entry.memo[k] for k in _RECORDED if k in entry.memo}}
    if isinstance(entry, ResultOut | VadOut):
        empty = {**empty, "interim_user_text": None}
    return JournalEntry(side, position, replace(entry, **empty), media)


HeldFrom = Mapping[Side, float]
"""The number of the oldest entry that each stream still holds; infinite for an empty stream."""


def read_journal(path: Path, held_from: HeldFrom | None = None) -> JournalContents:
    """Read up to the first line that is torn or unreadable. A missing journal is empty.

    With `held_from`, also stop at a line whose files are not whole on disk if the streams hold everything
    from it on. The recorder reads all that from them again.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        data = b""
    found: list[_ReadLine] = []
    with suppress(ValueError):
        for raw in data.splitlines(keepends=True):
            line = _json_of(raw)
            if line is None:
                break
            item = _decode(line)
            found.append(_ReadLine(item, len(raw), _lost_files(path.parent, item)))
    if held_from is not None:
        found = found[: _first_repairable(found, held_from)]
    sizes: dict[Side, int] = {"in": 0, "out": 0}
    lost: dict[tuple[Side, StreamPosition], frozenset[str]] = {}
    for each in found:
        if isinstance(each.item, JournalEntry):
            sizes[each.item.side] += each.size
            if each.lost:
                lost[each.item.side, each.item.position] = each.lost
    contents = _contents([each.item for each in found], sum(each.size for each in found), sizes)
    return dataclasses.replace(contents, lost=lost)


@dataclass(frozen=True, slots=True)
class _ReadLine:
    """A line of `size` bytes, and those of its files that are not whole on disk."""

    item: JournalLine
    size: int
    lost: frozenset[str]


def _first_repairable(lines: Sequence[_ReadLine], held_from: HeldFrom) -> int:
    """The first line with lost files from which on the streams hold everything; the end if there is none."""
    first = len(lines)
    for number in range(len(lines) - 1, -1, -1):
        if not _is_held(lines[number].item, held_from):
            break
        if lines[number].lost:
            first = number
    return first


def _is_held(line: JournalLine, held_from: HeldFrom) -> bool:
    if isinstance(line, OutageEntry):
        return True
    n = line.first if isinstance(line, LeftOutEntry) else line.position.n
    return n >= held_from[line.side]


def without_lost_files(contents: JournalContents) -> JournalContents:
    """The same entries, with no file that is lost: it counts as unreadable."""
    if not contents.lost:
        return contents

    def without(item: JournalEntry[StreamEntry]) -> JournalEntry[StreamEntry]:
        lost = contents.lost.get((item.side, item.position), frozenset())
        return dataclasses.replace(item, media=item.media.without(lost)) if lost else item

    inputs, outputs = ([without(item) for item in contents.of(side)] for side in SIDES)
    return dataclasses.replace(contents, inputs=inputs, outputs=outputs)


def read_finished_journal(path: Path) -> JournalContents:
    """Read every whole line of a finished session's journal without a look at its files.

    Raises OSError, and ValueError when a line holds an entry that cannot be read.
    """
    data = path.read_bytes()
    lines = (_json_of(raw) for raw in data.splitlines(keepends=True))
    return _contents([_decode(line) for line in lines if line is not None], len(data), {})


def _contents(lines: Iterable[JournalLine], size: int, sizes: dict[Side, int]) -> JournalContents:
    found: dict[Side, dict[StreamPosition, JournalEntry[StreamEntry]]] = {"in": {}, "out": {}}
    outages: list[OutageEntry] = []
    left_out: list[LeftOutEntry] = []
    for line in lines:
        if isinstance(line, OutageEntry):
            outages.append(line)
        elif isinstance(line, LeftOutEntry):
            left_out.append(line)
        else:
            found[line.side].setdefault(line.position, line)
    inputs, outputs = ([item for _, item in sorted(found[side].items())] for side in SIDES)
    return JournalContents(inputs, outputs, outages, size, left_out, sizes)


def _json_of(raw: bytes) -> dict[str, Any] | None:
    """None for a torn line."""
    try:
        line = orjson.loads(raw) if raw.endswith(b"\n") else None
    except orjson.JSONDecodeError:
        return None
    return line if isinstance(line, dict) else None


def _decode(line: dict[str, Any]) -> JournalLine:
    """Raises ValueError on a line that is not of a known form."""
    try:
        if line["stream"] == "note":
            return _left_out(line) if line["type"] == "left_out" else _outage(line)
        entry = unpack({b"h": orjson.dumps(line["entry"])})
        media = _MEDIA.validate_python(line.get("media", {}))
        return JournalEntry(line["stream"], StreamPosition.parse(line["id"]), entry, media)
    except (KeyError, TypeError) as error:
        raise ValueError(f"journal line cannot be read: {error!r}") from error


def _outage(line: dict[str, Any]) -> OutageEntry:
    after: dict[Side, StreamPosition] = {
        side: StreamPosition.parse(line["after"][side]) for side in SIDES
    }
    return OutageEntry(OutageStart(line["at"], line["error"]), line["resumed"], after)


def _left_out(line: dict[str, Any]) -> LeftOutEntry:
    last = StreamPosition.parse(line["id"])
    return LeftOutEntry(line["side"], line["first"], last, line["why"])


def _lost_files(folder: Path, line: JournalLine) -> frozenset[str]:
    """The files of a line that are not on disk with their size."""
    if not isinstance(line, JournalEntry):
        return frozenset()
    files = ((saved.file, saved.size) for saved in line.media.files() if saved.file is not None)
    return frozenset(name for name, size in files if _size_of(folder / name) != size)


def _size_of(file: Path) -> int | None:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return None


class Journal:
    """Appends lines. Not for concurrent use."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    @classmethod
    def resume(cls, path: Path, size: int) -> Self:
        """Continue after the first `size` bytes and cut off the rest. Raises OSError."""
        if path.stat().st_size > size:
            os.truncate(path, size)
        return cls(path)

    def append(self, entry: JournalLine) -> int:
        """Add one line; returns its bytes. Raises OSError; open the journal again after that."""
        data = orjson.dumps(entry.encode(), option=orjson.OPT_APPEND_NEWLINE)
        if os.write(self._descriptor, data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return len(data)

    def close(self) -> None:
        """Close the file. A second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
