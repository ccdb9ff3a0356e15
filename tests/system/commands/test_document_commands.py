"""The shell commands in the documents: each is run as it is printed, or is listed here with a reason.

`test_document_snippets.py` and `test_examples.py` run the programs, `test_redis_keys.py` the examples of
docs/redis-keys.md.
"""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest
import trustme
import yaml

from antiphon.cli.stack.stack_file import StackFile, publish_stack
from support.document_commands import (
    SHELLS,
    Command,
    blocks,
    check_antiphon,
    check_docker,
    check_files,
    check_make,
    check_npm,
    check_packages,
    check_python,
    commands,
    inline_commands,
)
from support.fork_server import run_antiphon
from support.processes import ANY_PORTS, without_settings
from support.redis_server import redis_cli
from support.stack import Stack, new_stack, until

QUESTION = Path(__file__).parents[3] / "antiphon" / "cli" / "assets" / "question.wav"
CHECKS: dict[str, Callable[[list[str]], None]] = {
    "antiphon": check_antiphon,
    "docker": check_docker,
    "helm": check_files,
    "kubectl": check_files,
    "make": check_make,
    "npm": check_npm,
    "pip": check_packages,
    "pytest": check_files,
    "python": check_python,
    "python3": check_python,
    "uv": check_packages,
}
"""What is checked of every command of a program, whether it is run or not."""

NOT_RUN = {
    r"antiphon up\b": "runs until Ctrl-C: test_demo_and_up.py, test_background_stack.py",
    r"antiphon (down|logs)\b": "needs a stack in the background: test_background_stack.py",
    r"antiphon models (get|remove)": "needs the internet: tests/unit/cli/commands/test_models.py",
    r"antiphon talk --mic": "needs a sound card: tests/unit/cli/conversation/test_sound.py",
    r"antiphon recordings replay ID$": "needs a sound card: test_recordings_command.py",
    r"antiphon (worker|doctor) .*minicpmo": "needs a GPU and the weights",
    r"antiphon doctor .*backend": "needs servers of other projects: tests/unit/inference_worker/engines",
    r"antiphon doctor .*echo": "needs the package of the page: tests/unit/inference_worker/engines",
    r"antiphon bench": "measures for half a minute and more: test_bench.py has a shorter run",
    r"antiphon evaluate": "takes minutes: tests/system/commands/test_evaluate.py has a shorter run",
    r"antiphon queue cancel": "needs a waiting session: tests/redis/cli/test_admin.py",
    r"antiphon worker drain": "stops a worker: tests/redis/cli/test_admin.py",
    r"deploy/\S+ \S+ --(host|kubernetes) ": "test_backup_scripts.py, with other folders",
    r"(docker |deploy/)": "needs Docker: tests/containers/test_documented_commands.py",
    r"(kubectl|helm) ": "needs Kubernetes: tests/unit/test_helm_chart.py renders the chart",
    r"(systemctl|find|tar|ln) ": "changes the system",
    r"make ": "builds, or runs other tests",
    r"cd web && npm ci && npm run dev": "installs, and runs until Ctrl-C",
    r"cd web && npm ci && npm run package": "tests/browser/test_call_element.py",
    r"npm ": "make check and make test run it",
    r"(pip|uv|uvx|python3 -m venv|python3 tools/(install|uv_program)\.py)\b": "changes the installation",
    r"(python|pytest)\b": "runs other tests or measures",
    r"git ": "changes the checkout",
    r"apt-get ": "changes the system",
    r"curl -N ": "streams without end: tests/system/edge/test_admin_feed.py",
    r"redis-cli ACL": "changes the users of Redis: tests/system/stack/test_redis_rights.py",
    r"redis-cli .*\{antiphon\}|redis-cli .*antiphon:": "tests/system/stack/test_redis_keys.py",
}
"""Patterns of commands and why they are not run."""

RUN = ("antiphon", "redis-cli", "openssl", "umask", "echo")
"""Programs of the commands that are run."""

COMMANDS = [command for command in commands() if command.words]
"""A line of an environment file is no command; test_documents.py checks its name."""


def named(command: Command) -> str:
    return re.sub(r"[^\w.]+", "-", command.text)[:70]


def normal(command: Command) -> str:
    """The command without assignments and folders of programs."""
    text = re.sub(r"^(\w+=\S+ )+", "", command.text)
    return re.sub(r"^\S*/(?=(antiphon|pip|pytest|python)\b)", "", text)


def reason(command: Command) -> str | None:
    """Why the command is not run."""
    return next((why for one, why in NOT_RUN.items() if re.match(one, normal(command))), None)


TO_RUN = [command for command in COMMANDS if reason(command) is None]


@pytest.mark.parametrize("command", COMMANDS, ids=named)
def test_a_command_is_run_or_has_a_reason(command: Command) -> None:
    program = command.words[0]
    if reason(command) is None:
        assert program in RUN, f"{command.document}: run {command.text!r}, or give a reason"
    if (check := CHECKS.get(program)) is not None:
        check(command.words)


def test_the_commands_in_sentences_exist() -> None:
    """With their flags, services, extras and files."""
    found = inline_commands(CHECKS)
    assert len(found) > 60
    for command in found:
        CHECKS[command.words[0]](command.words)


def test_the_commands_of_the_documents_are_found() -> None:
    texts = {command.text for command in COMMANDS}
    assert {"make demo", "docker compose ps", ".venv/bin/antiphon talk"} <= texts
    assert len(TO_RUN) > 20


OTHER_LANGUAGES = {
    "": "output, or messages of a protocol",
    "text": "formulas and listings",
    "ini": "needs systemd",
    "nginx": "needs nginx",
    "xml": "needs Twilio",
    "promql": "needs Prometheus; test_metrics_document.py checks the names of metrics",
    "mermaid": "a diagram",
    "html": "parts of examples/call.html: tests/browser/test_call_element.py",
    "ts": "parts of pages; make check checks the pages",
}
"""Languages of blocks that are neither run nor parsed, and why."""


def test_every_block_is_run_parsed_or_has_a_reason() -> None:
    programs = {
        text
        for document, language, text in blocks()
        if language in ("python", "js") and re.fullmatch(r"README\.md|docs/[\w-]+\.md", document)
    }  # those of test_examples.py and test_document_snippets.py
    for document, language, text in blocks():
        if language in ("python", "js"):
            assert text in programs, f"{document}: no test runs {text}"
        elif language == "yaml":
            assert list(yaml.safe_load_all(text)), document
        elif language == "toml":
            assert tomllib.loads(text), document
        elif language == "json":
            assert orjson.loads(text), document
        else:
            assert language in (*SHELLS, *OTHER_LANGUAGES), f"{document}: a block in {language}"


@dataclass(frozen=True)
class Place:
    """A folder with the files that the commands name, beside a running stack."""

    stack: Stack
    folder: Path
    recording: str

    def fill(self, text: str) -> str:
        """The command with the names of this stack in place of the printed ones."""
        text = re.sub(r"\bID\b", self.recording, text)
        return re.sub(
            r"(127\.0\.0\.1|host|localhost):8006", f"127.0.0.1:{self.stack.edge_port}", text
        )

    @property
    def environment(self) -> dict[str, str]:
        kept = without_settings()
        return kept | ANY_PORTS | {"PATH": f"{self.folder}/bin:{kept['PATH']}", "NO_COLOR": "1"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("documents")
    with new_stack(folder) as stack:
        stack.prefix = "antiphon"
        stack.edge()
        stack.recorder(recorder_settle_s=0.1)
        stack.worker("simulated", slots=8, engine_options='{"cycle_units": 4, "listen_ms": 500}')
        _files(stack, folder)
        # The recorder creates it too, at its own time.
        stack.data_dir.mkdir(exist_ok=True)
        with publish_stack(stack.data_dir) as publish:
            publish(StackFile(pid=os.getpid(), redis_url=stack.redis.url, edge_url=stack.ws_url))
            unfilled = Place(stack, folder, "")
            _run(Command("antiphon talk", ""), unfilled)
            yield Place(stack, folder, asyncio.run(_recorded(stack.data_dir / "sessions")))


def _files(stack: Stack, folder: Path) -> None:
    shutil.copy(QUESTION, folder / "question.wav")
    certificate = trustme.CA().issue_cert("voice.example.org")
    certificate.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    tools = {
        "redis-cli": f'exec "{redis_cli()}" -p {stack.redis.port} "$@"',
        "antiphon": f'exec "{sys.executable}" -P -m antiphon "$@"',
    }
    (folder / "bin").mkdir()
    for name, line in tools.items():
        (folder / "bin" / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / "bin" / name).chmod(0o755)


async def _recorded(sessions: Path) -> str:
    """The id of the recording, once it is complete."""

    def complete() -> str | None:
        for meta in sessions.glob("*/meta.json"):
            if orjson.loads(meta.read_bytes())["state"] == "complete":
                return meta.parent.name
        return None

    await until(complete, within_s=60)
    recording = complete()
    assert recording is not None
    return recording


_ON_A_BUSY_MACHINE = {"replay": ("--slower", "1000")}
"""Options of commands that compare durations: other programs of this machine change those."""


def _run(command: Command, place: Place) -> None:
    text = place.fill(command.text)
    if command.is_simple and command.words[0] == "antiphon":
        arguments = Command(text, "").words[1:]
        ended = run_antiphon(
            *arguments,
            *_ON_A_BUSY_MACHINE.get(arguments[0], ()),
            folder=place.folder,
            environment=place.environment | command.environment,
        )
    else:
        shell = ["sh", "-euc", text]
        ended = subprocess.run(
            shell,
            cwd=place.folder,
            env=place.environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert ended.returncode == 0, f"{text}\n{ended.stdout}{ended.stderr}"


@pytest.mark.extended
@pytest.mark.parametrize("command", TO_RUN, ids=named)
def test_a_command_works_as_it_is_printed(command: Command, place: Place) -> None:
    if "openssl" in command.text and shutil.which("openssl") is None:
        pytest.skip("there is no openssl")
    _run(command, place)
