"""`stack.json`: where the commands of a folder find its `antiphon up`."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

import orjson

from antiphon.cli.common import DEFAULT_URL, command

STACK_FILE = "stack.json"

_MODE = 0o600
"""The URL of Redis may have a password."""

_LOCK_TRIES = 20
_LOCK_PAUSE_S = 0.05
"""A reader holds a lock for a moment, too."""


class StackRuns(Exception):
    """Another `antiphon up` has the folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackFile:
    """A running `antiphon up`: its process id and its addresses. `ready`: it accepts sessions.

    `redis_url` is empty while its own Redis starts and loads its data.
    """

    pid: int
    redis_url: str
    edge_url: str
    ready: bool = False

    @property
    def http_url(self) -> str:
        return "http" + self.edge_url.removeprefix("ws")

    @classmethod
    def read(cls, data_dir: Path) -> "StackFile | None":
        """The stack that runs over this folder now; None if there is none.

        The running process holds a lock on the file, so that `pid` is never that of another program.
        Raises PermissionError for a folder of another user: a stack may run there.
        """
        try:
            with (data_dir / STACK_FILE).open("rb") as file:
                return None if _lock(file, shared=True) else cls(**orjson.loads(file.read()))
        except PermissionError as error:
            error.strerror = f"{error.strerror}: the folder of another user"
            raise
        except (OSError, TypeError, orjson.JSONDecodeError):
            return None

    @classmethod
    def readable(cls, data_dir: Path) -> "StackFile | None":
        """The same, and None also for a folder of another user."""
        with suppress(PermissionError):
            return cls.read(data_dir)
        return None


@contextmanager
def publish_stack(data_dir: Path) -> Iterator[Callable[[StackFile], None]]:
    """Have the folder until the block ends; the yielded function writes the file.

    Raises StackRuns, and OSError.
    """
    path = data_dir / STACK_FILE
    with _locked(path) as file:

        def publish(stack: StackFile) -> None:
            file.seek(0)
            file.truncate()
            file.write(orjson.dumps(asdict(stack), option=orjson.OPT_INDENT_2))
            file.flush()

        try:
            yield publish
        finally:
            path.unlink(missing_ok=True)


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    for _ in range(_LOCK_TRIES):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, _MODE)
        with os.fdopen(descriptor, "wb") as file:
            if (
                _lock(file)
                and path.exists()
                and path.stat().st_ino == os.fstat(file.fileno()).st_ino
            ):
                yield file
                return
        time.sleep(_LOCK_PAUSE_S)
    raise StackRuns(
        f"another `antiphon up` runs in {path.parent}; `{command('down', path.parent)}` stops it, "
        "--data-dir names another folder"
    )


def _lock(file: BinaryIO, *, shared: bool = False) -> bool:
    """False if another process has the lock."""
    import fcntl  # not on Windows, where no stack runs

    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def default_edge_url(data_dir: Path | None = None) -> str:
    """The edge of `antiphon up` in the folder of a flag, or in this folder, else the default address."""
    try:
        from antiphon.recorder_service.settings import RecorderSettings
    except ModuleNotFoundError:  # without the services
        return DEFAULT_URL
    stack = StackFile.readable(data_dir or RecorderSettings().data_dir)
    return stack.edge_url if stack else DEFAULT_URL
