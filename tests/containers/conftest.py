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


@pytest.fixture(scope="session")
def stack(engine: dict[str, str]) -> Iterator[Compose]:
    """The stack of the compose file, on two free ports of this machine."""
    ports = {"ANTIPHON_HTTP_PORT": str(free_port()), "ANTIPHON_HTTPS_PORT": str(free_port())}
    stack = Compose(ROOT, {**engine, **ports})
    try:
        stack("build", "--quiet")
        stack("up", "--detach", "--wait")
        yield stack
    finally:
        stack("--profile", "observability", "down", "--volumes", "--timeout", "20")
