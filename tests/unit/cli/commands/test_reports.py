"""The folder for the report of a measurement."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from antiphon.cli.main import app


@pytest.mark.parametrize("command", ["bench", "evaluate"])
def test_a_report_that_cannot_be_written_is_refused_first(command: str, tmp_path: Path) -> None:
    taken = tmp_path / "report"
    taken.touch()
    ended = CliRunner().invoke(app, [command, "--url", "ws://127.0.0.1:1", "--out", str(taken)])
    assert ended.exit_code == 1
    assert f"cannot write to {taken}: it is a file; choose another folder" in ended.stderr
