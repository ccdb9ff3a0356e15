"""`antiphon edge|worker|recorder|cleanup`, which containers run."""

import signal
from pathlib import Path

import orjson
import pytest

from support.fork_server import fork_server, run_antiphon
from support.ports import free_port
from support.processes import without_settings
from support.redis_server import wait_until

SERVICES = [
    (("edge", "--port", "{port}"), "edge_ready"),
    (("worker", "--engine", "simulated", "--health-port", "0"), "worker_ready"),
    (("recorder", "--data-dir", "data"), "recorder_ready"),
    (("cleanup", "--data-dir", "data"), "cleanup_swept"),
]

IMPORTS = (
    "antiphon.cli.commands.serve",
    "antiphon.edge.service",
    "antiphon.inference_worker.worker",
    "antiphon.recorder_service.service",
    "antiphon.cleanup_job.service",
)


def environment(**settings: str) -> dict[str, str]:
    kept = without_settings()
    ports = {f"ANTIPHON_{name}_HEALTH_PORT": "0" for name in ("EDGE", "RECORDER", "CLEANUP")}
    return kept | ports | settings


@pytest.mark.parametrize(("args", "ready"), SERVICES, ids=[args[0] for args, _ in SERVICES])
def test_a_service_runs_until_sigterm(
    args: tuple[str, ...], ready: str, redis_url: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    process = fork_server().start(
        "antiphon.cli.main",
        *(arg.format(port=free_port()) for arg in args),
        folder=tmp_path,
        environment=environment(ANTIPHON_REDIS_URL=redis_url, ANTIPHON_KEY_PREFIX=f"t-{args[0]}"),
        output=log,
        imports=IMPORTS,
    )

    def events() -> list[str]:
        assert process.poll() is None, log.read_text()
        lines = log.read_text().splitlines(keepends=True) if log.exists() else []
        return [orjson.loads(line)["event"] for line in lines if line.endswith("\n")]

    try:
        wait_until(lambda: ready in events(), within_s=60)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
        assert "Traceback" not in log.read_text()
    finally:
        process.kill()


def test_one_sweep_reports_as_json(tmp_path: Path) -> None:
    shown = run_antiphon(
        *("cleanup", "--data-dir", "data", "--dry-run"),
        folder=tmp_path,
        environment=environment(),
    )
    assert shown.returncode == 0
    assert orjson.loads(shown.stdout)["dry_run"] is True


def test_a_dry_run_by_a_setting_stays_a_service(redis_url: str, tmp_path: Path) -> None:
    """A container that ends is started again at once."""
    log = tmp_path / "log"
    dry = environment(
        ANTIPHON_REDIS_URL=redis_url, ANTIPHON_KEY_PREFIX="t-dry", ANTIPHON_DRY_RUN="1"
    )
    process = fork_server().start(
        *("antiphon.cli.main", "cleanup", "--data-dir", "data"),
        folder=tmp_path,
        environment=dry,
        output=log,
        imports=IMPORTS,
    )
    try:
        wait_until(lambda: log.exists() and '"dry_run":true' in log.read_text(), within_s=60)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
    shown = run_antiphon("cleanup", "--help", folder=tmp_path, environment=environment())
    words = " ".join(shown.stdout.replace("│", " ").split())
    assert "the flag, not the variable, implies --once" in words


def test_a_worker_whose_engine_cannot_load_reports_why(redis_url: str, tmp_path: Path) -> None:
    shown = run_antiphon(
        *("worker", "--model-path", "absent.gguf", "--health-port", "0"),
        folder=tmp_path,
        environment=environment(ANTIPHON_REDIS_URL=redis_url, ANTIPHON_KEY_PREFIX="t-absent"),
    )
    assert shown.returncode == 78
    assert "worker_cannot_start" in shown.stderr
    assert "absent.gguf" in shown.stderr
    assert "Traceback" not in shown.stderr
