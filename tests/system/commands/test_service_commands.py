"""`antiphon edge|worker|recorder|cleanup`, which containers run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from support.redis_server import free_port

SERVICES = [
    (("edge", "--port", "{port}"), "edge_ready"),
    (("worker", "--engine", "simulated", "--health-port", "0"), "worker_ready"),
    (("recorder", "--data-dir", "data"), "recorder_ready"),
    (("cleanup", "--data-dir", "data"), "cleanup_swept"),
]


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "antiphon", *args]


def environment(**settings: str) -> dict[str, str]:
    root = str(Path(__file__).parents[3])
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANTIPHON_")}
    ports = {f"ANTIPHON_{name}_HEALTH_PORT": "0" for name in ("RECORDER", "CLEANUP")}
    return kept | {"PYTHONPATH": root} | ports | settings


@pytest.mark.parametrize(("args", "ready"), SERVICES, ids=[args[0] for args, _ in SERVICES])
def test_a_service_runs_until_sigterm(
    args: tuple[str, ...], ready: str, redis_url: str, tmp_path: Path
) -> None:
    filled = [arg.format(port=free_port()) for arg in args]
    with subprocess.Popen(
        command(*filled),
        cwd=tmp_path,
        env=environment(ANTIPHON_REDIS_URL=redis_url, ANTIPHON_KEY_PREFIX=f"t-{args[0]}"),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        try:
            seen = next(line for line in process.stderr if ready in line)
            assert orjson.loads(seen)["event"] == ready
            process.send_signal(signal.SIGTERM)
            rest = process.stderr.read()
            assert process.wait(30) == 0
            assert "Traceback" not in rest
        finally:
            process.kill()


def test_one_sweep_reports_as_json(tmp_path: Path) -> None:
    shown = subprocess.run(
        command("cleanup", "--data-dir", "data", "--dry-run"),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        timeout=60,
    )
    assert shown.returncode == 0
    assert orjson.loads(shown.stdout)["dry_run"] is True


def test_a_worker_whose_engine_cannot_load_reports_why(redis_url: str, tmp_path: Path) -> None:
    shown = subprocess.run(
        command("worker", "--model-path", "absent.gguf", "--health-port", "0"),
        cwd=tmp_path,
        env=environment(ANTIPHON_REDIS_URL=redis_url, ANTIPHON_KEY_PREFIX="t-absent"),
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    assert shown.returncode == 78
    assert "worker_cannot_start" in shown.stderr
    assert "absent.gguf" in shown.stderr
    assert "Traceback" not in shown.stderr
