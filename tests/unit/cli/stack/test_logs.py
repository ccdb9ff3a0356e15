"""Log lines of services, on the terminal and in files."""

from __future__ import annotations

import io
from pathlib import Path

import orjson
import pytest
from rich.console import Console

from antiphon.cli.stack.logs import LogFiles, render


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
        logs.show_tail(Console(file=out, width=200))
    assert (tmp_path / "edge.log").read_text().splitlines()[0] == "line 0"
    assert "line 29" in out.getvalue()
    assert "line 3\n" not in out.getvalue()
