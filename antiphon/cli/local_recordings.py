"""Finds and reads the recordings on this machine's disk."""

import os
import shutil
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import soundfile

from antiphon.broker.service.disk import raise_unless_gone
from antiphon.broker.settings import SESSIONS_FOLDER
from antiphon.cli.common import CannotLoad
from antiphon.edge.recordings.download import is_text
from antiphon.edge.recordings.index import RecordingIndex
from antiphon.edge.recordings.store import RecordingStore, StoreUnavailable, is_asset_path
from antiphon.recorder_service.settings import RecorderSettings
from antiphon.shared_schemas.audio import INPUT_RATE, PcmFormat, Samples, samples_from_bytes
from antiphon.shared_schemas.ids import is_recording_id, is_session_id
from antiphon.shared_schemas.recording import (
    META_FILE,
    RECORDING_FILE,
    REPLAY_WAV,
    DuplexRecording,
    Meta,
    TurnRecording,
    parse_meta,
    parse_recording,
)
from antiphon.shared_schemas.recording_list import RecordingPage, RecordingQuery


@dataclass(frozen=True, slots=True)
class LoadedRecording:
    """The directory of a recording and its `meta.json`; `timeline` is None while the session runs."""

    folder: Path
    meta: Meta
    timeline: DuplexRecording | TurnRecording | None


class LocalRecordings:
    """The recordings below the folder of the flag, else of the recorder. Raises CannotLoad.

    A name is the id of a recording or of its session, or a recording's folder. A session's id names its
    newest recording: clients may use an id again.
    """

    def __init__(self, data_dir: Path | None) -> None:
        self._root = (data_dir or RecorderSettings().data_dir) / SESSIONS_FOLDER

    def list(self, query: RecordingQuery) -> RecordingPage:
        try:
            return RecordingIndex(RecordingStore(self._root)).page(query)
        except StoreUnavailable as error:
            remedy = "--data-dir names another folder, --url an edge"
            if isinstance(error.__cause__, PermissionError):
                raise CannotLoad(f"{self._root} belongs to another user; {remedy}") from None
            raise CannotLoad(f"there are no recordings in {self._root}; {remedy}") from None

    def folder(self, name: str) -> Path:
        for folder in (self._root / name, Path(name)):
            if (folder / META_FILE).is_file():
                return folder
        remedy = f"{self._root}; --data-dir names another folder"
        if is_recording_id(name):
            raise CannotLoad(f"no recording {name} in {remedy}")
        if not is_session_id(name):
            text = "is no id of a recording or session, and no folder of a recording"
            raise CannotLoad(f"{name!r} {text}")
        with suppress(StoreUnavailable):
            if found := RecordingIndex(RecordingStore(self._root)).of_session(name):
                return self._root / found
        raise CannotLoad(f"no recording of session {name} in {remedy}")

    def load(self, name: str) -> LoadedRecording:
        return LoadedRecording(self.folder(name), self.meta(name), self.timeline(name))

    def meta(self, name: str) -> Meta:
        path = self.folder(name) / META_FILE
        try:
            return parse_meta(read_file(path))
        except ValueError as error:
            raise CannotLoad(f"{path} cannot be read: {error}") from error

    def timeline(self, name: str) -> DuplexRecording | TurnRecording | None:
        """None while the session runs."""
        path = self.folder(name) / RECORDING_FILE
        try:
            return parse_recording(read_file(path)) if path.exists() else None
        except ValueError as error:
            raise CannotLoad(f"{path} cannot be read: {error}") from error

    def files(self, name: str) -> dict[str, int]:
        """The bytes of each file that `download` writes, by its path in the recording."""
        try:
            sizes = sorted(file_sizes(self.folder(name), raise_unless_gone))
        except OSError as error:
            _refuse(error)
        return {file.as_posix(): size for file, size in sizes if is_asset_path(file.parts)}

    def save(self, name: str, path: Path, file: str = REPLAY_WAV) -> None:
        """Copy one file to `path`. Raises OSError if that cannot be written."""
        source = self.folder(name) / file
        if not source.is_file():
            raise CannotLoad(f"the recording has no file {file}")
        with _reading(source):
            shutil.copyfile(source, path)

    def download(self, name: str, path: Path) -> None:
        """Write all files to a ZIP. Raises OSError if that cannot be written."""
        folder, top = self.folder(name), self.meta(name).recording_id
        with zipfile.ZipFile(path, "w", strict_timestamps=False) as archive:
            for file in self.files(name):
                packing = zipfile.ZIP_DEFLATED if is_text(file) else zipfile.ZIP_STORED
                with _reading(folder / file):
                    archive.write(folder / file, f"{top}/{file}", packing)


@contextmanager
def _reading(source: Path) -> Iterator[None]:
    """Raises CannotLoad for an OSError of this file, and not for one of the file that is written."""
    try:
        yield
    except OSError as error:
        if error.filename is None or Path(error.filename) != source:
            raise
        _refuse(error)


def _refuse(error: OSError) -> NoReturn:
    raise CannotLoad(f"{error.filename} cannot be read: {error.strerror}") from error


def file_sizes(
    folder: Path, on_error: Callable[[OSError], None] | None = None
) -> Iterator[tuple[Path, int]]:
    """Files below a folder, relative to it, and their bytes. Skips files that are deleted during the call.

    `on_error` gets the error of a folder that cannot be read; without it, such folders are skipped.
    """
    for place, _, names in os.walk(folder, onerror=on_error):
        for path in (Path(place, name) for name in names):
            with suppress(FileNotFoundError):
                yield path.relative_to(folder), path.lstat().st_size


def load_pcm(path: Path) -> Samples:
    """A recorded 16-bit mono WAV at 16 kHz, on the scale of the wire. Raises CannotLoad."""
    try:
        pcm, rate = soundfile.read(path, dtype="int16")
    except (OSError, soundfile.SoundFileError) as error:
        raise CannotLoad(f"{path} cannot be read: {error}") from error
    if rate != INPUT_RATE or pcm.ndim != 1:
        raise CannotLoad(f"{path} is not mono sound at {INPUT_RATE} Hz")
    return samples_from_bytes(pcm.astype("<i2").tobytes(), PcmFormat.S16)


def read_file(path: Path) -> bytes:
    """Raises CannotLoad."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise CannotLoad(f"{path} cannot be read: {error.strerror}") from error
