"""Only a recording's files can be opened, for every requested name."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from antiphon.edge.recordings.store import (
    AtomicFile,
    InvalidName,
    RecordingNotFound,
    RecordingStore,
    StoreUnavailable,
    media_type,
    split_asset_path,
)
from antiphon.shared_schemas.recording import TIMELINE_FILE, USED_FILE

ONE, OTHER = "1" * 32, "2" * 32
SECRET = b"secret"
UNPRIVILEGED_USER = 65534


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two recordings. The first contains links and hidden files that must not be opened."""
    top = tmp_path_factory.mktemp("store")
    (top / "outside").mkdir()
    (top / "outside" / "000.wav").write_bytes(SECRET)
    sessions = top / "sessions"
    for name in (ONE, OTHER, ".trash", ".uploads", "notes"):
        (sessions / name / "user_audio").mkdir(parents=True)
        (sessions / name / "user_audio" / "000.wav").write_bytes(SECRET)
    (sessions / "file").write_bytes(SECRET)
    folder = sessions / ONE
    (folder / "user_audio" / "000.wav").write_bytes(b"open")
    for name in (USED_FILE, TIMELINE_FILE, ".hidden.wav"):
        (folder / name).write_bytes(SECRET)
    (folder / ".pieces").mkdir()
    (folder / ".pieces" / "0.wav").write_bytes(SECRET)
    (folder / "out.wav").symlink_to(top / "outside" / "000.wav")
    (folder / "up").symlink_to("..")
    (folder / "outside").symlink_to(top / "outside")
    (folder / "other").symlink_to(sessions / OTHER)
    (folder / "user_audio" / "up").symlink_to("../..")
    (sessions / ("3" * 32)).symlink_to(sessions / OTHER)
    (sessions / ("4" * 32)).write_bytes(SECRET)
    return sessions


WORDS = st.sampled_from(
    [
        *("..", ".", "", "/", "~", "up", "out.wav", "outside", "other", "user_audio", "000.wav"),
        *(ONE, OTHER, USED_FILE, TIMELINE_FILE, ".pieces", "0.wav", "sessions", "file", "..."),
        *(
            "%2e%2e",
            "..%2f",
            "\\",
            "..\\",
            "\0",
            "\n",
            "．．",
            "‥",
            "etc",
            "passwd",
            "proc",
            "self",
        ),
    ]
)
PATHS = st.one_of(
    st.lists(WORDS, max_size=7).map("/".join),
    st.lists(st.one_of(WORDS, st.text(max_size=5)), max_size=7).map("".join),
    st.text(max_size=300),
)
NAMES = st.one_of(st.just(ONE), st.sampled_from(["3" * 32, "4" * 32, OTHER[:-1]]), WORDS, PATHS)


@given(recording=NAMES, path=PATHS)
@example(recording=ONE, path="up/" + OTHER + "/user_audio/000.wav")
@example(recording=ONE, path="user_audio/up/file")
@example(recording=f"{ONE}/../{OTHER}", path="user_audio/000.wav")
@example(recording=ONE, path="a" * 100_000)
@example(recording=ONE, path="\ud800")
def test_no_path_leaves_the_recording(root: Path, recording: str, path: str) -> None:
    """The path is rejected, or it is a file of the recording."""
    try:
        with RecordingStore(root).open(recording, path) as file:
            content = file.read()
    except (InvalidName, RecordingNotFound):
        return
    assert recording == ONE
    assert path == "user_audio/000.wav"
    assert content == b"open"


@given(path=PATHS)
def test_path_parts_are_plain_names(path: str) -> None:
    try:
        parts = split_asset_path(path)
    except InvalidName:
        return
    assert "/".join(parts) == path
    for part in parts:
        assert part.isascii()
        assert part.isprintable()
        assert not part.startswith(".")
        assert not set(part) & set("/\\:%\0 ")


@given(name=PATHS)
def test_nothing_is_written_or_removed_outside(root: Path, name: str) -> None:
    before = sorted(str(path) for path in root.parent.rglob("*") if ONE not in str(path))
    file = AtomicFile(RecordingStore(root))
    try:
        file.write(b"x")
        file.commit(ONE, name)
        RecordingStore(root).remove(ONE, name)
    except (InvalidName, ValueError, IsADirectoryError, StoreUnavailable):
        pass
    finally:
        file.discard()
    after = sorted(str(path) for path in root.parent.rglob("*") if ONE not in str(path))
    assert after == before
    assert (root / OTHER / "user_audio" / "000.wav").read_bytes() == SECRET


def test_files_lists_only_assets(root: Path) -> None:
    store = RecordingStore(root)
    assert sorted(store.recordings()) == [ONE, OTHER]
    names = [item.path for item in store.files(ONE)]
    assert "user_audio/000.wav" in names
    assert not set(names) & {"out.wav", TIMELINE_FILE, USED_FILE, "outside/000.wav", ".hidden.wav"}


def test_a_folder_replaced_by_a_link_is_not_followed(tmp_path: Path) -> None:
    """Names are opened relative to an open descriptor, not from the root."""
    store = RecordingStore(tmp_path / "sessions")
    (tmp_path / "sessions" / ONE / "user_audio").mkdir(parents=True)
    (tmp_path / "outside" / "user_audio").mkdir(parents=True)
    (tmp_path / "outside" / "user_audio" / "000.wav").write_bytes(SECRET)
    with store.open_folder(ONE) as place:
        (tmp_path / "sessions" / ONE).rename(tmp_path / "moved")
        (tmp_path / "sessions" / ONE).symlink_to(tmp_path / "outside")
        with os.scandir(place) as entries:
            assert [entry.name for entry in entries] == ["user_audio"]
    with pytest.raises(RecordingNotFound):
        store.open(ONE, "user_audio/000.wav")


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_no_descriptor_is_left_open(root: Path) -> None:
    store = RecordingStore(root)
    before = descriptors()
    for path in (
        "user_audio/000.wav",
        "nothing",
        "out.wav",
        "user_audio",
        "other/user_audio/000.wav",
    ):
        try:
            store.open(ONE, path).close()
        except RecordingNotFound:
            continue
    store.files(ONE)
    store.touch(ONE)
    assert descriptors() == before


@contextmanager
def without_privileges() -> Iterator[None]:
    """Run as a user without access, because root may read everything."""
    was = os.geteuid()
    if was == 0:
        os.seteuid(UNPRIVILEGED_USER)
    try:
        yield
    finally:
        os.seteuid(was)


def test_a_read_only_directory_can_be_read() -> None:
    with TemporaryDirectory() as folder:  # pytest's folder is closed to other users
        root = Path(folder) / "sessions"
        (root / ONE).mkdir(parents=True)
        (root / ONE / "meta.json").write_bytes(b"{}")
        Path(folder).chmod(0o755)
        for path in (root, root / ONE):
            path.chmod(0o555)
        with without_privileges():
            store = RecordingStore(root)
            store.touch(ONE)
            assert store.read(ONE, "meta.json") == b"{}"
            with pytest.raises(StoreUnavailable, match="cannot be written"):
                AtomicFile(store)
            with pytest.raises(StoreUnavailable, match="cannot be written"):
                store.remove(ONE, "meta.json")
        assert [path.name for path in (root / ONE).iterdir()] == ["meta.json"]
        (root / ONE).chmod(0o755)


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EDQUOT])
def test_a_recording_on_a_full_disk_can_be_read_and_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: int
) -> None:
    (tmp_path / ONE).mkdir()

    def refuse(_folder: int) -> None:
        raise OSError(reason, os.strerror(reason))

    monkeypatch.setattr("antiphon.edge.recordings.store._touch", refuse)
    store = RecordingStore(tmp_path)
    store.touch(ONE)
    store.delete(ONE)
    assert store.recordings() == []


def test_errors_without_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for place in ("nowhere", "file"):
        with pytest.raises(StoreUnavailable, match="data_dir"):
            RecordingStore(tmp_path / place).files(ONE)
    with pytest.raises(StoreUnavailable, match="cannot be written"):
        AtomicFile(RecordingStore(tmp_path / "file"))


def test_media_types() -> None:
    assert media_type("user_audio/000.WAV") == "audio/wav"
    assert media_type("x.html") is None
    assert media_type("x.svg") is None
    assert media_type("x") is None
