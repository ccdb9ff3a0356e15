"""The recordings on this machine's disk, with the methods of the client's `Recordings`."""

from __future__ import annotations

import shutil
from pathlib import Path

from antiphon.cli.recordings.errors import CannotLoad
from antiphon.cli.recordings.load import (
    find_recording,
    load_meta,
    load_timeline,
    sessions_folder,
)
from antiphon.edge.recordings.download import zip_blocks
from antiphon.edge.recordings.index import RecordingIndex
from antiphon.edge.recordings.store import RecordingStore, StoreUnavailable
from antiphon.shared_schemas.recording import REPLAY_WAV, DuplexRecording, Meta, TurnRecording
from antiphon.shared_schemas.recording_list import RecordingPage, RecordingQuery


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
