"""The Redis servers, and the cluster, on which these tests run."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis
from redis.asyncio import RedisCluster as ClusterClient

from antiphon.broker.settings import BrokerSettings
from support.key_leaks import clear
from support.redis_cluster import RedisCluster, redis_cluster
from support.redis_server import RedisServer, redis_binaries, server_id

BROKER = Path(__file__).parent / "broker"
CLUSTER = Path("cluster")
"""Stands for a cluster among the servers."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The tests of the broker run on every server, and each other file on one of them or on a cluster."""
    if "redis_program" not in metafunc.fixturenames:
        return
    test, servers = metafunc.definition, redis_binaries()
    on_cluster = _runs_on_cluster(metafunc)
    if test.path.parent == BROKER and not test.get_closest_marker("one_redis"):
        servers += [CLUSTER] if on_cluster else []
    elif on_cluster:
        servers = [CLUSTER]
    else:
        chosen = zlib.crc32(test.path.name.encode()) % len(servers)
        servers = servers[chosen : chosen + 1]
    metafunc.parametrize("redis_program", servers, ids=_id, indirect=True, scope="session")


def _runs_on_cluster(metafunc: pytest.Metafunc) -> bool:
    """The mark is that of the file, unless a test has another one or a server of its own."""
    marks = [mark.name for mark in metafunc.definition.iter_markers()]
    return (
        "on_cluster" in marks
        and not {"single_server", "one_redis"}.intersection(marks)
        and "redis_server" not in metafunc.fixturenames
    )


def _id(program: Path) -> str:
    return "cluster" if program == CLUSTER else server_id(program)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    """Three masters for the whole run."""
    with redis_cluster(tmp_path_factory.mktemp("cluster"), replicas=0) as started:
        yield started


@pytest.fixture(scope="session")
def redis_url(
    redis_program: Path,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    if redis_program == CLUSTER:
        yield request.getfixturevalue("cluster").url
        return
    with RedisServer(tmp_path_factory.mktemp("redis"), binary=redis_program) as server:
        yield server.url


@pytest.fixture
async def raw(
    settings: BrokerSettings, request: pytest.FixtureRequest
) -> AsyncIterator[Redis | ClusterClient]:
    """A plain client on the same Redis, to inspect keys and to change stored times."""
    client: Redis | ClusterClient
    if settings.redis_url.startswith("redis+cluster:"):
        port = request.getfixturevalue("cluster").nodes[0].port
        client = ClusterClient(host="127.0.0.1", port=port)
    else:
        client = Redis.from_url(settings.redis_url)
    async with client:
        yield client


@pytest.fixture(autouse=True)
def no_key_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test, every key expires, or is found by what removes it. Then all keys are deleted."""
    urls: list[str] = []
    if "redis_url" in request.fixturenames:
        urls.append(request.getfixturevalue("redis_url"))
    if "redis_server" in request.fixturenames:
        urls.append(request.getfixturevalue("redis_server").url)
    yield
    checked = request.node.get_closest_marker("leaves_keys") is None
    assert [key for url in urls for key in clear(url, checked=checked)] == []
