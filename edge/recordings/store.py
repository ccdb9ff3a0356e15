"""The directory of recordings: every file is opened name by name, never through a symbolic link.

Each name is opened relative to its parent's descriptor (`openat`), so that a folder that is replaced
between check and open leads nowhere. Every call blocks on the disk: call it in a thread.
"""

import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import structlog

from antiphon.broker.service.disk import discard
from antiphon.broker.settings import PRIVATE_FOLDER
from antiphon.shared_schemas.audio import WaveformPeaks
from antiphon.shared_schemas.ids import is_recording_id
from antiphon.shared_schemas.recording import PEAKS_FILE, REPLAY_WAV, TIMELINE_FILE, USED_FILE

log = structlog.get_logger()

UPLOADS_FOLDER = ".uploads"
"""Folder of incomplete uploads. The cleanup job deletes what a crashed edge left there."""

COMMENT_FILE = "comment.txt"

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})
_UNWRITABLE = frozenset({errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT})
_TOUCH_EVERY_S = 60.0

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}\Z")
_MAX_PARTS = 4
_SHOWN_CHARS = 60

_MEDIA_TYPES = {
    ".wav": "audio/wav",
    ".mp3": "audio/mpeg",
    ".ogg": "audio/ogg",
    ".opus": "audio/ogg",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".png": "image/png",
    ".webp": "image/webp",
    ".webm": "video/webm",
    ".mp4": "video/mp4",
    ".mov": "video/quicktime",
    ".vtt": "text/vtt; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".json": "application/json",
}


class InvalidName(ValueError):
    """Not a valid recording id or asset path."""


class RecordingNotFound(Exception):
    """The recording or the file does not exist.

    The message must not contain the id: the holder of a share link may read it.
    """


class StoreUnavailable(Exception):
    """The directory of recordings is missing or cannot be used."""


class DiskFull(Exception):
    """The free space of the disk is not above its reserve."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a recording; `path` is relative to its directory, `modified` in Unix seconds."""

    path: str
    size: int
    modified: float


class RecordingStore:
    """The recordings below `root`. Raises RecordingNotFound, StoreUnavailable and InvalidName."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def recordings(self) -> list[str]:
        """All ids, unordered."""
        with self._open_root() as root, os.scandir(root) as entries:
            return [
                entry.name
                for entry in entries
                if is_recording_id(entry.name) and entry.is_dir(follow_symlinks=False)
            ]

    def open(self, recording: str, path: str) -> BinaryIO:
        """Open one file for reading. It stays readable if it is replaced or deleted."""
        *folders, name = split_asset_path(path)
        absent = f"the recording has no file {path}"
        with ExitStack() as stack:
            parent = stack.enter_context(self.open_folder(recording))
            for folder in folders:
                parent = stack.enter_context(_open_folder(folder, parent, absent))
            return _open_file(name, parent, absent)

    def read(self, recording: str, path: str) -> bytes:
        """The content of a small file."""
        with self.open(recording, path) as file:
            return file.read()

    def files(self, recording: str) -> list[StoredFile]:
        """All files that `open` accepts, ordered by path."""
        with self.open_folder(recording) as folder:
            return sorted(_walk(folder, ()), key=lambda file: file.path)

    def touch(self, recording: str) -> None:
        """Record the use: the cleanup job deletes the least recently used recordings first."""
        with self.open_folder(recording) as folder:
            try:
                _touch(folder)
            except OSError as error:
                if error.errno not in _UNWRITABLE:
                    raise
                log.debug("recording_use_not_noted", recording=recording, error=str(error))

    def remove(self, recording: str, name: str) -> None:
        """Delete a file of the recording's directory if it exists."""
        (plain,) = split_asset_path(name)
        with (
            self.open_folder(recording) as folder,
            _writing(PermissionError),
            suppress(FileNotFoundError),
        ):
            os.unlink(plain, dir_fd=folder)

    def delete(self, recording: str) -> None:
        """Delete a recording. Raises StoreUnavailable where nothing may be written."""
        with self.open_folder(recording), _writing():
            discard(self.root / recording)

    def read_comment(self, recording: str) -> str:
        """The comment; '' without one."""
        try:
            return self.read(recording, COMMENT_FILE).decode(errors="replace")
        except RecordingNotFound:
            return ""

    def write_comment(self, recording: str, data: bytes) -> None:
        """Replace the comment (UTF-8); delete it if `data` is empty."""
        if not data:
            self.remove(recording, COMMENT_FILE)
            return
        self.write(recording, COMMENT_FILE, data)

    def write(self, recording: str, name: str, data: bytes) -> None:
        """Replace a small file of the recording's directory."""
        file = AtomicFile(self)
        try:
            file.write(data)
            file.commit(recording, name)
        finally:
            file.discard()

    @contextmanager
    def open_folder(self, recording: str) -> Iterator[int]:
        """The descriptor of a recording's directory."""
        check_recording_id(recording)
        absent = "there is no such recording"
        with self._open_root() as root, _open_folder(recording, root, absent) as folder:
            yield folder

    @contextmanager
    def _open_root(self) -> Iterator[int]:
        try:
            root = os.open(self.root, _FOLDER)
        except OSError as error:
            text = "the recordings are not on this server (setting `data_dir`)"
            raise StoreUnavailable(f"{text}: {error.strerror}") from error
        try:
            yield root
        finally:
            os.close(root)


class AtomicFile:
    """A file that appears in a recording when it is complete. Raises StoreUnavailable."""

    def __init__(self, store: RecordingStore) -> None:
        self._store = store
        folder = store.root / UPLOADS_FOLDER
        with _writing():
            folder.mkdir(PRIVATE_FOLDER, exist_ok=True)
            self._path: Path = folder / f"{secrets.token_hex(8)}.part"
            self._file = self._path.open("xb")

    def write(self, data: bytes) -> None:
        with _writing():
            self._file.write(data)

    def commit(self, recording: str, name: str) -> None:
        """Move it into a recording; replaces a file of the same name. Raises RecordingNotFound."""
        (plain,) = split_asset_path(name)
        with self._store.open_folder(recording) as folder, _writing():
            self._file.flush()
            os.fsync(self._file.fileno())
            os.replace(self._path, plain, dst_dir_fd=folder)

    def discard(self) -> None:
        """Close it, and delete it unless it was committed."""
        with suppress(OSError):  # on a full disk the close fails like the write
            self._file.close()
        self._path.unlink(missing_ok=True)


def check_recording_id(text: str) -> str:
    """Returns `text`. Raises InvalidName."""
    if not is_recording_id(text):
        raise InvalidName(
            "session id: a recording's id has 32 hexadecimal digits; "
            "the session sent it as `recording_session_id`"
        )
    return text


def split_asset_path(path: str) -> tuple[str, ...]:
    """Folders and file name of a relative path. Raises InvalidName.

    Every part is plain ASCII without a leading dot, which excludes `..`, hidden files, other
    separators and encoded characters.
    """
    parts = tuple(path.split("/"))
    if not is_asset_path(parts):
        raise InvalidName(
            f"asset path: {path[:_SHOWN_CHARS]!r} names no file of a recording; "
            "one looks like user_audio/000.wav"
        )
    return parts


def is_asset_path(parts: tuple[str, ...]) -> bool:
    plain = 0 < len(parts) <= _MAX_PARTS and all(_PART.match(part) for part in parts)
    return plain and parts != (TIMELINE_FILE,)


def media_type(path: str) -> str | None:
    """The type a browser may display; None: offer the file as a download."""
    return _MEDIA_TYPES.get(PurePosixPath(path).suffix.lower())


@contextmanager
def _open_folder(name: str, parent: int, absent: str) -> Iterator[int]:
    descriptor = _open_at(name, _FOLDER | os.O_NOFOLLOW, parent, absent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open_file(name: str, parent: int, absent: str) -> BinaryIO:
    descriptor = _open_at(name, _FILE, parent, absent)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise RecordingNotFound(absent)
    return os.fdopen(descriptor, "rb")


def _open_at(name: str, flags: int, parent: int, absent: str) -> int:
    try:
        return os.open(name, flags, dir_fd=parent)
    except OSError as error:
        if error.errno in _ABSENT:
            raise RecordingNotFound(absent) from None
        raise


def _walk(folder: int, above: tuple[str, ...]) -> Iterator[StoredFile]:
    """Skips invalid names and files that are deleted during the walk."""
    with os.scandir(folder) as entries:
        for entry in entries:
            parts = (*above, entry.name)
            if not is_asset_path(parts):
                continue
            with suppress(FileNotFoundError, RecordingNotFound):
                info = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(info.st_mode):
                    yield StoredFile("/".join(parts), info.st_size, info.st_mtime)
                elif stat.S_ISDIR(info.st_mode):
                    with _open_folder(entry.name, folder, entry.name) as inner:
                        yield from _walk(inner, parts)


def _touch(folder: int) -> None:
    try:
        last = os.stat(USED_FILE, dir_fd=folder, follow_symlinks=False).st_mtime
    except FileNotFoundError:
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        os.close(os.open(USED_FILE, flags, 0o644, dir_fd=folder))
    else:
        if time.time() - last > _TOUCH_EVERY_S:
            os.utime(USED_FILE, dir_fd=folder, follow_symlinks=False)


@contextmanager
def _writing(failures: type[OSError] = OSError) -> Iterator[None]:
    try:
        yield
    except failures as error:
        text = f"recordings cannot be written on this server: {error.strerror}"
        raise StoreUnavailable(text) from error


def make_peaks(store: RecordingStore, recording: str) -> bytes | None:
    """Reads the whole replay, unless the recording has peaks; returns those that cannot be saved.

    Raises RecordingNotFound without a replay, and what else RecordingStore raises.
    """
    try:
        store.open(recording, PEAKS_FILE).close()
    except RecordingNotFound:
        pass
    else:
        return None
    with store.open(recording, REPLAY_WAV) as wav:
        try:
            made = WaveformPeaks.of_wav(wav).encode()
        except ValueError as error:
            log.warning("replay_unreadable", recording=recording, error=str(error))
            raise RecordingNotFound("the replay of the recording cannot be read") from None
    try:
        store.write(recording, PEAKS_FILE, made)
    except StoreUnavailable as error:
        log.debug("peaks_not_saved", recording=recording, error=str(error))
        return made
    return None
