"""Nothing that the commands print controls the terminal, whoever wrote it."""

import ast
import io
import json
import re
from pathlib import Path

import orjson
import pytest
import typer
from rich.live import Live
from rich.text import Text
from typer.testing import CliRunner

from antiphon.cli.commands.replay import _print_table
from antiphon.cli.common import fail, print_table, rows_table
from antiphon.cli.conversation.dialogue import ConversationPrinter
from antiphon.cli.load.run import progress_bar
from antiphon.cli.main import app
from antiphon.cli.replay.compare import OutcomePair, ReplayOutcome, Tolerance, compare
from antiphon.cli.stack.logs import render
from antiphon.cli.terminal import Terminal, echo, echo_json
from antiphon.client.errors import ServerError
from antiphon.shared_schemas.visible_text import MARK
from antiphon.shared_schemas.wire import Error
from support.fork_server import run_antiphon
from support.recordings import recorded

CLI = Path(__file__).parents[3] / "antiphon" / "cli"
HOSTILE = "w\x1b]52;c;aGk=\x07\x1b[2J\x9b31m\x7f\r\b\u202ereversed\u2066\u200b\u2028\U000e0041o"
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u2028\u202a-\u202e\u2066-\u2069]")
PRINTERS = {"print", "Console", "echo", "secho", "print_json", "rprint", "input", "Prompt"}
"""Names that print, except those of the module `terminal`."""


def own(text: str) -> str:
    """Without the sequences of rich: colours, cursor and lines."""
    return re.sub(r"\x1b\[\??[\d;]*[A-Za-z]", "", text)


def direct_prints(path: Path) -> list[str]:
    """Calls that print without the module `terminal`."""
    tree = ast.parse(path.read_text())
    from_terminal = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "antiphon.cli.terminal"
        for alias in node.names
    }
    found = []
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        text = ast.unparse(call.func)
        name = text.rpartition(".")[2]
        if "." not in text:
            direct = name in PRINTERS - from_terminal
        elif name == "print":  # a method of a console
            direct = not text.endswith("console.print")
        elif re.fullmatch(r"sys\.std(out|err)(\.buffer)?\.writ\w+", text):
            direct = "visible(" not in ast.unparse(call)
        else:
            direct = name in PRINTERS or text == "os.write"
        if direct:
            found.append(f"{path.name}:{call.lineno}: {text}")
    return found


def test_only_one_module_prints() -> None:
    files = [path for path in CLI.rglob("*.py") if path.name != "terminal.py"]
    assert len(files) > 30
    assert [line for path in files for line in direct_prints(path)] == []


def test_consoles_show_no_controls() -> None:
    out = io.StringIO()
    terminal = Terminal(file=out, width=200)
    terminal.print(HOSTILE)
    terminal.print(Text(HOSTILE))
    terminal.print(
        render(
            "edge", orjson.dumps({"event": HOSTILE, "text": HOSTILE, "exception": HOSTILE}).decode()
        )
    )
    terminal.print(render("redis", HOSTILE))
    terminal.print(rows_table([{"said": HOSTILE, "kinds": [HOSTILE]}]))
    printer = ConversationPrinter(terminal)
    printer.connected(HOSTILE, HOSTILE)
    printer.error(ServerError(Error(error=HOSTILE, message=HOSTILE, code=HOSTILE)))
    printer.recording(HOSTILE)
    assert not CONTROLS.search(out.getvalue())
    assert out.getvalue().count(f"w{MARK}") == 12


def test_a_live_view_shows_only_its_own_controls() -> None:
    out = io.StringIO()
    with Live(console=Terminal(file=out, force_terminal=True), auto_refresh=False) as screen:
        screen.update(rows_table([{"said": HOSTILE}]), refresh=True)
    assert "\x1b[" in out.getvalue()
    assert not CONTROLS.search(own(out.getvalue()).replace("\r", ""))


def test_no_text_is_markup() -> None:
    out = io.StringIO()
    Terminal(file=out, width=80).print("[red]a[/] [link=http://h]b :smile:")
    assert out.getvalue() == "[red]a[/] [link=http://h]b :smile:\n"


def test_a_table_is_aligned_as_it_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(rows_table([{"a": HOSTILE, "b": "x"}, {"a": "w", "b": "x"}]))
    first, second = (line.rindex("x") for line in capsys.readouterr().out.splitlines()[1:])
    assert first == second


def test_lines_and_errors_show_no_controls(capsys: pytest.CaptureFixture[str]) -> None:
    echo(HOSTILE)
    echo(HOSTILE, err=True, dim=True)
    with pytest.raises(typer.Exit):
        fail(HOSTILE)
    shown = capsys.readouterr()
    assert not CONTROLS.search(own(shown.out + shown.err))


def test_json_escapes_controls_and_keeps_its_value(capsys: pytest.CaptureFixture[str]) -> None:
    echo_json({"said": HOSTILE})
    shown = capsys.readouterr().out
    assert not CONTROLS.search(shown)
    assert orjson.loads(shown) == {"said": HOSTILE}


def test_recordings_show_no_controls(tmp_path: Path) -> None:
    name = recorded(tmp_path / "sessions", prompt=HOSTILE)
    shown = ""
    for words in (
        ["list"],
        ["list", "--wide"],
        ["list", "--text", "reversed"],
        ["show", name],
        ["show", name, "--json"],
    ):
        done = CliRunner().invoke(app, ["recordings", *words, "--data-dir", str(tmp_path)])
        assert done.exit_code == 0, done.output
        shown += done.stdout
    assert shown.count(name) >= 5
    assert f"w{MARK}]52" in shown
    assert not CONTROLS.search(shown)


def test_a_replay_shows_no_controls(capsys: pytest.CaptureFixture[str]) -> None:
    said = ReplayOutcome(speaks=True, text=HOSTILE, ms=1.0)
    pair = OutcomePair(index=0, at_s=0.0, before=said, after=said)
    _print_table([pair], compare([pair], Tolerance()), every=True)
    assert not CONTROLS.search(capsys.readouterr().out)


def test_progress_shows_only_its_own_controls(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress_bar() as report:
        report(HOSTILE, 1, 2)
    shown = capsys.readouterr().err
    assert "of 2" in shown
    assert not CONTROLS.search(own(shown).replace("\r", ""))


@pytest.mark.parametrize(
    "words",
    [
        ["queue", HOSTILE],
        [f"--{HOSTILE}"],
        ["talk", HOSTILE],
        ["status", "--data-dir", f"~{HOSTILE}"],
    ],
)
def test_wrong_words_of_a_command_line_show_no_controls(words: list[str], tmp_path: Path) -> None:
    shown = run_antiphon(*words, folder=tmp_path, environment={"NO_COLOR": "1", "PATH": "/bin"})
    assert shown.returncode not in (0, None)
    assert "52;c;aGk" in shown.stderr
    assert not CONTROLS.search(shown.stdout + shown.stderr)


def test_json_may_have_the_name_of_a_folder_that_is_not_utf8(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for indent in (False, True):
        echo_json({"data": "/home/d\udce4"}, indent=indent)
        assert json.loads(capsys.readouterr().out) == {"data": "/home/d\udce4"}
