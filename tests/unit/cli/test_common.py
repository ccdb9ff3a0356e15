"""Tables on the terminal, and the name of the program in messages."""

import sys
from pathlib import Path

import pytest

from antiphon.cli.common import plain_table, print_table, program, rows_table


def test_a_table_can_have_fewer_columns(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(rows_table([{"id": "a", "none": None, "device": "cpu"}], ("id", "none")))
    assert capsys.readouterr().out.split() == ["id", "a"]


def test_tables_are_never_truncated(capsys: pytest.CaptureFixture[str]) -> None:
    wide = "x" * 120
    rows = [{"id": wide, "kinds": ["a", "b"], "none": None, "counters": {"n": 1}}]
    print_table(rows_table(rows))
    header, row = capsys.readouterr().out.splitlines()
    assert header.split() == ["id", "kinds"]
    assert row.split() == [wide, "a,", "b"]


def test_a_terminal_folds_the_prose_of_a_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    question = "What is the capital of Italy, and for what is it known?"
    row = {"id": "x" * 32, "question": question, "answer": "It is Rome."}
    table = rows_table([row], prose=("question", "answer"))
    print_table(table)
    assert len(capsys.readouterr().out.splitlines()) == 2
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich: it is a terminal
    monkeypatch.setenv("TERM", "dumb")  # 80 columns, without escape sequences
    print_table(table)
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) > 2
    assert max(map(len, shown)) <= 80
    assert "x" * 32 in shown[1]


def test_a_table_without_names_of_columns_has_no_first_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = plain_table("", "")
    table.add_row("state", "complete")
    print_table(table)
    assert capsys.readouterr().out.split() == ["state", "complete"]


def test_messages_name_the_program_as_the_user_can_type_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "my project"
    scripts, others = project / ".venv/bin", tmp_path / "others"
    for folder in (scripts, others):
        folder.mkdir(parents=True)
        (folder / "antiphon").touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(scripts / "python"))
    monkeypatch.setenv("PATH", str(scripts))
    assert program() == "antiphon"
    monkeypatch.setenv("PATH", str(others))
    monkeypatch.chdir(project)
    assert program() == ".venv/bin/antiphon"
    monkeypatch.chdir(tmp_path)
    assert program() == "'my project/.venv/bin/antiphon'"
    monkeypatch.chdir(others)
    assert program() == f"'{scripts}/antiphon'"
    (scripts / "antiphon").unlink()
    assert program() == "antiphon"
