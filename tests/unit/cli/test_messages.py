"""Commands that messages suggest: they exist, with their flags, and name the stack that they are about."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon.cli.common import command
from support.document_commands import check_antiphon

ROOT = Path(__file__).parents[3]
SOURCES = [
    path
    for folder in ("antiphon/cli", "antiphon/client", "broker", "edge", "inference_worker")
    for path in (ROOT / folder).rglob("*.py")
]
OF_A_STACK = ("down", "logs", "status", "talk", "queue", "sessions", "workers", "edges", "events")
"""Commands that ask a running stack: in another folder than `data` they need a flag."""


def messages(tree: ast.AST) -> Iterator[str]:
    """The strings of a module that are no documentation, with `…` for each value in them."""
    silent: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            silent.add(node.value)  # a docstring
        if isinstance(node, ast.keyword) and node.arg == "help":
            silent |= set(ast.walk(node))
        if isinstance(node, ast.JoinedStr):
            silent |= set(ast.walk(node)) - {node}
    for node in ast.walk(tree):
        if node in silent:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values
            )


def built(tree: ast.AST) -> Iterator[str]:
    """The words of the calls that build a command line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("command", "command_there"):
            yield from messages(node.args[0])


def test_the_commands_in_messages_exist() -> None:
    quoted, lines = [], []
    for path in SOURCES:
        tree = ast.parse(path.read_text())
        quoted += [
            found for text in messages(tree) for found in re.findall(r"`antiphon ([^`]+)`", text)
        ]
        lines += list(built(tree))
    assert len(quoted) > 10
    assert len(lines) > 8
    for text in (*quoted, *lines):
        if text != "…":  # the name of a service
            check_antiphon(["antiphon", *shlex.split(text.replace("…", "x"))])


def test_messages_of_commands_name_the_stack_that_they_are_about() -> None:
    """`command` and `command_there` add the flag; a plain name of a command cannot."""
    plain = rf"`antiphon ({'|'.join(OF_A_STACK)})\b"
    found = [
        f"{path.name}: {text}"
        for path in (ROOT / "antiphon" / "cli").rglob("*.py")
        for text in messages(ast.parse(path.read_text()))
        if re.search(plain, text) and path.name not in ("main.py", "help.py")
    ]
    assert found == []


def test_a_command_line_names_another_folder_than_the_configured_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert shlex.split(command("logs"))[1:] == ["logs"]
    assert shlex.split(command("logs", Path("data")))[1:] == ["logs"]
    assert shlex.split(command("logs", tmp_path / "data"))[1:] == ["logs"]
    other = tmp_path / "it's here"
    assert shlex.split(command("logs -f", other))[1:] == ["logs", "-f", "--data-dir", str(other)]
    monkeypatch.setenv("ANTIPHON_DATA_DIR", str(other))
    assert shlex.split(command("logs", other))[1:] == ["logs"]
    assert shlex.split(command("logs", Path("data")))[1:] == ["logs", "--data-dir", "data"]
