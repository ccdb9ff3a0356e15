"""Tables on the terminal."""

from __future__ import annotations

import pytest

from antiphon.cli.common import print_table, rows_table


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
