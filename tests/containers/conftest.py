"""The compose stack, built and started once for all tests of this folder.

Uses the Docker engine of the machine, or as root on Debian a private one (`private_engine.py`).
Building the images takes minutes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon.broker.redis_server.embedded import free_port
from compose import ROOT, Compose
from private_engine import private_engine

ENGINE_FOLDER = Path(os.environ.get("ANTIPHON_TEST_ENGINE", "/var/tmp/antiphon-engine"))


@pytest.fixture(scope="session")
def engine() -> Iterator[dict[str, str]]:
    """The environment for `docker`."""
    if (
        shutil.which("docker")
        and not subprocess.run(["docker", "info"], capture_output=True).returncode
    ):
        yield dict(os.environ)
        return
    if os.geteuid() != 0:
        pytest.fail(
            "no Docker engine answers, and only root may start one: run these tests as root"
        )
    with private_engine(ENGINE_FOLDER) as environment:
        yield environment


SETTINGS = """
# Skip no audio on a busy machine.
ANTIPHON_BACKLOG_CHUNKS=10000
"""


def stack_of(engine: dict[str, str], project: str, **variables: str) -> Compose:
    """A stack of the compose file, on two free ports of this machine. Starts nothing."""
    ports = {"ANTIPHON_HTTP_PORT": str(free_port()), "ANTIPHON_HTTPS_PORT": str(free_port())}
    ports["ANTIPHON_API_KEYS_FILE"] = "./deploy/api_keys_everyone"
    return Compose(ROOT, {**engine, **ports, "COMPOSE_PROJECT_NAME": project, **variables})


@pytest.fixture(scope="session")
def stack(engine: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compose]:
    """The stack of the compose file with its images, and with settings in a file."""
    settings = tmp_path_factory.mktemp("settings") / "antiphon.env"
    settings.write_text(SETTINGS)
    variables = {"ANTIPHON_ENV_FILE": str(settings), "ANTIPHON_STOP_GRACE_S": "12"}
    stack = stack_of(engine, "antiphon-test", **variables)
    try:
        stack("build", "--quiet")
        stack("up", "--detach", "--wait")
        yield stack
    finally:
        stack("--profile", "observability", "down", "--volumes", "--timeout", "20")
