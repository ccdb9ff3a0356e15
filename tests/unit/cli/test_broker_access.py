"""`stack.json` of a running stack."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from antiphon.broker.settings import InvalidSettings
from antiphon.cli.broker_access import broker_settings
from antiphon.cli.common import DEFAULT_URL, CannotLoad
from antiphon.cli.local_recordings import LocalRecordings
from antiphon.cli.stack.stack import make_data_folder
from antiphon.cli.stack.stack_file import StackFile, StackRuns, default_edge_url, publish_stack
from antiphon.shared_schemas.recording_list import RecordingQuery
from support.users import folder_of_another_user


def test_stack_file_lasts_as_long_as_the_stack(tmp_path: Path) -> None:
    file = StackFile(pid=os.getpid(), redis_url="redis://r", edge_url="ws://e")
    with publish_stack(tmp_path) as publish:
        publish(file)
        assert StackFile.read(tmp_path) == file
        with pytest.raises(StackRuns, match="antiphon down"), publish_stack(tmp_path):
            pass
        assert StackFile.read(tmp_path) == file
    assert StackFile.read(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_the_stack_file_of_a_dead_stack_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "stack.json").write_bytes(
        orjson.dumps({"pid": os.getpid(), "redis_url": "r", "edge_url": "e"})
    )
    assert StackFile.read(tmp_path) is None
    (tmp_path / "stack.json").write_text('{"pid": 1}')
    assert StackFile.read(tmp_path) is None


def test_the_folder_of_another_user_is_no_folder_without_a_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stack may run there, and its address is not the default one."""
    monkeypatch.chdir(tmp_path)
    with folder_of_another_user(Path("data")):
        assert StackFile.readable(Path("data")) is None
        assert default_edge_url() == DEFAULT_URL
        with pytest.raises(PermissionError, match="Permission denied: the folder of another user"):
            broker_settings(None)
        with pytest.raises(CannotLoad, match="data/sessions belongs to another user; --data-dir"):
            LocalRecordings(None).list(RecordingQuery())
        with pytest.raises(
            InvalidSettings, match=r"data/demo cannot be used \(Permission denied\)"
        ):
            make_data_folder(Path("data/demo"))


def test_commands_use_the_edge_of_the_stack_in_this_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert default_edge_url() == DEFAULT_URL
    Path("data").mkdir()
    with publish_stack(Path("data")) as publish:
        assert default_edge_url() == DEFAULT_URL
        publish(StackFile(pid=os.getpid(), redis_url="redis://r", edge_url="ws://127.0.0.1:9"))
        assert default_edge_url() == "ws://127.0.0.1:9"
    assert default_edge_url() == DEFAULT_URL


def test_a_closed_folder_of_a_recording_is_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that a recorder deletes during the call is."""
    (tmp_path / "meta.json").write_text("{}")
    (tmp_path / "user_audio").mkdir()
    walk = os.walk
    for code, expected in ((errno.EACCES, None), (errno.ENOENT, ["meta.json"])):

        def walk_with_error(
            folder: Path, onerror: Callable[[OSError], None], code: int = code
        ) -> Iterator[Any]:
            onerror(OSError(code, os.strerror(code), str(folder / "user_audio")))
            yield from walk(folder)

        monkeypatch.setattr(os, "walk", walk_with_error)
        if expected is None:
            with pytest.raises(CannotLoad, match="user_audio cannot be read: Permission denied"):
                LocalRecordings(None).files(str(tmp_path))
        else:
            assert list(LocalRecordings(None).files(str(tmp_path))) == expected
