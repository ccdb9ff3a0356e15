"""The `antiphon` command as a shell sees it."""

import asyncio
import os
import re
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from antiphon.broker.settings import BrokerSettings
from antiphon.cleanup_job.settings import CleanupSettings
from antiphon.cli.help import EXAMPLES, examples
from antiphon.cli.main import _COMMANDS, LazyCommand, app
from antiphon.edge.settings import EdgeSettings
from antiphon.inference_worker.engines.registry import engine_names
from antiphon.inference_worker.settings import WorkerSettings
from antiphon.recorder_service.settings import RecorderSettings
from antiphon.shared_schemas.constant import names_of
from support.fork_server import run_antiphon
from support.python_code import run_code
from support.scripted_server import Scripted, Wire

CLI: Any = typer.main.get_command(app)
COMMANDS = (
    *("up", "down", "status", "logs", "recordings"),
    *("talk", "chat", "demo", "replay", "evaluate", "edge", "worker", "recorder", "cleanup"),
    *("queue", "sessions", "workers", "edges", "events"),
)
KEY = "k0123456789abcdef"
QUESTION = Path(__file__).parents[3] / "antiphon" / "cli" / "assets" / "question.wav"
HEAVY = ("numpy", "redis", "fastapi", "soundfile", "websockets")


def antiphon(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    """The command in a new process, which is a fork: the imports would take most of the time."""
    environment = os.environ | {"NO_COLOR": "1", "COLUMNS": "100"} | env
    return run_antiphon(*args, folder=Path.cwd(), environment=environment)


def help_of(command: str, columns: int) -> str:
    env = {"COLUMNS": str(columns), "NO_COLOR": "1"}
    return CliRunner().invoke(app, [command, "-h"], env=env).stdout


def test_help_lists_every_command() -> None:
    """Started as a module, the command calls itself `python -m antiphon`."""
    shown = subprocess.run(
        [sys.executable, "-m", "antiphon", "--help"], capture_output=True, text=True, timeout=60
    )
    assert shown.returncode == 0
    assert "python -m antiphon" in shown.stdout
    assert all(f" {command} " in shown.stdout for command in COMMANDS)


SETTINGS = {
    name: (cls.model_fields[name].default, f"ANTIPHON_{name.upper()}")
    for cls in (BrokerSettings, EdgeSettings, WorkerSettings, RecorderSettings, CleanupSettings)
    for name in names_of(cls)
}


@pytest.mark.parametrize("command", ["up", "edge", "worker", "recorder", "cleanup", "doctor"])
def test_help_names_defaults_and_variables_of_settings(command: str) -> None:
    """As the services read them."""
    shown = help_of(command, 400)
    named = [name for name in SETTINGS if f"│ --{name.replace('_', '-')} " in shown]
    assert len(named) >= (4 if command in ("up", "worker") else 2)
    for name in named:
        default, variable = SETTINGS[name]
        [line] = [line for line in shown.splitlines() if f"│ --{name.replace('_', '-')} " in line]
        assert f"[env: {variable}]" in line
        if name != "redis_url" and default not in (None, False):
            assert f"[default: {default}]" in line


@pytest.mark.parametrize("command", ["up", "worker", "doctor", "bench", "evaluate"])
def test_help_lists_the_engines_of_the_registry(command: str) -> None:
    assert f"<{'|'.join(engine_names())}>" in help_of(command, 200)


EXAMPLE_LINES = [line for lines in EXAMPLES.values() for line in lines]


@pytest.mark.parametrize("line", EXAMPLE_LINES)
def test_the_examples_of_the_help_are_valid(line: str) -> None:
    """Checks commands, options and their values, without running them."""
    _, name, *args = shlex.split(line)
    command = CLI.commands[name].loaded()
    context = command.make_context(name, args)
    if hasattr(command, "commands") and (rest := context._protected_args + context.args):
        action, chosen, given = command.resolve_command(context, rest)
        chosen.make_context(action, given, parent=context)


def test_every_help_fits_into_80_columns_and_has_its_examples_unbroken() -> None:
    overview = antiphon("-h", COLUMNS="80").stdout
    assert all(f"─ {panel} ─" in overview for panel in _COMMANDS)
    shown = overview
    for command in CLI.commands:
        helped = CliRunner().invoke(app, [command, "-h"], env={"COLUMNS": "80", "NO_COLOR": "1"})
        assert helped.exit_code == 0, command
        assert f" {command} [OPTIONS]" in helped.stdout
        shown += helped.stdout
    assert [line for line in shown.splitlines() if len(line) > 80] == []
    printed = [line.strip() for line in shown.splitlines()]
    texts = [examples(name) or "" for name in EXAMPLES]
    lines = [line.strip() for text in texts for line in text.splitlines()]
    assert [line for line in lines if line not in printed] == []
    assert "<bool>" not in shown
    assert "env var:" not in shown


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("antiphon rec", {"recordings", "recorder"}),
        ("antiphon recordings ex", {"export"}),
        ("antiphon worker --engine sim", {"simulated"}),
        ("antiphon talk --pat", {"--patience"}),
        ("antiphon recordings list --state c", {"complete"}),
    ],
)
def test_the_shell_completes(words: str, completed: set[str]) -> None:
    count = str(len(words.split()) - 1)
    code = "import sys, antiphon.cli.main as cli; sys.argv[:] = ['antiphon']; cli.main()"
    completion = {"_ANTIPHON_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": count}
    shown = run_code(code, environment=os.environ | completion)
    assert set(shown.stdout.split()) == completed, shown.stderr


def test_version() -> None:
    for flag in ("-V", "--version"):
        assert antiphon(flag).stdout == f"antiphon {version('antiphon')}\n"


@pytest.mark.parametrize("command", [(), ("talk",)])
def test_help_imports_nothing_heavy(command: tuple[str, ...]) -> None:
    code = (
        "import sys, antiphon.cli.main as cli; from typer.testing import CliRunner;"
        f"CliRunner().invoke(cli.app, [*{command!r}, '--help']);"
        f"print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert shown.stdout == "[]\n"


@pytest.mark.parametrize("name", list(CLI.commands))
def test_help_and_command_have_the_same_description(name: str) -> None:
    listed = CLI.commands[name]
    assert isinstance(listed, LazyCommand)
    loaded = listed.loaded()
    assert loaded.help
    if not hasattr(loaded, "commands"):
        assert listed.help == loaded.help.splitlines()[0]


@pytest.mark.parametrize(
    ("args", "status", "words"),
    [
        (("talk", "a.wav", "--mic"), 2, "not both"),
        (("talk", "absent.wav"), 1, "there is no file absent.wav"),
        (("evaluate", "--url", "ws://a", "-e", "local"), 2, "not both"),
        (("evaluate", "--quick", "--cases", "3"), 2, "give it or --cases"),
        (("evaluate", "--only", "pauses"), 2, "--only pauses: choose from question, pause"),
        (("evaluate", "--only", "pause", "-u", "ws://127.0.0.1:1"), 1, "127.0.0.1:1"),
        (("worker", "--slots", "0"), 78, "--slots: must be at least 1"),
        (("queue", "--redis-url", "redis://127.0.0.1:1/0"), 1, "Redis does not answer"),
        (("up", "--redis-port", "65536"), 2, "--redis-port"),
        (("up", "--redis-port", "-1"), 2, "--redis-port"),
    ],
)
def test_mistakes_are_reported_without_a_traceback(
    args: tuple[str, ...], status: int, words: str
) -> None:
    shown = antiphon(*args)
    assert shown.returncode == status
    assert words in shown.stderr
    assert "Traceback" not in shown.stderr


MISSPELT = ("PROT", "8006", "ANTIPHON_PROT is not a setting; did you mean ANTIPHON_PORT?")


@pytest.mark.parametrize(
    ("command", "name", "value", "words"),
    [
        *((command, *MISSPELT) for command in ("up", "recorder", "cleanup", "demo")),
        ("edge", "REDIS_TIMEOUT_S", "soon", "ANTIPHON_REDIS_TIMEOUT_S: must be a number"),
        ("worker", "MAX_CHUNK_S", "3", "ANTIPHON_MAX_CHUNK_S is no longer a setting: remove it"),
    ],
)
def test_a_misspelt_or_invalid_variable_stops_the_start(
    command: str, name: str, value: str, words: str
) -> None:
    shown = antiphon(command, **{f"ANTIPHON_{name}": value})
    assert (shown.returncode, words in shown.stdout + shown.stderr) == (78, True), shown
    assert "Traceback" not in shown.stdout + shown.stderr


@pytest.mark.parametrize(
    ("args", "env"),
    [(("--api-key", KEY), {}), ((), {"ANTIPHON_API_KEY": KEY})],
    ids=["option", "environment"],
)
async def test_talk_sends_its_key(args: tuple[str, ...], env: dict[str, str]) -> None:
    async def script(wire: Wire) -> None:
        await wire.send("error", error="no", message="not today", code="queue_full")
        await wire.socket.close(1013)

    async with Scripted(script).running() as server:
        call = ("talk", str(QUESTION), "--url", server.url, *args)
        shown = await asyncio.to_thread(antiphon, *call, **env)
    assert server.key == f"Bearer {KEY}"
    assert (shown.returncode, "not today" in shown.stderr) == (1, True)
    assert KEY not in shown.stdout + shown.stderr


@pytest.mark.parametrize("question", ["What is Japan's capital?", "日本の首都は？", "Why? " * 100])
def test_words_in_place_of_a_file_lead_to_chat(question: str) -> None:
    refused = antiphon("talk", question, "--url", "ws://127.0.0.1:1")
    assert refused.returncode == 1
    suggested = shlex.split(re.findall(r"`(.*)`", refused.stderr)[0])
    assert suggested[1:] == ["chat", question, "--url", "ws://127.0.0.1:1"]
    asked = antiphon(*suggested[1:])
    assert asked.returncode == 1
    assert "nothing listens there" in asked.stderr


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        ("chat <&-", 2, "the question is empty"),
        ("-V >&-", 0, ""),
        ("-V <&- >&- 2>&-", 0, ""),
    ],
)
def test_a_closed_stream_is_an_empty_one(words: str, status: int, says: str) -> None:
    """As under some schedulers."""
    line = f"exec {sys.executable} -m antiphon {words}"
    shown = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=60)
    assert (shown.returncode, says in shown.stderr) == (status, True), shown
    assert "Traceback" not in shown.stdout + shown.stderr


def test_a_chat_needs_a_question() -> None:
    empty = antiphon("chat", " ")
    assert (empty.returncode, empty.stderr) == (2, "antiphon: the question is empty\n")
