"""`antiphon doctor` with real Redis servers, healthy and misconfigured."""

import asyncio
import os
import re
import socket
from pathlib import Path
from typing import Any

import orjson
import pytest
from redis.asyncio import Redis

from antiphon.broker.client import open_broker
from antiphon.broker.redis_server.checkup import examine_redis
from antiphon.broker.redis_server.embedded import find_redis_server
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.findings import Finding, FindingStatus
from support.fork_server import run_antiphon
from support.redis_server import (
    REDIS_6,
    RedisServer,
    each_server,
    free_port,
    redis_binary,
    redis_cli,
    server_id,
)

pytestmark = pytest.mark.one_redis


async def examined(settings: BrokerSettings) -> dict[str, Finding]:
    return {finding.about: finding for finding in await examine_redis(settings)}


@pytest.fixture
def sound(redis_server: RedisServer) -> BrokerSettings:
    return BrokerSettings(redis_url=redis_server.url)


async def test_a_healthy_server_passes_every_check(sound: BrokerSettings) -> None:
    async with open_broker(sound):
        pass
    findings = await examined(sound)
    version = findings["redis version"]  # an old patch release is a warning
    assert {finding.verdict for finding in findings.values() if finding is not version} == {
        FindingStatus.OK
    }
    assert set(findings) == {
        *("redis version", "redis role", "redis eviction", "redis memory", "redis persistence"),
        *("redis connections", "redis cluster", "redis keys", "clock", "redis round trip"),
        *("redis rights", "redis writes"),
    }
    assert findings["redis keys"].found == "contract version 3"


@pytest.mark.parametrize("binary", each_server())
async def test_the_product_and_the_version_are_named(tmp_path: Path, binary: Path) -> None:
    product, release = server_id(binary).split("-")
    with RedisServer(tmp_path / "redis", binary=binary) as server:
        found = (await examined(BrokerSettings(redis_url=server.url)))["redis version"].found
    assert (f"Valkey {release}" if product == "valkey" else release) in found


@pytest.mark.skipif(REDIS_6 is None, reason="Redis 6.2.14 is not installed with this Python")
async def test_a_patch_release_with_a_known_vulnerability_is_reported(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis", binary=REDIS_6) as server:
        finding = (await examined(BrokerSettings(redis_url=server.url)))["redis version"]
    assert finding.verdict is FindingStatus.WARNING
    assert "6.2.14" in finding.found
    assert "install 6.2.20 or newer" in finding.remedy


@pytest.mark.parametrize(
    ("setting", "value", "about", "remedy"),
    [
        ("maxmemory", "1000000", "redis memory", "raise maxmemory"),
        ("maxclients", "2", "redis connections", "raise maxclients"),
    ],
)
async def test_a_bad_setting_is_reported_with_its_remedy(
    sound: BrokerSettings, setting: str, value: str, about: str, remedy: str
) -> None:
    async with Redis.from_url(sound.redis_url) as raw:
        await raw.config_set(setting, value)
        finding = (await examined(sound))[about]
    assert finding.verdict is FindingStatus.WARNING
    assert remedy in finding.remedy


async def test_the_command_of_a_remedy_works_as_it_is_printed(
    sound: BrokerSettings, tmp_path: Path
) -> None:
    (tmp_path / "redis-cli").symlink_to(redis_cli())
    path = f"{tmp_path}:{os.environ['PATH']}"
    async with Redis.from_url(sound.redis_url) as raw:
        for setting, value, about, verdict in (
            ("maxmemory-policy", "allkeys-lru", "redis eviction", FindingStatus.FAILURE),
            ("appendonly", "no", "redis persistence", FindingStatus.WARNING),
        ):
            await raw.config_set(setting, value)
            bad = (await examined(sound))[about]
            assert bad.verdict is verdict
            [command] = re.findall(r"redis-cli .*? \w+(?=,|$)", bad.remedy)
            done = await asyncio.create_subprocess_shell(command, env={"PATH": path})
            assert await done.wait() == 0, command
            assert (await examined(sound))[about].verdict is FindingStatus.OK


async def test_another_schema_version_is_reported(sound: BrokerSettings) -> None:
    async with Redis.from_url(sound.redis_url) as raw:
        await raw.hset("{antiphon}:config", "contract", "999")
    assert (await examined(sound))["redis keys"].verdict is FindingStatus.FAILURE


def port_with_bus() -> int:
    """A free port for a cluster node; its bus uses the port plus 10,000."""
    while True:
        port = free_port()
        if port > 55_000:
            continue
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port + 10_000)):
                return port


async def test_a_cluster_with_unserved_slots_is_reported(tmp_path: Path) -> None:
    port = port_with_bus()
    process = await asyncio.create_subprocess_exec(
        *(redis_binary(), "--port", str(port), "--cluster-enabled", "yes", "--dir", str(tmp_path)),
        stdout=asyncio.subprocess.DEVNULL,
    )
    settings = BrokerSettings(redis_url=f"redis://127.0.0.1:{port}/0")
    try:
        async with asyncio.timeout(90), Redis.from_url(settings.redis_url) as raw:
            while "redis cluster" not in (findings := await examined(settings)):
                await asyncio.sleep(0.05)
            assert findings["redis cluster"].verdict is FindingStatus.FAILURE
            assert "0 of 16384" in findings["redis cluster"].found
            await raw.execute_command("CLUSTER ADDSLOTS", *range(16384))
            while (
                found := (await examined(settings))["redis cluster"]
            ).verdict is not FindingStatus.OK:
                await asyncio.sleep(0.05)
            assert found.found == "one master holds all slots"
    finally:
        process.terminate()
        await process.wait()


async def doctor(*args: str, cwd: Path, **env: str) -> tuple[int, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANTIPHON_")}
    done = await asyncio.to_thread(
        run_antiphon,
        *("doctor", *args),
        folder=cwd,
        environment=kept | {"NO_COLOR": "1"} | env,
    )
    return done.returncode, done.stdout


async def test_a_healthy_machine_has_status_0(sound: BrokerSettings, tmp_path: Path) -> None:
    args = ("--redis-url", sound.redis_url, "--engine", "simulated", "--json")
    names = (
        "PORT",
        "HEALTH_PORT",
        "EDGE_HEALTH_PORT",
        "RECORDER_HEALTH_PORT",
        "CLEANUP_HEALTH_PORT",
    )
    ports = {f"ANTIPHON_{name}": "0" for name in names}
    status, shown = await doctor(*args, cwd=tmp_path, **ports)
    findings: list[dict[str, Any]] = orjson.loads(shown)
    assert status == 0
    assert {one["verdict"] for one in findings} <= {"ok", "warning"}
    assert {"python", "recordings", "disk space", "engine"} < {one["about"] for one in findings}
    assert not (tmp_path / "data").exists()


async def test_a_failure_has_status_1_and_a_remedy(tmp_path: Path) -> None:
    away = f"redis://127.0.0.1:{free_port()}/0"
    status, shown = await doctor("--engine", "simulated", cwd=tmp_path, ANTIPHON_REDIS_URL=away)
    assert status == 1
    assert "failure  redis " in shown
    assert "→ start it" in shown


async def test_without_a_redis_the_report_names_the_one_that_up_would_start(tmp_path: Path) -> None:
    (tmp_path / "antiphon.toml").write_text(
        "port = 0\nhealth_port = 0\nedge_health_port = 0\nrecorder_health_port = 0\ncleanup_health_port = 0\n"
    )
    status, shown = await doctor("--engine", "simulated", cwd=tmp_path)
    assert status == 0, shown
    assert (
        f"`antiphon up` starts its own: {find_redis_server().path}" in shown
        or "redis version" in shown
    )
