"""The running compose stack: spoken questions, killed containers, more edges."""

import json
from collections import Counter
from contextlib import closing
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any
from urllib.parse import urlencode

import pytest

from antiphon.cli.stack.processes import HUGE_PAGES
from antiphon.shared_schemas.audio import OUTPUT_RATE
from compose import SERVICES, WITHIN_S, Compose, eventually
from spoken_question import ask
from support.dashboards import ALERTS, drawn
from support.edge_harness import base64_audio
from support.resuming_client import Resumer
from support.synthetic_speech import ITALY

KILL_THE_SERVICE = (
    "import os, pathlib; children = pathlib.Path('/proc/1/task/1/children').read_text().split(); "
    "[os.kill(int(child), 9) for child in children]"
)
"""Kills the processes that init has started, as the kernel does when memory runs out."""


@pytest.mark.parametrize("profile", ["gpu", "observability", "ha"])
def test_each_profile_is_valid(stack: Compose, profile: str) -> None:
    stack("--profile", profile, "config", "--quiet")


def test_the_file_with_calls_is_valid_and_asks_for_the_address(stack: Compose) -> None:
    words = ("-f", "docker-compose.yml", "-f", "deploy/webrtc.yml", "config", "--quiet")
    with pytest.raises(AssertionError, match="WEBRTC_ADDRESSES"):
        stack(*words)
    Compose(stack.folder, {**stack.environment, "WEBRTC_ADDRESSES": "203.0.113.7"})(*words)


class _Models(BaseHTTPRequestHandler):
    """A server with one language model, for any key."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(self.headers["Authorization"]).encode())

    def log_message(self, *_: object) -> None:
        """Prints nothing."""


def test_with_its_file_a_worker_reaches_a_language_model_on_this_host(stack: Compose) -> None:
    files = ("-f", "docker-compose.yml", "-f", "deploy/llm.yml")
    needed = {"LLM_URL": "http://host.docker.internal/v1", "LLM_MODEL": "any"}
    for missing in needed:  # of two missing ones, Compose names either
        others = {name: value for name, value in needed.items() if name != missing}
        with pytest.raises(AssertionError, match=missing):
            Compose(stack.folder, {**stack.environment, **others})(*files, "config", "--quiet")
    asks = (
        "import os, urllib.request as web; "
        "key = open(os.environ['ANTIPHON_LLM_KEY_FILE']).read().strip(); "
        "headers = {'Authorization': f'Bearer {key}'}; "
        "url = os.environ['ANTIPHON_LLM_URL'] + '/models'; "
        "print(web.urlopen(web.Request(url, headers=headers), timeout=60).read().decode())"
    )
    with HTTPServer(("0.0.0.0", 0), _Models) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://host.docker.internal:{server.server_port}/v1"
        compose = Compose(stack.folder, {**stack.environment, **needed, "LLM_URL": url})
        run = ("run", "--rm", "--no-deps", "-T", "--entrypoint", "python", "worker", "-c", asks)
        try:
            assert compose(*files, *run).split() == ["Bearer", "none"]
        finally:
            server.shutdown()


async def test_every_service_has_the_number_of_containers_in_the_file(stack: Compose) -> None:
    for service, count in SERVICES.items():
        health = "" if service == "caddy" else "healthy"
        assert [c["State"] for c in stack.containers(service)] == ["running"] * count, service
        await eventually(
            lambda s=service, h=health: {c["Health"] for c in stack.containers(s)} == {h}
        )


@pytest.mark.parametrize("service", ["edge", "worker", "recorder", "cleanup", "redis"])
def test_services_run_without_privileges_on_a_read_only_root(stack: Compose, service: str) -> None:
    assert stack("exec", "-T", service, "id", "-u").strip() == "10001"
    with pytest.raises(AssertionError, match="Read-only file system"):
        stack("exec", "-T", service, "touch", "/opt/mark")


@pytest.mark.parametrize("service", ["edge", "worker", "recorder", "cleanup", "redis", "caddy"])
def test_the_number_of_processes_is_limited(stack: Compose, service: str) -> None:
    for container in stack.containers(service):
        limit = stack.docker("inspect", "--format", "{{.HostConfig.PidsLimit}}", container["ID"])
        assert limit.strip() == "512"


@pytest.mark.parametrize("service", list(SERVICES))
def test_logs_are_limited(stack: Compose, service: str) -> None:
    container = stack.containers(service)[0]["ID"]
    found = stack.docker("inspect", "--format", "{{json .HostConfig.LogConfig}}", container)
    assert json.loads(found)["Config"] == {"max-size": "20m", "max-file": "5"}


def test_every_service_of_antiphon_has_the_settings_of_the_file_and_huge_pages(
    stack: Compose,
) -> None:
    for service in ("edge", "worker", "recorder", "cleanup"):
        environment = stack("exec", "-T", service, "env").splitlines()
        assert "ANTIPHON_BACKLOG_CHUNKS=10000" in environment
        assert {f"{name}={value}" for name, value in HUGE_PAGES.items()} <= set(environment)


def test_the_default_images_do_not_contain_torch(stack: Compose) -> None:
    for service in ("edge", "worker"):
        found = "import importlib.util; print(importlib.util.find_spec('torch'))"
        assert stack("exec", "-T", service, "python", "-c", found).strip() == "None"


def test_redis_requires_the_password(stack: Compose) -> None:
    assert "NOAUTH" in stack("exec", "-T", "redis", "redis-cli", "ping")


def test_http_redirects_to_https(stack: Compose) -> None:
    port = int(stack.environment["ANTIPHON_HTTP_PORT"])
    with closing(HTTPConnection("localhost", port, timeout=WITHIN_S)) as http:
        http.request("GET", "/omni?lang=en")
        answer = http.getresponse()
    assert answer.status == 308
    there = stack.url.replace("wss", "https")
    assert answer.headers["Location"] == f"{there}/omni?lang=en"


def test_metrics_are_not_public(stack: Compose) -> None:
    with pytest.raises(OSError, match="404"):
        stack.get("/metrics")


async def test_a_question_through_the_load_balancer_is_answered(stack: Compose) -> None:
    spoken_text, samples = await ask(stack, ITALY)
    assert spoken_text
    assert samples > OUTPUT_RATE / 2


def row_of(stack: Compose, sid: str) -> dict[str, Any]:
    """The session's row in `antiphon sessions`; empty without one."""
    rows = json.loads(stack("exec", "-T", "cleanup", "antiphon", "sessions", "--json"))
    return next((row for row in rows if row["session"] == sid), {})


def edge_of(stack: Compose, sid: str) -> str:
    """The container whose edge holds the session."""
    return str(row_of(stack, sid)["edge"].split("-")[1])


async def test_a_session_continues_on_the_other_edge_after_its_edge_is_killed(
    stack: Compose,
) -> None:
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


async def test_a_worker_that_dies_is_restarted_and_its_session_continues(stack: Compose) -> None:
    sid = "adx_containers_worker"
    client = Resumer(f"/ws/duplex/{sid}", tls=stack.trust)
    async with client.connected(stack.url):
        await client.expect("queue_done", skip=("queued", "queue_update"))
        await client.send("prepare", prefix_system_prompt="You are a helpful assistant.")
        await client.expect("prepared")
        first = row_of(stack, sid)
        stack("exec", "--detach", "worker", "python", "-c", KILL_THE_SERVICE)
        await eventually(lambda: row_of(stack, sid).get("attempt") == 2)
        await client.send("audio_chunk", audio_base64=base64_audio())
        await client.expect("result", skip=("queued", "queue_update", "queue_done"))
        assert row_of(stack, sid)["worker"] != first["worker"]
        await client.send("stop")
        await client.expect("stopped")


def targets(stack: Compose) -> Counter[str]:
    """The number of processes of each job that Prometheus scrapes successfully."""
    found = stack.prometheus("targets")[0]["activeTargets"]
    return Counter(one["labels"]["job"] for one in found if one["health"] == "up")


def rules(stack: Compose) -> dict[str, str]:
    """The alerts, and whether Prometheus could evaluate them."""
    groups = stack.prometheus("rules")[0]["groups"]
    return {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}


async def test_prometheus_finds_every_process_and_evaluates_every_rule(stack: Compose) -> None:
    stack("--profile", "observability", "up", "--detach", "--no-recreate", "--wait", "prometheus")
    asked = {"edge": 2, "worker": 1, "recorder": 2, "cleanup": 1}
    await eventually(lambda: targets(stack) == asked)
    stack.prometheus(*(f"query?{urlencode({'query': expression})}" for expression in drawn()))
    states = {alert["alert"]: "ok" for alert in ALERTS}
    await eventually(lambda: rules(stack) == states)


def edge_now(stack: Compose) -> str:
    """The edge that the load balancer chooses."""
    return str(stack.get("/health")["edge_id"])


async def test_new_edges_are_found_without_an_edit(stack: Compose) -> None:
    """By the load balancer and by Prometheus."""
    stack("up", "--detach", "--no-recreate", "--wait", "--scale", "edge=4")
    seen: set[str] = set()
    await eventually(lambda: seen.add(edge_now(stack)) or len(seen) == 4)
    await eventually(lambda: targets(stack)["edge"] == 4)
    stack("up", "--detach", "--no-recreate", "--wait", "--scale", "edge=2")
    assert edge_now(stack) in seen


def test_doctor_reports_no_problem(stack: Compose) -> None:
    assert " 0 failed" in stack(
        "exec", "-T", "cleanup", "antiphon", "doctor", "--engine", "simulated"
    )
