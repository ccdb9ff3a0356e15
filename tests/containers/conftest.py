"""The compose stack, built and started once for all tests of this folder.

Uses the Docker engine of the machine, or as root on Debian a private one (`private_engine.py`).
Building the images takes minutes.
"""

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
# A busy machine may stop services and Sentinels for long, and loads a worker's models for a minute: skip no
# audio, and end no session.
ANTIPHON_BACKLOG_CHUNKS=10000
ANTIPHON_BROKER_PATIENCE_S=120
ANTIPHON_RECOVERY_TIMEOUT_S=300
ANTIPHON_RESUME_GRACE_S=120
"""


@pytest.fixture(scope="session")
def images(engine: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment for `docker`, with the images of the stack, and with settings in a file."""
    stack_of(engine, "antiphon-test")("build", "--quiet")
    settings = tmp_path_factory.mktemp("settings") / "antiphon.env"
    settings.write_text(SETTINGS)
    return engine | {"ANTIPHON_ENV_FILE": str(settings)}


@pytest.fixture(scope="session")
def stack(images: dict[str, str]) -> Iterator[Compose]:
    """The stack of the compose file."""
    stack = stack_of(images, "antiphon-test", ANTIPHON_STOP_GRACE_S="12")
    try:
        stack("up", "--detach", "--wait")
        yield stack
    finally:
        stack("--profile", "observability", "down", "--volumes", "--timeout", "20")
