"""A real Prometheus over a real stack: every expression of the dashboard and of the alerts has data."""

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import yaml

from antiphon.cli.load.plan import LoadPlan, UserKind
from antiphon.cli.load.run import run_load
from antiphon.cli.load.users import LoadInputs
from antiphon.cli.stack.usage import ProcessUsage
from antiphon.client.options import ClientOptions
from support.chromium import in_ci
from support.dashboards import ALERTS, DEPLOY, drawn, watched
from support.ports import free_port
from support.stack import Service, Stack, until

pytestmark = [
    pytest.mark.extended,
    pytest.mark.skipif(
        shutil.which("prometheus") is None and not in_ci(),
        reason="needs Debian's package prometheus",
    ),
]


def served(stack: Stack) -> dict[str, int]:
    """The whole stack; returns the port of each job's metrics."""
    ports = {job: free_port() for job in ("edge", "worker", "recorder", "cleanup")}
    stack.recorder(recorder_health_port=ports["recorder"])
    stack.start("cleanup_job", cleanup_health_port=ports["cleanup"])
    stack.worker(slots=4, health_port=ports["worker"])
    stack.edge(edge_health_port=ports["edge"])
    return ports


@contextmanager
def prometheus(folder: Path, ports: dict[str, int]) -> Iterator[str]:
    """The shipped configuration with other targets and intervals."""
    config: dict[str, Any] = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(DEPLOY / "alerts.yml")]
    for job in config["scrape_configs"]:
        del job["dns_sd_configs"]
        job["static_configs"] = [{"targets": [f"127.0.0.1:{ports[job['job_name']]}"]}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    url = f"http://127.0.0.1:{free_port()}"
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                *("prometheus", f"--config.file={folder}/prometheus.yml"),
                *(f"--storage.tsdb.path={folder}/tsdb", f"--web.listen-address={url[7:]}"),
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield url
    finally:
        process.terminate()
        process.wait(timeout=90)


async def ask(http: httpx.AsyncClient, expression: str) -> list[dict[str, Any]]:
    answer = await http.get("/api/v1/query", params={"query": expression})
    assert answer.status_code == 200, f"{expression}: {answer.text}"
    found: list[dict[str, Any]] = answer.json()["data"]["result"]
    return found


async def talk(stack: Stack) -> None:
    plan = LoadPlan(
        kinds=(UserKind.AUDIO, UserKind.CHAT),
        sessions=2,
        seconds=8,
        warm_up_s=0,
        every_s=3,
        grace_s=2,
    )
    speech = np.random.default_rng(1).uniform(-0.3, 0.3, 16_000).astype(np.float32)
    inputs = LoadInputs.of([speech], 0.5)
    await run_load(stack.ws_url, ClientOptions(), plan, inputs, lambda: ProcessUsage.of({}))


SPEED = {"AnswersSlow", "ChunksSkipped", "RedisSlow", "UnitsLate"}
"""A busy machine may be slow for the minutes that these alerts look back at."""


async def firing(http: httpx.AsyncClient) -> set[str]:
    """Alerts whose condition holds, pending or firing."""
    answer = await http.get("/api/v1/alerts")
    return {alert["labels"]["alertname"] for alert in answer.json()["data"]["alerts"]}


async def test_every_expression_finds_data_and_alerts_report_a_lost_worker(
    stack: Stack, tmp_path: Path
) -> None:
    ports = served(stack)
    with prometheus(tmp_path, ports) as url:
        async with httpx.AsyncClient(base_url=url) as http:
            await until(lambda: _ready(http))
            await talk(stack)
            for expression in (*drawn(), *watched()):
                await until(lambda e=expression: _finds(http, e), every_s=0.2)
            await until(lambda: _all_is_well(http), every_s=0.2)
            _worker(stack).kill()
            await until(lambda: _fires(http, {"ProcessDown", "NoWorker"}))
    assert {"ProcessDown", "NoWorker"} <= {alert["alert"] for alert in ALERTS}


def _worker(stack: Stack) -> Service:
    return next(one for one in stack.services if one.name == "inference_worker")


async def _ready(http: httpx.AsyncClient) -> bool:
    try:
        return len(await ask(http, "up == 1")) == 4
    except (httpx.HTTPError, AssertionError):
        await asyncio.sleep(0.2)
        return False


async def _finds(http: httpx.AsyncClient, expression: str) -> bool:
    return bool(await ask(http, expression))


async def _all_is_well(http: httpx.AsyncClient) -> bool:
    return await firing(http) <= SPEED


async def _fires(http: httpx.AsyncClient, names: set[str]) -> bool:
    await asyncio.sleep(0.2)
    return names <= await firing(http)
