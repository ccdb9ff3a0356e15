"""`antiphon bench` and its load generator, with real processes that stall and die."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
import orjson
import pytest

from antiphon.cli.load.plan import LoadPlan, LoadSummary, UserKind
from antiphon.cli.load.run import LoadResult, run_load
from antiphon.cli.load.users import LoadInputs
from antiphon.cli.stack.usage import ProcessUsage
from antiphon.client.options import ClientOptions
from support.stack import Service, Stack, until

pytestmark = pytest.mark.extended

ROOT = Path(__file__).parents[3]


Stages = list[tuple[str, float, float]]


async def load(stack: Stack, plan: LoadPlan, stages: Stages | None = None) -> LoadResult:
    reported = [] if stages is None else stages
    speech = np.random.default_rng(1).uniform(-0.3, 0.3, 16_000).astype(np.float32)
    inputs = LoadInputs.of([speech], plan.speak_ratio)
    return await run_load(
        stack.ws_url,
        ClientOptions(),
        plan,
        inputs,
        usage=lambda: ProcessUsage.of({}),
        report=lambda *stage: reported.append(stage),
    )


def inputs_taken(edge: Service) -> float:
    """How many messages the edge has passed on: of each session, one to prepare and then the chunks."""
    shown = httpx.get(f"{edge.status_url}/metrics").text
    found = re.search(r'edge_hop_seconds_count\{hop="append"\} ([\d.e+]+)', shown)
    return float(found[1]) if found else 0.0


async def test_every_request_that_a_stalled_edge_delayed_is_late(stack: Stack) -> None:
    stack.worker(slots=2, engine_options='{"speak_ms": 1, "listen_ms": 1, "prefill_ms": 1}')
    edge = stack.edge()
    plan = LoadPlan(kinds=(UserKind.AUDIO,), sessions=2, seconds=6, warm_up_s=1)
    stages: Stages = []
    loading = asyncio.create_task(load(stack, plan, stages))
    await until(lambda: inputs_taken(edge) >= 6)
    edge.freeze()
    await asyncio.sleep(2.5)
    edge.thaw()
    summary = LoadSummary.of((await loading).requests)
    assert summary.due == 12
    assert summary.latency_ms["max"] > 1400
    assert summary.late + summary.lost >= 2
    assert stages[:2] == [("users with a turn", count, 2) for count in (1, 2)]
    assert {stage for stage, *_ in stages[2:]} == {"s of warm-up", "s of measurement"}
    assert all(0 <= done <= total for _, done, total in stages)


def test_the_command_starts_a_stack_and_writes_its_report(tmp_path: Path) -> None:
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "antiphon", "bench", "--kinds"),
            "audio,half-duplex,chat,live,openai",
            *("--sessions", "5", "--seconds", "4", "--every", "4", "--form", "s16"),
            *("--warm-up", "1", "--out", "report"),
        ],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    report = orjson.loads((tmp_path / "report" / "report.json").read_bytes())
    assert report["simulated"]
    assert report["kinds"]["audio"]["due"] == report["kinds"]["audio"]["answered"] == 4
    for kind in ("half-duplex", "chat", "openai"):
        assert report["kinds"][kind]["due"] == 1
    live = report["kinds"]["live"]  # only what the model speaks to is counted
    assert 0 < live["due"] == live["answered"] <= 4
    assert report["failures"] == {}
    assert set(report["cpu_ms_per_session_s"]) == {
        *("edge", "worker", "recorder", "cleanup", "redis", "generator")
    }
    assert report["server_cpu_ms_per_session_s"] > 0
    assert len(report["kinds"]["audio"]["worst_ms"]) == 4
    assert "server, all" in ran.stdout
