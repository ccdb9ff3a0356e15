"""The journal of a recording in progress: one JSON line per stream entry, written after its files.

A line's `stream` and `id` say which entry it tells of, so that a line written twice counts once.
"""

from __future__ import annotations

import dataclasses
import errno
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import orjson
from pydantic import BaseModel

from antiphon.shared_schemas.entries import ResultOut, StreamEntry, TurnDoneOut
from antiphon.shared_schemas.stream_position import StreamPosition

Side = Literal["in", "out"]
SIDES: tuple[Side, ...] = ("in", "out")

Line = dict[str, Any]

Placed = Sequence[tuple[StreamPosition, Line]]
"""A stream's entries, oldest first."""

TROUBLE = "trouble"
"""Type of a line that tells of the disk, not of the session; `stream` is `note`."""


def describe(side: Side, position: StreamPosition, entry: StreamEntry) -> Line:
    """Everything an entry says except its media and the engine's memo."""
    line: Line = {"stream": side, "id": position.id(), "type": entry.tag}
    for item in dataclasses.fields(entry):
        if item.metadata.get("binary") or item.name == "memo":
            continue
        value = getattr(entry, item.name)
        line[item.name] = value.model_dump() if isinstance(value, BaseModel) else value
    if isinstance(entry, ResultOut | TurnDoneOut) and isinstance(entry.memo.get("user"), str):
        line["user_text"] = entry.memo["user"]
    return line


def read_lines(path: Path) -> tuple[list[Line], int]:
    """The journal's lines, and how many bytes of it are sound.

    It ends at the first line that is torn or whose files have not reached the disk whole: what
    follows is to be read from the streams again. A missing journal has no lines.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return [], 0
    lines: list[Line] = []
    sound = 0
    for raw in data.splitlines(keepends=True):
        line = _parse(raw)
        if line is None or not _has_files(path.parent, line.get("files", {})):
            break
        lines.append(line)
        sound += len(raw)
    return lines, sound


def all_lines(path: Path) -> list[Line]:
    """The lines of a finished session's journal, whatever has become of its files. Raises OSError."""
    return [line for raw in path.read_bytes().splitlines(keepends=True) if (line := _parse(raw))]


def _parse(raw: bytes) -> Line | None:
    if not raw.endswith(b"\n"):
        return None
    try:
        line = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    return line if isinstance(line, dict) else None


def _has_files(folder: Path, sizes: dict[str, int]) -> bool:
    try:
        return all((folder / name).stat().st_size == size for name, size in sizes.items())
    except FileNotFoundError:
        return False


def in_order(lines: Iterable[Line]) -> dict[Side, Placed]:
    """The entries of each stream, oldest first, each once."""
    found: dict[Side, dict[StreamPosition, Line]] = {side: {} for side in SIDES}
    for line in lines:
        if line["stream"] in found:
            found[line["stream"]].setdefault(StreamPosition.parse(line["id"]), line)
    return {side: sorted(entries.items()) for side, entries in found.items()}


class Journal:
    """Appends lines. Not for concurrent use."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    @classmethod
    def resume(cls, path: Path, sound: int) -> Self:
        """Go on after the first `sound` bytes; the rest is cut off."""
        journal = cls(path)
        if os.fstat(journal._descriptor).st_size > sound:
            os.ftruncate(journal._descriptor, sound)
        return journal

    def append(self, line: Line) -> None:
        """Add one line. Raises OSError; the journal must be opened anew then."""
        data = orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
        if os.write(self._descriptor, data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """Give the file back; may be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
