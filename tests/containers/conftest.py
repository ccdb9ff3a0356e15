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

from compose import Compose, stack_of
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


@pytest.fixture(scope="session")
def images(engine: dict[str, str]) -> dict[str, str]:
    """The environment for `docker`, with the images of the stack."""
    stack_of(engine, "antiphon-test")("build", "--quiet")
    return engine


@pytest.fixture(scope="session")
def stack(images: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compose]:
    """The stack of the compose file with its images, and with settings in a file."""
    settings = tmp_path_factory.mktemp("settings") / "antiphon.env"
    settings.write_text(SETTINGS)
    variables = {"ANTIPHON_ENV_FILE": str(settings), "ANTIPHON_STOP_GRACE_S": "12"}
    stack = stack_of(images, "antiphon-test", **variables)
    try:
        stack("up", "--detach", "--wait")
        yield stack
    finally:
        stack("--profile", "observability", "down", "--volumes", "--timeout", "20")
