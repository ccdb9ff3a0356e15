"""Log lines, trees, tables, sound files, the run file: what the commands read and print."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import orjson
import pytest
import soundfile
from rich.console import Console

from antiphon.cli.folder_tree import folder_tree
from antiphon.cli.log_files import LogFiles
from antiphon.cli.log_lines import render
from antiphon.cli.run_file import RunFile
from antiphon.cli.tables import print_table, rows_table
from antiphon.cli.wav import UnusableAudio, load_speech, save_reply
from antiphon.shared_schemas.audio import INPUT_RATE


def test_json_log_entries_are_put_in_order() -> None:
    entry = {
        "session": "adx_1",
        "level": "warning",
        "timestamp": "2026-01-02T03:04:05.6Z",
        "event": "client_gone",
        "n": 3,
    }
    line = render("edge", orjson.dumps(entry).decode()).plain
    assert line == "edge     │ 03:04:05 client_gone session=adx_1 n=3"


def test_tracebacks_keep_their_lines() -> None:
    entry = orjson.dumps({"event": "failed", "exception": "Traceback\n  here"}).decode()
    assert render("worker", entry).plain.endswith("failed\nTraceback\n  here")


@pytest.mark.parametrize("line", ["plain words", "{not json", '{"no": "event"}', "[bold]x"])
def test_other_lines_stay_as_they_are(line: str) -> None:
    assert render("redis", line).plain == f"redis    │ {line}"


def test_tree_shortens_long_folders_in_the_middle(tmp_path: Path) -> None:
    many = tmp_path / "s" / "audio"
    many.mkdir(parents=True)
    for number in range(20):
        (many / f"{number:02}.wav").write_bytes(b"x" * 1500)
    (tmp_path / "s" / "meta.json").write_text("{}")
    lines = folder_tree(tmp_path / "s").splitlines()
    assert lines[1:3] == ["├── audio/", "│   ├── 00.wav  1.5 kB"]
    assert "│   ├── … 12 more" in lines
    assert lines[-2:] == ["│   └── 19.wav  1.5 kB", "└── meta.json  2 B"]


def test_tables_are_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    wide = "x" * 120
    rows = [{"id": wide, "kinds": ["a", "b"], "none": None, "counters": {"n": 1}}]
    print_table(rows_table(rows))
    header, row = capsys.readouterr().out.splitlines()
    assert header.split() == ["id", "kinds"]
    assert row.split() == [wide, "a,", "b"]


def test_log_files_keep_all_and_show_the_last(tmp_path: Path) -> None:
    out = io.StringIO()
    with LogFiles(tmp_path) as logs:
        for number in range(30):
            logs.take("edge", f"line {number}")
        logs.show_tail(Console(file=out, width=200))
    assert (tmp_path / "edge.log").read_text().splitlines()[0] == "line 0"
    assert "line 29" in out.getvalue()
    assert "line 3\n" not in out.getvalue()


def test_sound_of_any_shape_becomes_16_khz_mono(tmp_path: Path) -> None:
    stereo = np.stack([np.full(44100, 0.5), np.full(44100, -0.1)], axis=1)
    soundfile.write(tmp_path / "q.wav", stereo, 44100, subtype="PCM_24")
    samples = load_speech(tmp_path / "q.wav")
    assert samples.dtype == np.float32
    assert samples.shape == (INPUT_RATE,)
    assert samples[8000] == pytest.approx(0.2, abs=1e-3)


def test_the_reply_is_a_16_bit_wav(tmp_path: Path) -> None:
    path = tmp_path / "new" / "reply.wav"
    save_reply(path, np.array([0.0, 1.0, -0.5], np.float32))
    samples, rate = soundfile.read(path, dtype="int16")
    assert rate == 24000
    assert samples.tolist() == [0, 32767, -16384]


def test_unusable_sound_is_told_by_name(tmp_path: Path) -> None:
    with pytest.raises(UnusableAudio, match=r"cannot read .*absent\.wav"):
        load_speech(tmp_path / "absent.wav")
    soundfile.write(tmp_path / "empty.wav", np.zeros(0), 16000)
    with pytest.raises(UnusableAudio, match="holds no sound"):
        load_speech(tmp_path / "empty.wav")
    (tmp_path / "file").touch()
    with pytest.raises(UnusableAudio, match="cannot write"):
        save_reply(tmp_path / "file" / "reply.wav", np.zeros(1, np.float32))


def test_run_file_lasts_as_long_as_the_stack(tmp_path: Path) -> None:
    file = RunFile(pid=os.getpid(), redis_url="redis://r", edge_url="ws://e")
    with file.published(tmp_path):
        assert RunFile.read(tmp_path) == file
    assert RunFile.read(tmp_path) is None


def test_run_file_of_a_dead_stack_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "stack.json").write_bytes(
        orjson.dumps({"pid": 2**22 + 1, "redis_url": "r", "edge_url": "e"})
    )
    assert RunFile.read(tmp_path) is None
    (tmp_path / "stack.json").write_text('{"pid": 1}')
    assert RunFile.read(tmp_path) is None
