"""Reads the log files of `antiphon up`, also while they are written and replaced."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import orjson

LogLine = tuple[str, str]
"""A service and one line of its log."""


class LogTail:
    """The logs in a folder, or that of one service."""

    def __init__(self, folder: Path, service: str | None = None) -> None:
        self._folder = folder
        self._pattern = f"{service or '*'}.log"
        self._read: dict[Path, tuple[int, int]] = {}
        """The inode and the number of bytes that were read of each file."""

    def fresh(self) -> list[LogLine]:
        """The complete lines that were added since the last call, ordered by their times."""
        timed = [
            each for path in sorted(self._folder.glob(self._pattern)) for each in self._timed(path)
        ]
        return [(service, line) for _, service, line in sorted(timed, key=lambda each: each[0])]

    def _timed(self, path: Path) -> Iterable[tuple[str, str, str]]:
        """Lines with their times; one without a time has that of the line before it."""
        time = ""
        for line in self._new_lines(path):
            time = _time_of(line) or time
            yield time, path.stem, line

    def _new_lines(self, path: Path) -> list[str]:
        try:
            with path.open("rb") as file:
                inode = path.stat().st_ino
                known, offset = self._read.get(path, (inode, 0))
                file.seek(offset if known == inode else 0)
                complete, _, rest = file.read().rpartition(b"\n")
                self._read[path] = inode, file.tell() - len(rest)
        except FileNotFoundError:  # it is being replaced
            return []
        return complete.decode(errors="replace").splitlines() if complete else []


def _time_of(line: str) -> str:
    try:
        return str(orjson.loads(line)["timestamp"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return ""
