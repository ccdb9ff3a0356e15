"""Finds and reads the recordings on this machine's disk."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import soundfile

from antiphon.cli.common import CannotLoad
from antiphon.edge.recordings.download import zip_blocks
from antiphon.edge.recordings.index import RecordingIndex
from antiphon.edge.recordings.store import RecordingStore, StoreUnavailable
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


def sessions_folder(data_dir: Path | None) -> Path:
    """The folder of all recordings: below the flag's folder, else below the recorder's."""
    return (data_dir or RecorderSettings().data_dir) / "sessions"


def find_recording(name: str, root: Path) -> Path:
    """The folder of a recording below `root`, given its id, that of its session, or the folder.

    A session's id names its newest recording: clients may use an id again. Raises CannotLoad.
    """
    for folder in (root / name, Path(name)):
        if (folder / META_FILE).is_file():
            return folder
    remedy = f"{root}; --data-dir names another folder"
    if is_recording_id(name):
        raise CannotLoad(f"no recording {name} in {remedy}")
    if not is_session_id(name):
        text = "is no id of a recording or session, and no folder of a recording"
        raise CannotLoad(f"{name!r} {text}")
    with suppress(StoreUnavailable):
        if found := RecordingIndex(RecordingStore(root)).of_session(name):
            return root / found
    raise CannotLoad(f"no recording of session {name} in {remedy}")


def load_recording(folder: Path) -> LoadedRecording:
    """Raises CannotLoad."""
    return LoadedRecording(folder, load_meta(folder), load_timeline(folder))


def load_meta(folder: Path) -> Meta:
    """Raises CannotLoad."""
    try:
        return parse_meta(read_file(folder / META_FILE))
    except ValueError as error:
        raise CannotLoad(f"{folder / META_FILE} cannot be read: {error}") from error


def load_timeline(folder: Path) -> DuplexRecording | TurnRecording | None:
    """None while the session runs. Raises CannotLoad."""
    path = folder / RECORDING_FILE
    try:
        return parse_recording(read_file(path)) if path.exists() else None
    except ValueError as error:
        raise CannotLoad(f"{path} cannot be read: {error}") from error


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


class LocalRecordings:
    """A name is the id of a recording or session, or a recording's folder. Raises CannotLoad."""

    def __init__(self, data_dir: Path | None) -> None:
        self.root = sessions_folder(data_dir)

    def list(self, query: RecordingQuery) -> RecordingPage:
        try:
            return RecordingIndex(RecordingStore(self.root)).page(query)
        except StoreUnavailable:
            remedy = "--data-dir names another folder, --url an edge"
            raise CannotLoad(f"there are no recordings in {self.root}; {remedy}") from None

    def folder(self, name: str) -> Path:
        return find_recording(name, self.root)

    def meta(self, name: str) -> Meta:
        return load_meta(self.folder(name))

    def timeline(self, name: str) -> DuplexRecording | TurnRecording | None:
        """None while the session runs."""
        return load_timeline(self.folder(name))

    def save(self, name: str, path: Path, file: str = REPLAY_WAV) -> None:
        """Copy one file to `path`. Raises OSError."""
        source = self.folder(name) / file
        if not source.is_file():
            raise CannotLoad(f"the recording has no file {file}")
        shutil.copyfile(source, path)

    def download(self, name: str, path: Path) -> None:
        """Write all files to a ZIP. Raises OSError."""
        folder = self.folder(name)
        store = RecordingStore(folder.parent)
        with path.open("wb") as file:
            file.writelines(zip_blocks(store, folder.name, store.files(folder.name), folder.name))
