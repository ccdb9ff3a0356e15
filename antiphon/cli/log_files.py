"""What services say, kept in one file each and shown only when something went wrong."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import IO, Self

from rich.console import Console

from antiphon.cli.log_lines import render

_TAIL = 12


class LogFiles:
    """A sink for lines, as a context manager; an earlier run's files are replaced."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, IO[str]] = {}
        self._recent: deque[tuple[str, str]] = deque(maxlen=_TAIL)

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *exc: object) -> None:
        for file in self._files.values():
            file.close()

    def take(self, service: str, line: str) -> None:
        """One line of a service."""
        if service not in self._files:
            path = self.folder / f"{service}.log"
            self._files[service] = path.open("w", encoding="utf-8", buffering=1)
        self._files[service].write(line + "\n")
        self._recent.append((service, line))

    def show_tail(self, console: Console) -> None:
        """The last lines of all services together."""
        for service, line in self._recent:
            console.print(render(service, line))
        console.print(f"All of it is in {self.folder}")
