"""The private redis-server, with real processes."""

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from redis.asyncio import Redis

from antiphon.broker.client import open_broker
from antiphon.broker.redis_server.embedded import EmbeddedRedis, EmbeddedRedisError
from antiphon.broker.service.logs import hide_in_text
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.states import SessionKind
from support.ports import free_port
from support.processes import all_end
from support.redis_server import each_server


@pytest.fixture(autouse=True)
def no_server_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests run the server of the wheel."""
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))


async def test_data_survives_a_restart(tmp_path: Path) -> None:
    redis = EmbeddedRedis(tmp_path / "with a space")
    with redis:
        assert redis.server is not None
        assert redis.server.product == "Valkey"
        settings = BrokerSettings(redis_url=redis.url)
        async with open_broker(settings) as broker:
            await broker.queue.join("adx_1", SessionKind.AUDIO_DUPLEX, edge="e", recording="r")
        url = redis.url
        redis.stop()
        assert redis.pid is None
        redis.start()
        assert redis.url == url
        async with open_broker(settings) as broker:
            assert await broker.sessions.get("adx_1") is not None


async def test_it_takes_at_most_half_of_the_machines_memory(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path) as redis:
        async with Redis(unix_socket_path=str(redis.socket_path)) as raw:
            info = await raw.info("memory")
    assert 0.4 < info["maxmemory"] / info["total_system_memory"] <= 0.5


def test_it_can_be_started_again_after_a_crash(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path) as redis:
        assert redis.pid is not None
        crashed = psutil.Process(redis.pid)
        crashed.kill()
        crashed.wait(60)
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
    with EmbeddedRedis(tmp_path / "a", port=free_port()) as first:
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
    assert all_end([server])


def can_reach(address: str | int, uid: int) -> bool:
    """Whether a process of this user can connect to a Unix socket or to a port of this machine."""
    program = """
        import os, socket, sys
        os.setuid(int(sys.argv[1]))
        target = sys.argv[2]
        family = socket.AF_INET if target.isdigit() else socket.AF_UNIX
        with socket.socket(family) as link:
            link.connect(("127.0.0.1", int(target)) if target.isdigit() else target)
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(uid), str(address)]
    return subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0


def modes_in(folder: Path) -> set[int]:
    """What users other than the owner may do with anything in this folder."""
    return {path.stat().st_mode & 0o077 for path in folder.rglob("*")}


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can enter; pytest's folders are private."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


async def test_no_other_user_of_the_machine_reaches_it(open_folder: Path) -> None:
    folder = open_folder / "redis"
    with EmbeddedRedis(folder) as redis:
        assert redis.pid is not None
        process = psutil.Process(redis.pid)
        assert not process.net_connections("inet"), "it listens on a TCP port"
        assert redis.socket_path.parent == folder
        async with open_broker(BrokerSettings(redis_url=redis.url)) as broker:
            await broker.queue.join("adx_1", SessionKind.AUDIO_DUPLEX, edge="e", recording="r")
        assert folder.stat().st_mode & 0o077 == 0
        assert modes_in(folder) == {0}
        if os.getuid() == 0:
            assert can_reach(str(redis.socket_path), uid=0)
            assert not can_reach(str(redis.socket_path), uid=65534)


def test_an_existing_folder_that_others_can_read_gets_no_socket(tmp_path: Path) -> None:
    folder = tmp_path / "redis"
    folder.mkdir()
    folder.chmod(0o755)
    with EmbeddedRedis(folder) as redis:
        assert redis.socket_path.parent != folder
        assert redis.socket_path.parent.stat().st_mode & 0o077 == 0
        assert modes_in(folder) == {0}
    assert folder.stat().st_mode & 0o777 == 0o755
    assert not redis.socket_path.parent.exists()


def test_a_path_too_long_for_a_socket_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("x" * 100) / ("y" * 100)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / ("x" * 100)))
    redis = EmbeddedRedis(folder)
    with redis:
        url = redis.url
        assert len(os.fsencode(redis.socket_path)) <= 100
        assert redis.socket_path.parent.stat().st_mode & 0o777 == 0o700
        redis.stop()
        redis.start()
        assert redis.url == url
    assert not redis.socket_path.parent.exists()


@pytest.mark.parametrize("server", each_server())
async def test_the_password_file_of_another_redis_does_not_concern_it(
    server: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a folder whose name is not UTF-8."""
    path = tmp_path / "path"
    path.mkdir()
    (path / "redis-server").symlink_to(server)
    monkeypatch.setenv("PATH", str(path))
    (tmp_path / "password").write_text("secret")
    monkeypatch.setenv("ANTIPHON_REDIS_PASSWORD_FILE", str(tmp_path / "password"))
    with EmbeddedRedis(tmp_path / "r\udce4dis") as redis:
        assert redis.server is not None
        assert redis.server.path == path / "redis-server"
        assert hide_in_text(f"Redis is at {redis.url}") == f"Redis is at {redis.url}"
        settings = BrokerSettings(redis_url=redis.url)
        assert settings.redis_password_file is not None
        async with open_broker(settings) as broker:
            await broker.queue.join("adx_1", SessionKind.AUDIO_DUPLEX, edge="e", recording="r")


def test_a_port_is_opened_only_on_request(tmp_path: Path) -> None:
    port = free_port()
    with EmbeddedRedis(tmp_path, port=port) as redis:
        assert redis.url.startswith("unix://")
        assert can_reach(port, os.getuid())
