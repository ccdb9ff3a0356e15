"""The compose stack as it is run: asked aloud, killed in part, scaled up, stopped."""

from __future__ import annotations

import asyncio
import json
import subprocess
from typing import Any

import pytest
from compose import Compose
from edge_harness import base64_audio
from resuming import Resumer
from spoken import ITALY, silence, spoken, units_of

from client.duplex import connect_duplex

SERVICES = {"redis": 1, "edge": 2, "caddy": 1, "worker": 1, "recorder": 2, "cleanup": 1}


@pytest.mark.parametrize("profile", ["gpu", "observability"])
def test_each_profile_is_valid(stack: Compose, profile: str) -> None:
    stack("--profile", profile, "config", "--quiet")


def test_every_service_runs_as_often_as_the_file_says(stack: Compose) -> None:
    for service, count in SERVICES.items():
        containers = stack.containers(service)
        assert [c["State"] for c in containers] == ["running"] * count, service
        assert {c["Health"] for c in containers} <= {"healthy", ""}


@pytest.mark.parametrize("service", ["edge", "worker", "recorder", "cleanup", "redis"])
def test_services_are_nobody_and_may_write_nowhere(stack: Compose, service: str) -> None:
    assert stack("exec", "-T", service, "id", "-u").strip() == "10001"
    with pytest.raises(AssertionError, match="Read-only file system"):
        stack("exec", "-T", service, "touch", "/opt/mark")


def test_no_image_of_the_default_stack_holds_torch(stack: Compose) -> None:
    for service in ("edge", "worker"):
        found = "import importlib.util; print(importlib.util.find_spec('torch'))"
        assert stack("exec", "-T", service, "python", "-c", found).strip() == "None"


def test_redis_lets_nobody_in_without_the_password(stack: Compose) -> None:
    assert "NOAUTH" in stack("exec", "-T", "redis", "redis-cli", "ping")


def test_metrics_are_for_inside_only(stack: Compose) -> None:
    with pytest.raises(OSError, match="404"):
        stack.get("/metrics")


async def ask(stack: Compose, question: str) -> str:
    """What a client hears back, in words."""
    said = ""
    async with connect_duplex(stack.url, tls=stack.trust) as session:
        await session.prepare("You are a helpful assistant.")
        results = session.results()
        for chunk in [*units_of(spoken(question)), *[silence(1.0)] * 10]:
            await session.send_audio(chunk)
            unit = await anext(results)
            said += unit.text
            if unit.end_of_turn:
                break
            await asyncio.sleep(0.9)
    return said


async def test_a_question_through_the_load_balancer_is_answered(stack: Compose) -> None:
    assert "Rome" in await ask(stack, ITALY)


def edge_of(stack: Compose, sid: str) -> str:
    """The container whose edge holds the session."""
    rows: list[dict[str, Any]] = json.loads(
        stack("exec", "-T", "cleanup", "antiphon", "sessions", "--json")
    )
    edge = next(row["edge"] for row in rows if row["session"] == sid)
    return str(edge.split("-")[1])


async def test_a_session_goes_on_at_the_other_edge_when_its_own_is_killed(stack: Compose) -> None:
    sid = "adx_containers_resume"
    client = Resumer(f"/ws/duplex/{sid}", tls=stack.trust)
    async with client.connected(stack.url):
        await client.expect("queue_done", skip=("queued", "queue_update"))
        await client.send("prepare", prefix_system_prompt="You are a helpful assistant.")
        await client.expect("prepared")
        for _ in range(2):
            await client.send("audio_chunk", audio_base64=base64_audio())
            await client.expect("result")
        killed = edge_of(stack, sid)
        stack.docker("kill", killed)
    async with client.back(stack.url):
        await client.send("audio_chunk", audio_base64=base64_audio())
        await client.expect("result")
        assert edge_of(stack, sid) != killed
        await client.send("stop")
        await client.expect("stopped", skip=("result",))
    stack.docker("start", killed)


def test_more_edges_are_found_without_an_edit(stack: Compose) -> None:
    stack("up", "--detach", "--no-recreate", "--wait", "--scale", "edge=4")
    seen = {stack.get("/health")["edge_id"] for _ in range(40)}
    assert len(seen) == 4
    stack("up", "--detach", "--no-recreate", "--wait", "--scale", "edge=2")
    assert stack.get("/health")["status"] == "healthy"


def test_everything_stops_when_it_is_told_to(stack: Compose) -> None:
    """Nothing has to be killed (137) at the end of its grace period."""
    stack("stop")
    try:
        for service in SERVICES:
            for container in stack.containers(service):
                assert container["ExitCode"] in (0, 143), (service, container)
    finally:
        subprocess.run(
            ["docker", "compose", "-p", "antiphon-test", "start"],
            cwd=stack.folder, env=stack.environment, check=True, capture_output=True,
        )  # fmt: skip
