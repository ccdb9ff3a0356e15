"""Downloads a file of known size and SHA-256, in as many requests and runs as it takes."""

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from antiphon.cli.models.hub import HubAway, HubRefuses, PartRefused, Unreachable, request_file
from antiphon.recorder_service.atomic_files import sync

_TRIES = 6
"""Requests in a row that bring nothing."""

_LONGEST_WAIT_S = 120.0
"""A hub that asks for more is asked again by the user."""


class DownloadFailed(Exception):
    """The message says why, and what the user can do."""


class DownloadRuns(DownloadFailed):
    """Another process downloads this file."""


@dataclass(frozen=True, slots=True)
class Watcher:
    """The progress of a download."""

    progress: Callable[[int], None]
    """Bytes on the disk."""
    says: Callable[[str], None]


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def partial_path(target: Path) -> Path:
    return target.with_name(f"{target.name}.part")


class PartialFile:
    """The bytes that are there already, while this process alone may add to them.

    Raises DownloadRuns, and OSError for a folder that cannot be written.
    """

    def __init__(self, target: Path) -> None:
        self.target = target
        self.path = partial_path(target)
        self._file = -1

    def __enter__(self) -> Self:
        while not self._lock():
            pass
        return self

    def _lock(self) -> bool:
        """False if the process that had the lock before has finished or removed the file."""
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(self._file), self.path.stat()):
                    return True
        except BlockingIOError:
            os.close(self._file)
            raise DownloadRuns(f"another process downloads {self.target.name}") from None
        os.close(self._file)
        return False

    def __exit__(self, *_: object) -> None:
        if not self.size:
            self.discard()
        os.close(self._file)

    @property
    def size(self) -> int:
        return os.fstat(self._file).st_size

    def restart(self) -> None:
        os.truncate(self._file, 0)

    def add(self, block: bytes) -> None:
        left = memoryview(block)
        while left:
            left = left[os.pwrite(self._file, left, self.size) :]

    def publish(self) -> None:
        """Give the file its name, and the bytes to the disk before that."""
        os.fsync(self._file)
        self.path.replace(self.target)
        sync(self.target.parent)

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Download:
    """A file to fetch, which begins with `magic`. `pause` waits between two requests."""

    url: str
    target: Path
    size: int
    sha256: str
    magic: bytes
    pause: Callable[[float], None] = time.sleep

    def run(self, watcher: Watcher) -> None:
        """Raises DownloadFailed. What was downloaded until then is kept, and the next run continues."""
        try:
            self.target.parent.mkdir(parents=True, exist_ok=True)
            with PartialFile(self.target) as part:
                if self.target.exists():  # by a process that has just ended
                    return
                self._check_space(part)
                self._fetch(part, watcher)
                self._finish(part, watcher)
        except OSError as error:
            raise DownloadFailed(
                f"cannot write in {self.target.parent}: {error.strerror}. Make room there, or set "
                "XDG_DATA_HOME to another folder; what has been downloaded is kept"
            ) from error

    def _check_space(self, part: PartialFile) -> None:
        missing = self.size - part.size
        if (free := shutil.disk_usage(self.target.parent).free) < missing:
            raise DownloadFailed(
                f"{self.target.parent} has {free / 1e6:.0f} MB free, and {missing / 1e6:.0f} MB are "
                "missing; make room there, or set XDG_DATA_HOME to another folder"
            )

    def _fetch(self, part: PartialFile, watcher: Watcher) -> None:
        if part.size > self.size:
            part.restart()
        fruitless, begun = 0, part.size
        most = begun
        while part.size < self.size:
            watcher.progress(part.size)
            try:
                self._receive(part, watcher)
                continue
            except HubRefuses as error:
                raise DownloadFailed(str(error)) from None
            except PartRefused as error:
                if not part.size:
                    raise DownloadFailed(str(error)) from None
                part.restart()
                cause = HubAway(f"{error}: from the beginning", 0.0)
            except HubAway as error:
                cause = error
            # A hub that begins again each time brings nothing new.
            fruitless = 0 if part.size > most else fruitless + 1
            most = max(most, part.size)
            lost = isinstance(cause, Unreachable) and most == begun
            if lost or fruitless >= _TRIES or (cause.wait_s or 0) > _LONGEST_WAIT_S:
                raise DownloadFailed(self._given_up(cause, part)) from None
            wait_s = min(2.0**fruitless, 30.0) if cause.wait_s is None else cause.wait_s
            watcher.says(f"{cause}; the next try is in {wait_s:.0f} s")
            self.pause(wait_s)
        watcher.progress(part.size)

    def _receive(self, part: PartialFile, watcher: Watcher) -> None:
        with request_file(self.url, part.size) as answer:
            if answer.size not in (None, self.size):
                raise HubRefuses(f"the file there has {answer.size} bytes instead of {self.size}")
            at = answer.start
            for block in answer.blocks:
                if not at:
                    # The page of a hotel's network does not replace what has been downloaded.
                    if not block.startswith(self.magic[: len(block)]):
                        raise HubRefuses("what answers sends something else than the file")
                    part.restart()
                at += len(block)
                if part.size + len(block) > self.size:
                    part.restart()
                    raise HubRefuses(f"the file there has more than {self.size} bytes")
                part.add(block)
                watcher.progress(part.size)
        if part.size < self.size:
            raise HubAway("the answer ended too early")

    def _given_up(self, cause: HubAway, part: PartialFile) -> str:
        text = str(cause)
        if cause.wait_s:
            text += f", and asks to wait {cause.wait_s:.0f} s"
        if part.size:
            kept = f"{part.size / 1e6:.0f} of {self.size / 1e6:.0f} MB are kept"
            text += f"; {kept}, and the same command continues"
        return text

    def _finish(self, part: PartialFile, watcher: Watcher) -> None:
        watcher.says("checking the SHA-256")
        if (found := sha256_of(part.path)) != self.sha256:
            part.discard()
            raise DownloadFailed(
                f"the file has the SHA-256 {found} instead of {self.sha256}, so it was deleted: the "
                "hub, or a proxy on the way, has changed it. Try again, or another hub"
            )
        part.publish()
