"""Services' log lines as an operator reads them: who, when, what."""

from __future__ import annotations

from typing import Any

import orjson
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


def prefix(service: str) -> Text:
    """The service's name in its colour, padded so that lines align."""
    return Text(f"{service:<{_WIDTH}} │ ", style=COLOURS.get(service, "white"))


def render(service: str, line: str) -> Text:
    """One line; a JSON log entry becomes `time event key=value …`, anything else stays as it is."""
    entry = _entry(line)
    if entry is None:
        return prefix(service).append(line, style="default")
    level = str(entry.pop("level", "info"))
    clock = str(entry.pop("timestamp", ""))[_TIME]
    event = str(entry.pop("event", ""))
    trace = entry.pop("exception", None)
    for known in ("service", "instance", "logger"):  # the line begins with it; or nobody asks here
        entry.pop(known, None)
    text = prefix(service).append(f"{clock} ", style="dim")
    text.append(event, style=_LEVELS.get(level, "default"))
    for name, value in entry.items():
        text.append(f" {name}=", style="dim").append(_shown(value), style="default")
    return text.append(f"\n{trace}", style="red") if trace else text


def _entry(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        entry = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return entry if "event" in entry else None


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
