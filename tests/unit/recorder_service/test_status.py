"""Which recordings on disk have lost their recorder."""

import shutil
from pathlib import Path

from antiphon.recorder_service.folder import RecordingFolder
from antiphon.recorder_service.journal.state import RecordingJob
from antiphon.recorder_service.sessions.status import unfinished_recordings
from antiphon.shared_schemas.entries import StopIn, StreamPosition
from antiphon.shared_schemas.states import SessionKind


def begin(root: Path, recording: str) -> Path:
    """A recording in progress."""
    job = RecordingJob(sid="adx_1", ticket=7, kind=SessionKind.AUDIO_DUPLEX, recording=recording)
    folder = RecordingFolder(root, job)
    folder.add("in", StreamPosition(7, 1, 1), StopIn(at=1.0))
    folder.close()
    return folder.path


def test_copies_and_links_are_no_recordings(tmp_path: Path) -> None:
    """Nobody would ever finish them under their names."""
    root = tmp_path / "sessions"
    own, other = begin(root, "ab" * 16), begin(tmp_path / "elsewhere", "cd" * 16)
    shutil.copytree(own, root / f"{own.name}.bak")
    shutil.copytree(own, root / ("00" * 16))
    (root / other.name).symlink_to(other)
    (root / ("11" * 16)).symlink_to(other)
    assert [job.recording for job in unfinished_recordings(root, -1)] == [own.name]
