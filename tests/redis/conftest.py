"""The Redis servers, and the cluster, on which these tests run."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from redis.asyncio import Redis
from redis.asyncio import RedisCluster as ClusterClient

from antiphon.broker.settings import BrokerSettings
from support.key_leaks import clear
from support.redis_cluster import RedisCluster, redis_cluster
from support.redis_server import EXTENDED, RedisServer, each_server, redis_binary, server_id
from support.tcp_proxy import TcpProxy, tcp_proxy

BROKER = Path(__file__).parent / "broker"
CLUSTER = Path("cluster")
"""Stands for a cluster among the servers."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The tests of the broker run on every server and on a cluster, and the others on one server."""
    if "redis_program" not in metafunc.fixturenames:
        return
    marks = {mark.name for mark in metafunc.definition.iter_markers()}
    servers, has_own_server = each_server(), "redis_server" in metafunc.fixturenames
    if metafunc.definition.path.parent != BROKER or "one_redis" in marks:
        servers = [pytest.param(redis_binary(), id=server_id(redis_binary()))]
    elif "on_cluster" in marks and "single_server" not in marks and not has_own_server:
        servers.append(pytest.param(CLUSTER, id="cluster", marks=EXTENDED))
    metafunc.parametrize("redis_program", servers, indirect=True, scope="session")


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


@pytest.fixture
async def proxy(settings: BrokerSettings) -> AsyncIterator[TcpProxy]:
    """Leads to the Redis of the test."""
    async with tcp_proxy(urlsplit(settings.redis_url).port or 0) as opened:
        yield opened


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
