"""The name server does not answer, so that a lookup lasts much longer than a call to Redis may.

The services are not forked: the ends of the interpreter and of its libraries are parts of the test.
"""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from support.chromium import in_ci
from support.processes import ANY_PORTS, without_settings
from support.redis_sentinel import SERVICE, SentinelProcess
from support.redis_server import RedisServer, wait_until
from support.silent_name_server import SilentNameServer, can_replace_name_server

pytestmark = [
    pytest.mark.extended,
    pytest.mark.skipif(
        not in_ci() and not can_replace_name_server(), reason="needs root, and a mount namespace"
    ),
]

HOST = "redis.example"
EXIT_S = 60.0
"""Less than a lookup lasts. Only a failing test reaches it."""

STOPS = (
    ("recorder_service", signal.SIGTERM),
    ("recorder_service", signal.SIGINT),
    ("cleanup_job", signal.SIGTERM),
    ("inference_worker", signal.SIGTERM),
    ("edge", signal.SIGTERM),
)


@pytest.fixture
def name_server(tmp_path: Path) -> Iterator[SilentNameServer]:
    with closing(SilentNameServer(tmp_path)) as server:
        yield server


@contextmanager
def running(
    server: SilentNameServer,
    folder: Path,
    *arguments: str,
    url: str = f"redis://{HOST}",
    timeout_s: int = 1,
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """`python -m ARGUMENTS` with this name server, and the file of its output."""
    settings = {
        "REDIS_URL": url,
        "REDIS_TIMEOUT_S": str(timeout_s),
        "DATA_DIR": str(folder / "data"),
        "ENGINE": "simulated",
    }
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            server.command(sys.executable, "-m", *arguments),
            cwd=folder,
            env=without_settings() | ANY_PORTS | {f"ANTIPHON_{k}": v for k, v in settings.items()},
            stdout=output,
            stderr=output,
        )
        with process:
            try:
                yield process, log
            finally:
                process.kill()


@pytest.mark.parametrize(("service", "stop"), STOPS)
def test_f8_a_service_stops_during_a_lookup(
    service: str, stop: signal.Signals, name_server: SilentNameServer, tmp_path: Path
) -> None:
    with running(name_server, tmp_path, f"antiphon.{service}") as (process, log):
        wait_until(lambda: name_server.lookups(HOST), within_s=60)
        process.send_signal(stop)
        assert process.wait(EXIT_S) in (0, 1)
        assert "Traceback" not in log.read_text()


def test_f8_a_command_ends_during_a_lookup(name_server: SilentNameServer, tmp_path: Path) -> None:
    with running(name_server, tmp_path, "antiphon", "queue") as (process, log):
        assert process.wait(EXIT_S) == 1
        assert f"no address of {HOST} is known" in log.read_text()


def test_f8_attempts_share_a_lookup(name_server: SilentNameServer, tmp_path: Path) -> None:
    with running(name_server, tmp_path, "antiphon.recorder_service") as (_, log):
        reported = f"no address of {HOST} is known (the name service does not answer)"
        wait_until(lambda: log.read_text().count(reported) >= 4, within_s=60)
        assert name_server.lookups(HOST) == 1


def test_f8_lookups_do_not_delay_those_of_other_hosts(
    name_server: SilentNameServer, tmp_path: Path
) -> None:
    unknown = [f"sentinel-{number}.example" for number in range(3)]
    with (
        RedisServer(tmp_path / "redis") as redis,
        SentinelProcess(tmp_path / "sentinel", redis, 5000, None) as sentinel,
        running(
            name_server,
            tmp_path,
            "antiphon.recorder_service",
            url=f"redis+sentinel://{','.join(unknown)},localhost:{sentinel.port}/{SERVICE}",
            timeout_s=30,
        ) as (_, log),
    ):
        wait_until(lambda: "recorder_ready" in log.read_text(), within_s=60)
        assert [name_server.lookups(host) for host in unknown] == [1, 1, 1]
