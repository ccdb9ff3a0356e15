"""Finds and reads a recorded session on this machine's disk."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import soundfile

from antiphon.cli.recordings.errors import CannotLoad
from antiphon.edge.recordings.index import RecordingIndex
from antiphon.edge.recordings.store import RecordingStore, StoreUnavailable
from antiphon.recorder_service.settings import RecorderSettings
from antiphon.shared_schemas.audio import INPUT_RATE, PcmFormat, Samples, samples_from_bytes
from antiphon.shared_schemas.ids import is_recording_id, is_session_id
from antiphon.shared_schemas.recording import (
    META_FILE,
    RECORDING_FILE,
    DuplexRecording,
    Meta,
    TurnRecording,
    parse_meta,
    parse_recording,
)


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
