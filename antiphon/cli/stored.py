"""A recorded session, found and read on this machine's disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from antiphon.shared_schemas.ids import is_recording_id
from antiphon.shared_schemas.recording import (
    META_FILE,
    RECORDING_FILE,
    Meta,
    Recording,
    TurnRecording,
    parse_meta,
    parse_recording,
)


class NotStored(Exception):
    """There is no such recording here, or it cannot be read; the message says where it was sought."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Its directory and what `meta.json` says; `recording` is None while the session goes on."""

    folder: Path
    meta: Meta
    recording: Recording | TurnRecording | None

    @property
    def whole(self) -> Recording | TurnRecording:
        """Its timeline. Raises NotStored while the session goes on."""
        if self.recording is None:
            raise NotStored(
                f"{self.folder.name} is still being recorded; try again when it is over"
            )
        return self.recording


def sessions_folder(data_dir: Path | None) -> Path:
    """Where recordings lie: below the flag's folder, else where the recorder is told to put them."""
    from antiphon.recorder_service.settings import RecorderSettings

    return (data_dir or RecorderSettings().data_dir) / "sessions"


def find(name: str, data_dir: Path | None) -> Path:
    """The directory of a recording, given its id, or a directory itself. Raises NotStored."""
    place = sessions_folder(data_dir) / name if is_recording_id(name) else Path(name)
    if (place / META_FILE).is_file():
        return place
    if is_recording_id(name):
        raise NotStored(f"no recording {name} in {place.parent}; --data-dir names another folder")
    raise NotStored(f"{name!r} is neither a recording's id (32 hexadecimal digits) nor its folder")


def load(folder: Path) -> Stored:
    """Read what is there. Raises NotStored."""
    try:
        meta = parse_meta((folder / META_FILE).read_bytes())
        timeline = folder / RECORDING_FILE
        recording = parse_recording(timeline.read_bytes()) if timeline.exists() else None
    except (OSError, ValueError) as error:
        raise NotStored(f"{folder} cannot be read: {error}") from error
    return Stored(folder, meta, recording)
