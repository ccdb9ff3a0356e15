"""Log lines of the services: as text for the terminal, and written to and read from one file per service."""

import errno
import os
from collections import Counter, deque
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

import orjson
from rich.text import Text

from antiphon.broker.settings import PRIVATE_FOLDER
from antiphon.cli.terminal import Terminal
from antiphon.shared_schemas.visible_text import visible_line

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
PRIVATE_FILE = 0o600


LOGS_FOLDER = "logs"
UP_LOG = "up"
"""The log of `antiphon up -d` itself."""

_MAX_BYTES = 10_000_000


class LogFiles:
    """A sink for log lines, as a context manager. The previous 10 MB, or run, are in `NAME.log.1`.

    A full disk stops no service: the files lack what it did not take, and say how much.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, IO[bytes]] = {}
        self._sizes: dict[str, int] = {}
        self._lost = Counter[str]()
        self._recent: deque[tuple[str, str]] = deque(maxlen=_TAIL)

    def __enter__(self) -> Self:
        self.folder.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        return self

    def __exit__(self, *exc: object) -> None:
        for file in self._files.values():
            file.close()

    def take(self, service: str, line: str) -> None:
        self._recent.append((service, line))
        lost = self._lost[service]
        about_lost = f"(the disk did not take {lost} lines)\n" if lost else ""
        try:
            self._write(service, f"{about_lost}{line}\n".encode())
        except OSError:
            self._lost[service] += 1
        else:
            self._lost[service] = 0

    def _write(self, service: str, lines: bytes) -> None:
        """Raises OSError."""
        if self._sizes.get(service, 0) >= _MAX_BYTES:
            self._files.pop(service).close()
            del self._sizes[service]
        if service not in self._files:
            self._files[service] = fresh_log(self.folder, service)
            self._sizes[service] = 0
        written = self._files[service].write(lines)
        self._sizes[service] += written
        if written < len(lines):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def show_tail(self, console: Terminal) -> None:
        """Print the last lines of all services together."""
        for service, line in self._recent:
            console.print(render(service, line))
        console.print(f"All of it is in {self.folder}")


def fresh_log(folder: Path, service: str) -> IO[bytes]:
    """An empty log, without a buffer, that only its user can read; the previous one gets another name."""
    path = folder / f"{service}.log"
    with suppress(FileNotFoundError):
        path.replace(path.with_suffix(".log.1"))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
    return os.fdopen(descriptor, "wb", buffering=0)


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
    event = visible_line(str(entry.pop("event", "")))
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
    """On one line: no value of a client pretends to be another entry."""
    return visible_line(value if isinstance(value, str) else orjson.dumps(value).decode())


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
        return complete.decode(errors="replace").split("\n") if complete else []


def _time_of(line: str) -> str:
    try:
        return str(orjson.loads(line)["timestamp"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return ""
