"""Finds and reads a recorded session on this machine's disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import soundfile

from antiphon.recorder_service.settings import RecorderSettings
from antiphon.shared_schemas.audio import INPUT_RATE, PcmFormat, Samples, samples_from_bytes
from antiphon.shared_schemas.ids import is_recording_id
from antiphon.shared_schemas.recording import (
    META_FILE,
    RECORDING_FILE,
    DuplexRecording,
    Meta,
    TurnRecording,
    parse_meta,
    parse_recording,
)


class CannotLoad(Exception):
    """The recording or one of its files does not exist or cannot be read; the message names it."""


@dataclass(frozen=True, slots=True)
class LoadedRecording:
    """The directory of a recording and its `meta.json`; `timeline` is None while the session runs."""

    folder: Path
    meta: Meta
    timeline: DuplexRecording | TurnRecording | None


def sessions_folder(data_dir: Path | None) -> Path:
    """The folder of all recordings: below the flag's folder, else below the recorder's."""
    return (data_dir or RecorderSettings().data_dir) / "sessions"


def find_recording(name: str, data_dir: Path | None) -> Path:
    """The directory of a recording, given its id or the directory. Raises CannotLoad."""
    place = sessions_folder(data_dir) / name if is_recording_id(name) else Path(name)
    if (place / META_FILE).is_file():
        return place
    if is_recording_id(name):
        raise CannotLoad(f"no recording {name} in {place.parent}; --data-dir names another folder")
    raise CannotLoad(f"{name!r} is neither a recording's id (32 hexadecimal digits) nor its folder")


def load_recording(folder: Path) -> LoadedRecording:
    """Raises CannotLoad."""
    try:
        meta = parse_meta((folder / META_FILE).read_bytes())
        path = folder / RECORDING_FILE
        timeline = parse_recording(path.read_bytes()) if path.exists() else None
    except (OSError, ValueError) as error:
        raise CannotLoad(f"{folder} cannot be read: {error}") from error
    return LoadedRecording(folder, meta, timeline)


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
