"""Log lines of the services: as text for the terminal, and in one file per service."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import IO, Any, Self

import orjson
from rich.console import Console
from rich.text import Text

COLOURS = {
    "edge": "cyan",
    "worker": "green",
    "recorder": "magenta",
    "cleanup": "blue",
    "redis": "yellow",
}
_LEVELS = {"warning": "yellow", "error": "red", "critical": "bold red", "debug": "dim"}
_TIME = slice(11, 19)
_WIDTH = max(len(name) for name in COLOURS)
_TAIL = 12


class LogFiles:
    """A sink for log lines, as a context manager; it replaces the files of an earlier run."""

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
        if service not in self._files:
            path = self.folder / f"{service}.log"
            self._files[service] = path.open("w", encoding="utf-8", buffering=1)
        self._files[service].write(line + "\n")
        self._recent.append((service, line))

    def show_tail(self, console: Console) -> None:
        """Print the last lines of all services together."""
        for service, line in self._recent:
            console.print(render(service, line))
        console.print(f"All of it is in {self.folder}")


def prefix(service: str) -> Text:
    """The service's name in its colour, padded so that lines align."""
    return Text(f"{service:<{_WIDTH}} │ ", style=COLOURS.get(service, "white"))


def render(service: str, line: str) -> Text:
    """A JSON log entry becomes `time event key=value …`; any other line is unchanged."""
    entry = _entry(line)
    if entry is None:
        return prefix(service).append(line, style="default")
    level = str(entry.pop("level", "info"))
    clock = str(entry.pop("timestamp", ""))[_TIME]
    event = str(entry.pop("event", ""))
    trace = entry.pop("exception", None)
    for known in ("service", "instance", "logger"):  # the prefix names the service
        entry.pop(known, None)
    text = prefix(service).append(f"{clock} ", style="dim")
    text.append(event, style=_LEVELS.get(level, "default"))
    for name, value in entry.items():
        text.append(f" {name}=", style="dim").append(_shown(value), style="default")
    return text.append(f"\n{trace}", style="red") if trace else text


def reason_in(line: str) -> str | None:
    """The error of a log line that ends a service; None for any other line."""
    entry = _entry(line)
    if entry is None or entry.get("level") != "critical":
        return None
    return str(entry.get("error") or entry["event"])


def _entry(line: str) -> dict[str, Any] | None:
    try:
        entry = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return entry if isinstance(entry, dict) and "event" in entry else None


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
