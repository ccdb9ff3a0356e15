"""Log lines of services, on the terminal and in files."""

import errno
import io
import os
from pathlib import Path
from typing import IO

import orjson
import pytest

from antiphon.cli.stack import logs as logs_module
from antiphon.cli.stack.logs import LogFiles, LogTail, render
from antiphon.cli.terminal import Terminal


def test_json_log_entries_are_formatted() -> None:
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
def test_other_lines_are_unchanged(line: str) -> None:
    assert render("redis", line).plain == f"redis    │ {line}"


def test_log_files_keep_every_line_and_show_the_last(tmp_path: Path) -> None:
    out = io.StringIO()
    with LogFiles(tmp_path) as logs:
        for number in range(30):
            logs.take("edge", f"line {number}")
        logs.show_tail(Terminal(file=out, width=200))
    assert (tmp_path / "edge.log").read_text().splitlines()[0] == "line 0"
    assert "line 29" in out.getvalue()
    assert "line 3\n" not in out.getvalue()


def test_a_long_log_is_replaced_and_the_one_before_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs_module, "_MAX_BYTES", 20)
    with LogFiles(tmp_path) as logs:
        for number in range(5):
            logs.take("edge", f"line {number} ...")
    assert (tmp_path / "edge.log").read_text() == "line 4 ...\n"
    assert (tmp_path / "edge.log.1").read_text() == "line 2 ...\nline 3 ...\n"
    assert {path.stat().st_mode & 0o077 for path in tmp_path.iterdir()} == {0}


def test_a_full_disk_ends_nothing_and_is_reported_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LogFiles(tmp_path) as logs:
        logs.take("edge", "line 0")
        with monkeypatch.context() as full:
            full.setattr(logs_module, "_MAX_BYTES", 1)  # the next line needs a new file
            full.setattr(logs_module, "fresh_log", _refuse)
            logs.take("edge", "line 1")
            logs.take("edge", "line 2")
        logs.take("edge", "line 3")
    lines = (tmp_path / "edge.log").read_text().splitlines()
    assert lines == ["(the disk did not take 2 lines)", "line 3"]
    assert (tmp_path / "edge.log.1").read_text() == "line 0\n"


def _refuse(_folder: Path, _service: str) -> IO[bytes]:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_tail_orders_the_lines_of_all_services_and_follows_replaced_files(tmp_path: Path) -> None:
    def at(second: int) -> str:
        return orjson.dumps({"timestamp": f"2026-01-02T03:04:{second:02}Z", "event": "e"}).decode()

    tail = LogTail(tmp_path)
    assert tail.fresh() == []
    with LogFiles(tmp_path) as logs:
        for service, line in (("edge", at(1)), ("edge", at(4)), ("worker", at(2))):
            logs.take(service, line)
        logs.take("worker", "  of the same time")
        expected = [("edge", at(1)), ("worker", at(2)), ("worker", "  of the same time")]
        assert tail.fresh() == [*expected, ("edge", at(4))]
        assert tail.fresh() == []
    with (tmp_path / "edge.log").open("a") as file:
        file.write("half")
        file.flush()
        assert tail.fresh() == []
        file.write(" a line\n")
    assert tail.fresh() == [("edge", "half a line")]
    with LogFiles(tmp_path) as logs:
        logs.take("edge", at(5))
    assert tail.fresh() == [("edge", at(5))]
    assert LogTail(tmp_path, "worker").fresh() == expected[1:]


def test_only_a_newline_ends_a_line(tmp_path: Path) -> None:
    """JSON may contain other characters that end lines for Python, such as U+2028 in a user's words."""
    line = '{"event": "said", "text": "one\u2028two\x85three"}'
    with LogFiles(tmp_path) as logs:
        logs.take("edge", line)
        logs.take("edge", "next")
    assert LogTail(tmp_path).fresh() == [("edge", line), ("edge", "next")]
