"""The commands for Docker in the documents: each is run as it is printed, or is listed here with a reason.

They name the compose file by COMPOSE_FILE, and run in an empty folder, since some write a file.
"""

import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from compose import ROOT, Compose
from support.document_commands import Command, commands

NOT_RUN = {
    r".*--profile gpu|.*worker-gpu": "needs a GPU",
    r".*--profile observability": "needs Grafana's image: test_stack.py starts Prometheus alone",
    r"ANTIPHON_SITE=": "asks Let's Encrypt for a certificate",
    r"docker (push|buildx imagetools) ": "needs a registry",
    r"docker build ": "needs the base image of Docker's registry; compose builds the images here",
    r"deploy/\S+ \S+ --(host|kubernetes) ": "tests/system/commands/test_backup_scripts.py",
    r"deploy/update\.sh$": "replaces every service: test_update.py",
}
"""Patterns of commands and why they are not run."""

FAILS = {"docker compose exec worker antiphon doctor": "cannot write in /data"}
"""The one failure that is expected: only the other services have the volume of recordings."""

COMMANDS = [
    command
    for command in commands()
    if command.words
    and (command.words[0] == "docker" or command.text.startswith("deploy/"))
    and not any(re.match(one, command.text) for one in NOT_RUN)
]


@pytest.fixture(scope="module")
def outside(stack: Compose, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compose]:
    """The same stack, controlled from another folder; afterwards it runs as before."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "deploy").symlink_to(ROOT / "deploy")
    variables = {"COMPOSE_FILE": str(ROOT / "docker-compose.yml"), "COMPOSE_PROGRESS": "plain"}
    yield replace(stack, folder=folder, environment={**stack.environment, **variables})
    stack("up", "--detach", "--wait")


def named(command: Command) -> str:
    return re.sub(r"[^\w.]+", "-", command.text)[:70]


def test_the_commands_are_found() -> None:
    texts = {command.text for command in COMMANDS}
    assert {"docker compose up --build --wait", "docker compose ps"} <= texts
    assert len(COMMANDS) > 15


@pytest.mark.parametrize("command", COMMANDS, ids=named)
def test_a_command_works_as_it_is_printed(command: Command, outside: Compose) -> None:
    outside("up", "--detach", "--no-recreate", "--wait")  # a command before may have stopped it
    if "--follow" in command.words:
        follow(command.text, outside)
    elif (failure := FAILS.get(command.text)) is not None:
        with pytest.raises(AssertionError, match=r" 1 failed") as failed:
            outside.run("sh", "-euc", command.text)
        assert failure in str(failed.value)
    else:
        outside.run("sh", "-euc", command.text)


def follow(text: str, stack: Compose) -> None:
    """The command prints a line, and runs until Ctrl-C."""
    with subprocess.Popen(
        ["sh", "-euc", f"exec {text}"],
        cwd=stack.folder,
        env=stack.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


def test_the_certificate_was_written(outside: Compose) -> None:
    """By a command of docs/deployment.md."""
    text = (Path(outside.folder) / "antiphon-root.crt").read_text()
    assert text.startswith("-----BEGIN CERTIFICATE-----")
